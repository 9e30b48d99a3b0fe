"""What a training comes to hold in later steps than the one that is rehearsed."""

import ast

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import BackboneFinetuning, BaseFinetuning, EMAWeightAveraging
from small import Points, Small, Unfreezing

from twinrun.training.first_step import FirstStep
from twinrun.training.foreseen import foreseen_of, may_thaw, thaws
from twinrun.training.sanity_check import SanityCheck

HIDDEN, OUTPUT = 4 * (4 * 8 + 8), 4 * (8 + 1)  # bytes of the layers of Small


class Adam(Small):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Frozen(Adam):
    """Never trains its first layer."""

    def __init__(self):
        super().__init__()
        self.hidden.requires_grad_(False)


class Thawed(Frozen):
    """Trains it later: a callback says so."""

    def configure_callbacks(self):
        return [Thaws()]


class Thaws(BaseFinetuning):
    def freeze_before_training(self, pl_module):
        self.freeze(pl_module.hidden)

    def finetune_function(self, pl_module, epoch, optimizer):
        if epoch == 5:
            self.unfreeze_and_add_param_group(pl_module.hidden, optimizer)


class Plain(Frozen):
    """By an optimizer without a state."""

    def configure_callbacks(self):
        return [Thaws()]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Whole(Small):
    """By an optimizer that comes to remember ten steps."""

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), history_size=10, max_iter=2)


def seen(module, callbacks=(), files=(), key=None):
    step = FirstStep()
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[*callbacks, step],
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, Points())
    found = foreseen_of(
        trainer, module, step.optimizer_bytes, precision="32-true", base=7, files=files
    )
    assert (found["precision"], found["base_memory_mb"]) == ("32-true", 7)
    return found[key] if key else (found["gradients_bytes"], found["optimizer_bytes"])


class Holds(pl.Callback):
    """Keeps the module, which counts already, and the same tensor under two names."""

    def on_fit_start(self, trainer, pl_module):
        self.module, self.weight = pl_module, pl_module.hidden.weight
        self.before = {"first": torch.zeros(5), "others": [torch.zeros(6)]}
        self.last = self.before["first"]


class Averaged(Adam):
    def configure_callbacks(self):
        return [EMAWeightAveraging(), Holds()]


def test_what_callbacks_hold_beside_the_module_counts():
    """Red before: an average of all weights was in no sum."""
    copied = HIDDEN + OUTPUT + 2 * 8  # with the buffer of calls, and the number of averages
    assert seen(Averaged(), key="callbacks_bytes") == copied + 4 * (5 + 6)
    assert seen(Adam(), key="callbacks_bytes") == 0


class Keeping(pl.Callback):
    """Keeps the first batch, as a callback that draws pictures of it does."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.batch = batch[0].to_sparse(), torch.nested.as_nested_tensor([*batch[0]])


def test_what_callbacks_hold_may_be_of_any_layout():
    """Red before: RuntimeError, nbytes is not defined for sparse tensors, ended the rehearsal."""
    values, shapes = 16 * 4, 16 * 2 * 8
    found = seen(Small(), [Keeping()], key="callbacks_bytes")
    assert found == values * (2 * 8 + 4) + values * 4 + shapes


def test_what_a_rehearsal_keeps_for_itself_counts_for_nothing():
    """Red before: jobs asked for the memory of what the training does not hold."""
    callback = SanityCheck([])
    callback.kept = torch.zeros(9)
    assert seen(Small(), [callback], key="callbacks_bytes") == 0


def test_frozen_parameters_may_be_trained_later():
    gradients, states = seen(Thawed())
    assert gradients == HIDDEN
    assert 2 * HIDDEN <= states < 2.5 * HIDDEN  # Adam counts steps beside its two states
    assert seen(Plain()) == (HIDDEN, 0)


def test_what_is_never_thawed_counts_for_nothing():
    """A large network with a small adapter does not ask for what it never holds."""
    assert seen(Frozen()) == (0, 0)
    assert seen(Adam()) == (0, 0)


def test_code_that_thaws_is_seen():
    assert (
        seen(Unfreezing(), files=[__file__.replace("training/test_foreseen", "small")])[0] == HIDDEN
    )
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    assert not may_thaw(trainer, ["there_is_none.py"])
    trainer.callbacks.append(BackboneFinetuning())
    assert may_thaw(trainer, [])


def test_a_history_that_grows_counts_as_it_will_be():
    gradients, states = seen(Whole())
    assert gradients == 0
    assert states > 10 * 2 * (HIDDEN + OUTPUT) - 4 * 2 * (HIDDEN + OUTPUT)
    assert states <= 11 * 2 * (HIDDEN + OUTPUT)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def on_train_epoch_start(self):\n    self.body.requires_grad_()", True),
        (
            "def on_train_epoch_start(self):\n    self.body.requires_grad_(self.current_epoch > 3)",
            True,
        ),
        ("def thaw(self):\n    for p in self.parameters():\n        p.requires_grad = True", True),
        ("def on_train_epoch_start(self):\n    self.unfreeze()", True),
        ("def later(self):\n    self.unfreeze_and_add_param_group(self.body, None)", True),
        ("def freeze(self):\n    self.body.requires_grad_(False)", False),
        ("def freeze(self):\n    self.body.requires_grad_(requires_grad=False)", False),
        (
            "def freeze(self):\n    for p in self.parameters():\n        p.requires_grad = False",
            False,
        ),
        ("def __init__(self):\n    for n, p in x:\n        p.requires_grad = 'lora' in n", False),
        ("def setup(self, stage):\n    self.head.requires_grad_(True)", False),
        ("def step(self):\n    return self.weight.requires_grad", False),
    ],
)
def test_what_thaws_is_known_by_its_words(code, expected):
    assert thaws(ast.parse(code)) is expected

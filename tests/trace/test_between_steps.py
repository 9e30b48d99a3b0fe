"""Parameters are fingerprinted once a step, and what is written between steps is seen as well."""

from itertools import pairwise

import pytest
import pytorch_lightning as pl
import torch
from tracing import rows_of

from twinrun.trace.step_fingerprints import StepFingerprints
from twinrun.trace.step_tracer import Tracer

STEPS = 4


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.layer(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def move(module):
    """Write as many callbacks do, which PyTorch does not count."""
    module.layer.weight.data.mul_(0.5)


class OwnEnd(Line):
    def on_train_batch_end(self, outputs, batch, batch_idx):
        if batch_idx == 1:
            move(self)


class OwnTransfer(Line):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        if self.trainer.training and self.trainer.global_step == 2:
            move(self)
        return batch


class AtStart(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == 2:
            move(pl_module)


class AtValidation(pl.Callback):
    """Exchanges the weights around a validation, and forgets to put them back."""

    def on_validation_end(self, trainer, pl_module):
        if trainer.global_step == 2:
            move(pl_module)


class Counting(torch.utils.data.Dataset):
    """Draws from the parameters while it loads, by a counted write."""

    module = None

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if self.module is not None and index == 2:
            with torch.no_grad():
                self.module.layer.weight.mul_(0.5)
        return torch.full((2, 3), index + 1.0)


def traced(module, *callbacks, data=None):
    tracer = Tracer()
    # A validation makes the tracer look again by itself.
    validates = any(isinstance(callback, AtValidation) for callback in callbacks)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        val_check_interval=1,
        limit_val_batches=int(validates),
        callbacks=[*callbacks, tracer],
    )
    loaders = [
        torch.utils.data.DataLoader(of, batch_size=None) for of in (data or Counting(), Counting())
    ]
    trainer.fit(module, *loaders)
    return rows_of(tracer)


def moved_before(rows):
    """Give the steps that do not start with what the one before left."""
    pairs = pairwise(rows)
    return [own["step"] for before, own in pairs if own["before"] != before["parameters"]]


@pytest.mark.parametrize(
    ("module", "callbacks"),
    [
        (OwnEnd, ()),
        (OwnTransfer, ()),
        (Line, (AtStart,)),
        (Line, (AtValidation,)),
    ],
)
def test_what_is_written_between_steps_is_seen(module, callbacks):
    rows = traced(module(), *(callback() for callback in callbacks))
    assert moved_before(rows) == [3]


def test_what_a_data_set_writes_is_seen():
    data, module = Counting(), Line()
    data.module = module
    assert moved_before(traced(module, data=data)) == [3]


@pytest.mark.parametrize(("module", "passes"), [(Line, STEPS + 1), (OwnEnd, 2 * STEPS)])
def test_parameters_are_fingerprinted_once_a_step_where_nobody_may_write_them(
    monkeypatch, module, passes
):
    looked = []
    original = StepFingerprints.tensors

    def counted(self, tensors):
        # Gradients have the names of their parameters.
        looked.append(isinstance(tensors.get("layer.weight"), torch.nn.Parameter))
        return original(self, tensors)

    monkeypatch.setattr(StepFingerprints, "tensors", counted)
    assert len(traced(module())) == STEPS
    assert sum(looked) == passes

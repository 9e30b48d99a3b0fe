"""The first step of a training, of modules that choose under way what they train."""

import pytest
import pytorch_lightning as pl
from small import Points, Small
from torch.nn.utils import prune

from twinrun.training.first_step import FirstStep


class Unfreezes(Small):
    """Trains its last layer first."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)

    def on_train_epoch_start(self):
        self.output.requires_grad_(True)


class Prunes(Small):
    """Trains other parameters than it was made with."""

    def on_train_epoch_start(self):
        prune.l1_unstructured(self.output, "weight", amount=2)


class UnfreezesWithoutARate(Unfreezes):
    def __init__(self):
        super().__init__()
        self.hparams.learning_rate = 0.0


@pytest.mark.parametrize(
    ("kind", "trained", "unchanged"),
    [
        (Unfreezes, {"output.weight", "output.bias"}, []),
        (Prunes, {"hidden.weight", "hidden.bias", "output.bias", "output.weight_orig"}, []),
        (
            UnfreezesWithoutARate,
            {"output.weight", "output.bias"},
            ["output.weight", "output.bias"],
        ),
    ],
)
def test_what_is_trained_may_be_chosen_where_the_epoch_begins(kind, trained, unchanged):
    """Red before: the rehearsal failed with a KeyError that no line of the module's had raised."""
    step, module = FirstStep(), kind()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=[step],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, Points())
    assert step.count == 1
    assert set(step.parameters) == trained
    assert step.unchanged == unchanged

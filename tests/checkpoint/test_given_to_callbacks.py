"""Lightning's own callbacks, resumed in the same bits; what they were given must stay."""

import pytest
from pytorch_lightning.callbacks import (
    EarlyStopping,
    GradientAccumulationScheduler,
    LearningRateMonitor,
    ModelCheckpoint,
    StochasticWeightAveraging,
    Timer,
)
from pytorch_lightning.loggers import CSVLogger
from resumed import every, fit
from small import Points, Small


class Watched(Small):
    """Has a callback of each kind, and may change a setting of one where an epoch ends."""

    def configure_callbacks(self):
        return [
            ModelCheckpoint(monitor="val_loss", save_top_k=2, save_last=True),
            EarlyStopping("val_loss", patience=2, min_delta=0.001),
            LearningRateMonitor(),
            GradientAccumulationScheduler({0: 1, 1: 2}),
            Timer("00:01:00:00"),
            StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=5),
        ]

    def on_train_epoch_start(self):
        saver = self.trainer.checkpoint_callback
        self.log("kept", float(len(saver.best_k_models)))
        self.log("waited", float(self.trainer.early_stopping_callback.wait_count))


class Asks(Watched):
    """Has its ModelCheckpoint look at something else from the second epoch's end on."""

    def on_train_epoch_end(self):
        if self.current_epoch == 1:
            self.trainer.checkpoint_callback.monitor = "train_loss"


WHERE = [{"minutes": 0}, {"in_epoch": every(1)}]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", WHERE, ids=["where an epoch starts", "in it"])
def test_lightnings_callbacks_are_resumed(tmp_path, where):
    def one(name, **options):
        logger = CSVLogger(tmp_path / name / "log")
        told = {"default_root_dir": tmp_path / name, "enable_checkpointing": True, "max_epochs": 5}
        kept = tmp_path / ("whole" if name == "whole" else "kept")
        return fit(kept, Points, Watched, logger=logger, **told, **options)

    whole, _, _ = one("whole")
    one("first", kill=13, **where)
    found, at, said = one("second", **where)
    assert (bool(at), found == whole) == (True, True)
    # In the last epoch that one takes over.
    assert all("StochasticWeightAveraging has exchanged" in sentence for sentence in said)


@pytest.mark.parametrize("where", WHERE, ids=["where an epoch starts", "in it"])
def test_one_that_is_given_something_else_under_way_is_refused(tmp_path, where):
    """Red before: resumed with what it was given at first, in silence."""
    told = {"default_root_dir": tmp_path, "enable_checkpointing": True, "max_epochs": 4}
    *_, said = fit(tmp_path / "kept", Points, Asks, logger=CSVLogger(tmp_path), **told, **where)
    why = "ModelCheckpoint.monitor changes while the training runs, and load_state_dict does not"
    assert any(why in sentence for sentence in said), said

"""A resumed training goes on with what its ModelCheckpoint knew of the best models."""

from pathlib import Path

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from resumed import every, fit
from small import Small

from twinrun.checkpoint.best_models import are_missing


class Watched(Small):
    """Logs what its checkpoint callback knows, and notes the names at the end."""

    options: dict
    ended: list

    def __init__(self, **options):
        super().__init__(**options)
        self.saver = None

    def configure_callbacks(self):
        return [ModelCheckpoint(monitor="val_loss", **self.options)]

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self(batch[0]) - batch[1]).square().mean() * (-1) ** self.calls)

    def on_train_epoch_start(self):
        known = self.trainer.checkpoint_callback
        if known.best_model_score is not None:
            self.log("best", known.best_model_score + len(known.best_k_models))

    def on_fit_end(self):
        known = self.trainer.checkpoint_callback
        names = [Path(path).name for path in known.best_k_models]
        last, best = (Path(path).name for path in (known.last_model_path, known.best_model_path))
        saved = known._last_global_step_saved, Path(known._last_checkpoint_saved).name
        scores = [float(score) for score in known.best_k_models.values()]
        self.ended.append((names, scores, last, best, float(known.current_score), saved))
        self.ended[-1] += (float(known.kth_value),)


def watched(**options):
    return type("WatchedBy", (Watched,), {"options": options, "ended": []})


def assert_resumed_alike(tmp_path, module, in_epoch):
    told = {"minutes": 1000, "in_epoch": in_epoch} if in_epoch else {"minutes": 0}
    told |= {"enable_checkpointing": True, "max_epochs": 4}
    whole, _, _ = fit(tmp_path / "whole", module=module, default_root_dir=tmp_path / "a", **told)
    fit(tmp_path / "k", module=module, kill=13, default_root_dir=tmp_path / "b", **told)
    found, at, said = fit(tmp_path / "k", module=module, default_root_dir=tmp_path / "c", **told)
    assert (at, said) == ([12] if in_epoch else [10], [])
    assert found == whole


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"save_top_k": 2, "save_last": True},
        {"save_top_k": 3, "filename": "best", "save_last": "link"},
        {"every_n_train_steps": 2, "save_top_k": -1},
    ],
)
@pytest.mark.parametrize("in_epoch", [None, every(1)], ids=["where an epoch starts", "in it"])
def test_names_and_scores_are_those_of_the_uninterrupted_training(
    tmp_path, monkeypatch, options, in_epoch
):
    """Red before: no checkpoint was written of a training with such a callback."""
    module = watched(**options)
    assert_resumed_alike(tmp_path, module, in_epoch)
    first, second = module.ended
    assert first == second


class HeldByModule(Watched):
    """Asks its callback by an attribute of its own, to read the best weights again, say."""

    def configure_callbacks(self):
        self.saver, self.savers = super().configure_callbacks()[0], [EarlyStopping("val_loss")]
        return [self.saver, *self.savers]

    def on_fit_end(self):
        super().on_fit_end()
        self.ended.append(
            (self.saver is self.trainer.checkpoint_callback, self.savers[0].best_score)
        )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("in_epoch", [None, every(1)], ids=["where an epoch starts", "in it"])
def test_a_module_may_hold_its_callbacks(tmp_path, in_epoch):
    """Red before: no checkpoint was written, as if none held what Lightning saves of them."""
    module = type("HeldBySome", (HeldByModule,), {"options": {}, "ended": []})
    assert_resumed_alike(tmp_path, module, in_epoch)
    assert module.ended[:2] == module.ended[2:]


def test_a_file_of_a_model_that_is_not_there_is_known(tmp_path):
    module = watched(save_top_k=-1)
    told = {"minutes": 0, "enable_checkpointing": True, "max_epochs": 3}
    seen = []

    class Reads(module):
        def on_fit_end(self):
            path = next(iter(self.trainer.checkpoint_callback.best_k_models))
            seen.append(are_missing(self.trainer))
            torch.load(path, weights_only=True)

    fit(tmp_path / "whole", module=Reads, default_root_dir=tmp_path / "a", **told)
    fit(tmp_path / "k", module=Reads, kill=8, default_root_dir=tmp_path / "b", **told)
    with pytest.raises(EOFError):
        fit(tmp_path / "k", module=Reads, default_root_dir=tmp_path / "c", **told)
    assert seen == [False, True]


class Derived(ModelCheckpoint):
    pass


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        (lambda f: ModelCheckpoint(f / "own", monitor="val_loss"), "files in a folder of its own"),
        (lambda f: Derived(monitor="val_loss"), "Derived would forget which of its checkpoints"),
    ],
)
def test_files_that_may_have_changed_since_are_refused_by_name(tmp_path, callback, why):
    told = {"minutes": 0, "enable_checkpointing": True, "callbacks": [callback(tmp_path)]}
    _, _, said = fit(tmp_path / "k", default_root_dir=tmp_path / "a", **told)
    (found,) = said
    assert why in found

"""What Lightning's ModelCheckpoint knows of its best models, where a training is resumed.

Its files lie in the Trainer's folder, which each process has anew: Lightning then forgets scores
and names. Here they are told to it, with empty files in their places, so that what follows is named
and chosen as in the uninterrupted training. Who reads such a file fails; the run is then trained
from its beginning.
"""

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

KEY = "twinrun"  # of what `Resumable` adds to Lightning's checkpoint
PATHS = ("best_model_path", "kth_best_model_path", "last_model_path")
# In no state_dict: whether the last step was saved, and where.
BESIDE = ("_last_global_step_saved", "_last_checkpoint_saved")


def forgetful(trainer: pl.Trainer) -> Iterator[str]:
    """Name the callbacks of which nobody can know what they would have in a resumed training."""
    for callback in trainer.checkpoint_callbacks:
        if getattr(callback, "monitor", None) is None:
            continue
        kind = type(callback).__name__
        if type(callback) is not ModelCheckpoint:
            yield (
                f"{kind} would forget which of its checkpoints was the best (a ModelCheckpoint "
                f"itself would not; what {kind} adds may be in a callback beside it)"
            )
        elif not _is_inside(str(callback.dirpath), trainer.default_root_dir):
            # A killed training may have written them once more behind the checkpoint.
            yield (
                f"{kind} has its files in a folder of its own (dirpath: {callback.dirpath}), which "
                f"no checkpoint holds; without a dirpath they are in a folder of the run's"
            )


def beside(trainer: pl.Trainer) -> dict[str, dict[str, Any]]:
    """Return what no `state_dict` has of them, by their `state_key`."""
    return {
        callback.state_key: {name: getattr(callback, name) for name in BESIDE}
        for callback in _watching(trainer)
    }


def tell(trainer: pl.Trainer, checkpoint: dict[str, Any]) -> None:
    """Have a checkpoint that is being loaded say where files would lie in this process.

    Args:
        trainer: of the training that is resumed.
        checkpoint: as Lightning reads it, with what `beside` gave; of the states of these callbacks
            new ones are made.
    """
    saved = checkpoint[KEY].get("models", {})  # an older version has none
    for callback in _watching(trainer):
        key = callback.state_key
        if key not in checkpoint["callbacks"] or key not in saved:
            continue
        state = copy.deepcopy(checkpoint["callbacks"][key])
        before, now = str(state["dirpath"]), str(callback.dirpath)
        moved = {name: _moved(state[name], before, now) for name in PATHS}
        best = {_moved(p, before, now): score for p, score in state["best_k_models"].items()}
        checkpoint["callbacks"] = {
            **checkpoint["callbacks"],
            key: {**state, **moved, "best_k_models": best, "dirpath": callback.dirpath},
        }
        callback.current_score = state["current_score"]
        for name in BESIDE:
            value = saved[key][name]
            setattr(callback, name, _moved(value, before, now) if isinstance(value, str) else value)
        files = [Path(path) for path in {*moved.values(), *best} if path]
        for file in files if trainer.is_global_zero else []:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()


def are_missing(trainer: pl.Trainer) -> bool:
    """Say whether a file of a best or last model is an empty one in the place of another."""
    paths = [
        Path(path)
        for callback in _watching(trainer)
        for path in (*callback.best_k_models, *(getattr(callback, name) for name in PATHS))
        if path
    ]
    return any(path.is_file() and not path.stat().st_size for path in paths)


def _watching(trainer: pl.Trainer) -> Iterator[ModelCheckpoint]:
    for callback in trainer.checkpoint_callbacks:
        if type(callback) is ModelCheckpoint and callback.monitor is not None:
            yield cast(ModelCheckpoint, callback)


def _moved(path: str, before: str, now: str) -> str:
    return now + path[len(before) :] if path.startswith(before) else path


def _is_inside(folder: str, root: str) -> bool:
    inside, outside = (Path(os.path.realpath(each)) for each in (folder, root))
    return outside in (inside, *inside.parents)

"""What code of the training data reads, by name: a trial on copies has one batch, and no loader.

What validation leaves may choose what is trained on: samples that were hard, weights of a sampler.
"""

import types
from collections import deque
from collections.abc import Sequence

import pytorch_lightning as pl

from twinrun.parallel.reached_code import ReachedCode
from twinrun.training import build_workload
from twinrun.training.own_copies import held_by, is_looked_at

MOST = 20_000  # objects that are looked at, nearest first
_HANDED_ON = build_workload.__name__
_LOADING = ("train_dataloader", "on_before_batch_transfer", "on_after_batch_transfer")


def read_by_data(trainer: pl.Trainer, module: pl.LightningModule, reached: ReachedCode) -> set[str]:
    """Return the names in all functions by which training data come, as far as names tell.

    Args:
        trainer: behind its first step.
        module: which may make the loader.
        reached: the names that functions of a user's name.
    """
    data = trainer.train_dataloader, vars(trainer).get("datamodule")
    owners = _owners(data, but=(trainer, module))
    functions: dict[str, set[str]] = {}
    waiting = [*_LOADING]
    for owner, of_owner in reached.names.items():
        for function, names in of_owner.items():
            functions.setdefault(function, set()).update(names)
            if owner in owners:
                waiting += names
    found: set[str] = set()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            # What constructors read has been read, of all classes.
            waiting += () if name.startswith("__") else functions.get(name, ())
    return found


def _owners(data: Sequence[object], but: Sequence[object]) -> set[str]:
    """Name the classes and functions that are held by data."""
    seen: dict[int, object] = {id(each): each for each in but}
    found: set[str] = set()
    waiting = deque(data)
    while waiting and len(seen) < MOST:
        value = waiting.popleft()
        if id(value) in seen or not is_looked_at(value):
            continue
        seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            found.add(value.__qualname__.partition(".")[0])
        else:
            # A data module that hands on a module's loaders is called as the module is.
            kinds = (kind for kind in type(value).__mro__ if kind.__module__ != _HANDED_ON)
            found |= {kind.__name__ for kind in kinds}
        waiting += held_by(value)
    return found

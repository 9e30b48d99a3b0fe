"""The schedules of a training: those that Lightning steps, and those that lie inside of them."""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
from torch.optim.lr_scheduler import LRScheduler

from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import is_really


def schedules_of(trainer: pl.Trainer) -> list[Any]:
    """Return Lightning's schedules in their order, and behind them what lies in attributes of them.

    torch's `SequentialLR` and `ChainedScheduler` have a list of others, a warm-up has one.
    """
    found: list[Any] = [config.scheduler for config in trainer.lr_scheduler_configs]
    for schedule in found:  # which grows meanwhile
        for each in _inside(schedule):
            if all(each is not one for one in found):
                found.append(each)
    return found


def _inside(schedule: object) -> Iterator[LRScheduler]:
    for value in attributes_seen(schedule).values():
        is_some = is_really(value, list) or is_really(value, tuple)
        for each in value if is_some else (value,):
            if is_really(each, LRScheduler):
                yield each

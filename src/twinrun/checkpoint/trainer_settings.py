"""What a training is told, as the Trainer, its loops and schedules keep it: no checkpoint holds it.

How many epochs there are, how often is validated, of how many batches; and what a module has put on
the Trainer. A module may change it under way; a resumed training begins with what it was told.
"""

from collections.abc import Container, Iterator, Mapping

import pytorch_lightning as pl

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.unsaved_state import OURS, kept_anyway
from twinrun.hidden_content import NUMBERS

# Of these a checkpoint holds what it can, or they are looked at by themselves.
_ELSEWHERE = {"callbacks", "_loggers", "datamodule", "should_stop", "_last_val_time"}
_OF_LOADERS = {"max_batches", "val_check_batch"}  # set where loaders are made anew
_PLAIN = (bool, int, float, str, type(None))


def settings_of(trainer: pl.Trainer) -> dict[str, str]:
    """Write down each setting, by name."""
    callbacks = vars(trainer)["callbacks"]
    others = set(_ELSEWHERE)
    # That one sets it again in each epoch.
    if any(isinstance(each, pl.callbacks.GradientAccumulationScheduler) for each in callbacks):
        others.add("accumulate_grad_batches")
    if vars(trainer)["reload_dataloaders_every_n_epochs"]:
        others |= _OF_LOADERS
    module = trainer.lightning_module
    held = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    kept = {*kept_anyway(trainer), *map(id, callbacks)}
    found = {
        name: repr(value) if isinstance(value, _PLAIN) else look(value, held)
        for name, value in vars(trainer).items()
        if name not in others and not _is_of_library(value) and id(value) not in kept
    }
    for part in (trainer.fit_loop, trainer.fit_loop.epoch_loop, trainer.strategy):
        found |= _plain(part, others, "")
    for index, config in enumerate(trainer.lr_scheduler_configs):
        found |= _plain(config, (), f"lr_scheduler_configs[{index}].")
    return found


def changed_settings(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Name those that have changed, or that nobody can look at."""
    for name in {**after, **before}:
        state = after.get(name, "")
        if state.startswith(UNSEEN):
            yield f"{name} of the Trainer {state}, and it may change while the training runs"
        elif before.get(name) != after.get(name):
            yield f"{name} of the Trainer changes while the training runs"


def _plain(owner: object, others: Container[str], prefix: str) -> dict[str, str]:
    return {
        f"{prefix}{name}": repr(value)
        for name, value in vars(owner).items()
        if name[0] != "_" and name not in others and isinstance(value, (*_PLAIN, *NUMBERS))
    }


def _is_of_library(value: object) -> bool:
    return type(value).__module__.startswith((*OURS, "lightning_fabric."))

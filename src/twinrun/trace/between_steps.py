"""Whether anything can have written the parameters between the end of a step and the next one.

Where nothing can, their fingerprints after a step are those before the next one, and a pass over
all parameters is saved. PyTorch counts what is written to a tensor (`_version`), but not what is
written to its `.data`, to an array that shares its memory, or by generated code. So the counters
alone are no proof: they are believed only where no code of the user's ran in between, neither a
hook nor a schedule nor a validation. Lightning's own callbacks count as the user's: some of them
exchange the weights.
"""

from collections.abc import Iterator, Mapping

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.schedules import schedules_of

# Hooks between the end of a step and the start of the next one, as Lightning calls them.
OF_CALLBACKS = ("on_train_batch_start", "on_train_batch_end")
OF_MODULES = (*OF_CALLBACKS, "lr_scheduler_step")
OF_BATCHES = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
OURS = "twinrun."  # classes of which we know that they write nothing then

Seen = dict[str, tuple[int, int, int]]


class BetweenSteps:
    """Remembers the parameters at the end of a step, and whether somebody may write them then."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Look at who is called between steps, once."""
        self._is_watched = any(_writers(trainer, module))
        self._seen: Seen | None = None

    def end_step(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Remember the parameters as they are."""
        if not self._is_watched:
            self._seen = _seen(parameters)

    def interrupt(self) -> None:
        """Note that something else ran: an epoch's end, or a validation."""
        self._seen = None

    def are_untouched(self, parameters: Mapping[str, torch.Tensor]) -> bool:
        """Say whether the parameters are for certain those of the last step's end."""
        return self._seen is not None and self._seen == _seen(parameters)


def _seen(parameters: Mapping[str, torch.Tensor]) -> Seen:
    # The address too: another tensor may have been put in a parameter's place by `.data`.
    return {n: (id(p), p._version, p.data_ptr()) for n, p in parameters.items()}


def _writers(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[bool]:
    """Yield for each who is called between steps whether it is code that may write."""
    yield from (_has_own(module, pl.LightningModule, name) for name in (*OF_MODULES, *OF_BATCHES))
    hooks = trainer._data_connector._datahook_selector
    if hooks is not None and hooks.datamodule is not None:
        yield from (_has_own(hooks.datamodule, pl.LightningDataModule, n) for n in OF_BATCHES)
    yield any(not _is_of(logger, "pytorch_lightning.") for logger in trainer.loggers)
    for callback in vars(trainer)["callbacks"]:
        if not _is_of(callback, OURS):
            yield from (_has_own(callback, pl.Callback, name) for name in OF_CALLBACKS)
    yield from (not _is_of(schedule, "torch.") for schedule in schedules_of(trainer))


def _is_of(thing: object, package: str) -> bool:
    return type(thing).__module__.startswith(package)


def _has_own(owner: object, kind: type, name: str) -> bool:
    """Say whether an object has a hook that is not the one of its base class."""
    if name in vars(owner):
        return True
    own, of_base = getattr(type(owner), name, None), getattr(kind, name, None)
    return own is not None and own is not of_base

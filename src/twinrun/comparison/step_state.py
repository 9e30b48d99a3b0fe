"""What a step starts with: tensors, attributes, optimizers, schedulers, RNG states, progress.

The Trainer's progress is what `trainer.global_step`, `trainer.current_epoch` and the batch's index
are read from. Lightning has no public way to set it.
"""

import copy
from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

import pytorch_lightning as pl
import torch

from twinrun.comparison.module_attributes import Attributes, attributes_of, set_attributes
from twinrun.copied_batches import copied
from twinrun.errors import TwinrunError
from twinrun.parameters import parameters_of
from twinrun.process.determinism import State, capture, restore


class StepProgress(TypedDict):
    """How far the Trainer is."""

    counters: dict[str, dict[str, Any]]
    """The `state_dict` of each counter of the loop, by name."""
    batches_that_stepped: int
    """Since the beginning: `trainer.global_step` of loggers."""
    epoch: int
    """From 0."""
    batches: int | float
    """Of an epoch."""
    accumulated: int
    """Batches whose gradients make a step, in this epoch."""


class StepState(TypedDict):
    """What a step starts with, beside its batch."""

    parameters: dict[str, torch.Tensor]
    """Those before the step, by name."""
    gradients: dict[str, torch.Tensor | None]
    """A module that accumulates by itself starts a step with some."""
    buffers: dict[str, torch.Tensor]
    """Those before the step, by name."""
    attributes: dict[str, Attributes]
    """What else the module and its submodules hold and the training has changed, by path."""
    optimizers: list[dict[str, Any]]
    """A `state_dict` each."""
    schedulers: list[dict[str, Any]]
    """Likewise."""
    progress: StepProgress
    """Where in the training the step is."""
    precision: dict[str, Any]
    """Of the Trainer's: the scale of the losses of `16-mixed`."""
    process: State
    """Switches and RNG states."""


class _Counter(Protocol):
    """What Lightning's trackers of progress have in common."""

    def state_dict(self) -> dict[str, object]: ...

    def load_state_dict(self, state_dict: dict[str, object]) -> None: ...


class _Alone:
    """Gives tensors as they can be written: with all of a memory, and none that another one has.

    A file holds the whole memory behind a view, and none under two types.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_nested:
            return tensor.clone()
        memory = tensor.untyped_storage()
        if memory.data_ptr() in self._seen or memory.nbytes() != tensor.nbytes:
            return tensor.clone()
        self._seen.add(memory.data_ptr())
        return tensor


def state_of(
    trainer: pl.Trainer, module: pl.LightningModule, at_start: Mapping[str, int]
) -> StepState:
    """Return what a step starts with, where its batch has begun: to be written before it goes on.

    Of what is large nothing is copied: the tensors are those that the step will change.

    Args:
        trainer: in the loop of its batches.
        module: that it trains.
        at_start: fingerprints of the module's attributes before the first step.
    """
    parameters = parameters_of(module, trainer.optimizers)
    schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
    alone = _Alone()
    gradients = {name: p.grad for name, p in parameters.items()}
    return {
        "parameters": {name: alone(p) for name, p in parameters.items()},
        "gradients": {n: None if grad is None else alone(grad) for n, grad in gradients.items()},
        "buffers": {name: alone(buffer) for name, buffer in module.named_buffers()},
        "attributes": attributes_of(module, trainer.optimizers, changed_since=at_start),
        "optimizers": [o.state_dict() for o in trainer.optimizers],
        "schedulers": [s.state_dict() for s in schedulers],
        "progress": _progress_of(trainer),
        "precision": copy.deepcopy(trainer.precision_plugin.state_dict()),
        "process": capture(),
    }


def set_state(trainer: pl.Trainer, module: pl.LightningModule, state: StepState) -> None:
    """Put back what `state_of` gave, but for the progress.

    Raises:
        TwinrunError: if the step has other parameters than the module is made with.
    """
    parameters = parameters_of(module, trainer.optimizers)
    if {name: p.shape for name, p in parameters.items()} != {
        name: p.shape for name, p in state["parameters"].items()
    }:
        raise TwinrunError("the step has other parameters than the training begins with")
    with torch.no_grad():
        for name, parameter in parameters.items():
            # In place: the optimizers hold these very tensors.
            parameter.copy_(state["parameters"][name])
            parameter.grad = copied(state["gradients"][name])
        _set_buffers(module, state["buffers"])
    set_attributes(module, state["attributes"], trainer.optimizers)
    for optimizer, saved in zip(trainer.optimizers, state["optimizers"], strict=True):
        # Deep once more: the optimizer may keep what it is given, and every repeat needs it.
        optimizer.load_state_dict(copy.deepcopy(saved))
    # A scheduler that is not put back would come to its end over the repeats.
    for config, saved in zip(trainer.lr_scheduler_configs, state["schedulers"], strict=True):
        config.scheduler.load_state_dict(copy.deepcopy(saved))
    # Likewise the scale, which moves with each step that overflows.
    if state["precision"]:
        trainer.precision_plugin.load_state_dict(copy.deepcopy(state["precision"]))
    # Last, so that nothing draws a random number after it.
    restore(state["process"])


def _set_buffers(module: pl.LightningModule, saved: Mapping[str, torch.Tensor]) -> None:
    """Put the buffers of the step into a module, which may assign or register them late."""
    for name in dict(module.named_buffers()).keys() - saved.keys():
        path, _, key = name.rpartition(".")
        del module.get_submodule(path)._buffers[key]
    for name, value in saved.items():
        path, _, key = name.rpartition(".")
        held = module.get_submodule(path)._buffers
        now = held.get(key)
        if now is None or (now.shape, now.dtype) != (value.shape, value.dtype):
            held[key] = value.clone()
        else:
            now.copy_(value)


def set_progress(trainer: pl.Trainer, progress: StepProgress, *, batches_begun: int) -> None:
    """Bring the Trainer to the saved step.

    Args:
        trainer: in the loop of its batches.
        progress: what `state_of` gave.
        batches_begun: 1 inside the step, 0 just before: the loop then begins its batch.
    """
    loop = trainer.fit_loop.epoch_loop
    for name, tracked in _tracked(trainer).items():
        tracked.load_state_dict(copy.deepcopy(progress["counters"][name]))
    for counts in (loop.batch_progress.total, loop.batch_progress.current):
        counts.ready -= 1 - batches_begun
    # The replay's loader has as many batches as there are repeats.
    loop.batch_progress.is_last_batch = False
    loop._batches_that_stepped = progress["batches_that_stepped"]
    # `current_epoch` is read from the completed ones, where the loop ends from the processed ones.
    vars(trainer.fit_loop.epoch_progress.current).update(
        processed=progress["epoch"], completed=progress["epoch"]
    )
    # `trainer.num_training_batches`, of which a schedule may be made, is read from it.
    trainer.fit_loop.max_batches = progress["batches"]
    # Whether the step accumulates or updates depends on it, and on the batch's index.
    trainer.accumulate_grad_batches = progress["accumulated"]


def _progress_of(trainer: pl.Trainer) -> StepProgress:
    tracked = _tracked(trainer).items()
    return {
        "counters": {name: copy.deepcopy(progress.state_dict()) for name, progress in tracked},
        "batches_that_stepped": trainer.fit_loop.epoch_loop._batches_that_stepped,
        "epoch": trainer.current_epoch,
        "batches": trainer.num_training_batches,
        "accumulated": trainer.accumulate_grad_batches,
    }


def _tracked(trainer: pl.Trainer) -> dict[str, _Counter]:
    """Return the counters of the loop, by name."""
    loop = trainer.fit_loop.epoch_loop
    return {
        "batch": loop.batch_progress,
        "scheduler": loop.scheduler_progress,
        "automatic": loop.automatic_optimization.optim_progress,
        "manual": loop.manual_optimization.optim_step_progress,
    }

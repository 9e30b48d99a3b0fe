"""Where a checkpoint is refused: what stands against resuming in the same bits, and why.

See `unsaved_state` for the state that no checkpoint holds.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.best_models import forgetful
from twinrun.checkpoint.loaded_states import never_loaded
from twinrun.checkpoint.other_shapes import TensorShapes, never_taken
from twinrun.checkpoint.reached import generators_reached
from twinrun.checkpoint.stateful import UNSAID, Stateful, said_by
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.unsaved_generators import unsaved_generators
from twinrun.checkpoint.unsaved_optimizers import named_by_id
from twinrun.parameters import unheld_parameters


def other_than(known: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """Name what a checkpoint does not know, or knows otherwise.

    Compared as text: 1 is 1.0 and True to Python, and not to a training.

    >>> other_than({"seed": 1, "settings": {"limit": 1.0}}, {"seed": 1, "settings": {"limit": 1}})
    ['settings']
    """
    return [
        key
        for key, value in wanted.items()
        if key not in known
        or json.dumps(known[key], sort_keys=True) != json.dumps(value, sort_keys=True)
    ]


def refusals(
    trainer: pl.Trainer, at_start: TensorShapes, *, is_in_first_epoch: bool = False
) -> Iterator[str]:
    """Say what stands against ending in the same bits.

    Args:
        trainer: of the training.
        at_start: what `tensor_shapes_of` gave where a checkpoint would be loaded.
        is_in_first_epoch: data workers are no older than the epoch, from whose start they are
            made anew.
    """
    kept = [each for each in loaders_of(trainer) if getattr(each, "persistent_workers", False)]
    if is_in_first_epoch:
        # Those of the training loader are; a validation may have started others.
        trained = {id(loader) for loader in tree_leaves(trainer.train_dataloader)}
        kept = [each for each in kept if id(each) not in trained and vars(each).get("_iterator")]
    if kept:
        yield "data workers outlive an epoch (persistent_workers), with RNG states of their own"
    yield from forgetful(trainer)
    for part in parts_of(loaders_of(trainer)):
        if isinstance(part, Stateful) and said_by(part) is UNSAID:
            yield f"{type(part).__name__} cannot say where it is: its state_dict raises"
    for callback in vars(trainer)["callbacks"]:
        if isinstance(callback, pl.callbacks.LearningRateFinder | pl.callbacks.BatchSizeFinder):
            yield f"{type(callback).__name__} tries steps, and would where a training is resumed"
        if getattr(callback, "_swa_scheduler", None) is not None:
            # A resumed training has neither it nor the module's when Lightning's state is put back.
            yield f"{type(callback).__name__} has exchanged the schedule of the learning rate"
    yield from never_loaded(trainer)
    yield from named_by_id(trainer)
    module = trainer.lightning_module
    if unheld_parameters(module.parameters(), trainer.optimizers):
        yield f"an optimizer trains parameters that {type(module).__name__} does not hold"
    if others := never_taken(module, at_start):
        yield (
            f"{others[0]} of {type(module).__name__} is not there, or of another shape, where the "
            f"training begins, so that no checkpoint of it could be loaded (what `__init__`, "
            f"`setup` or `configure_model` makes is there)"
        )
    for name, buffer in module.named_buffers():
        if buffer.grad_fn is not None:
            graph = "the graph of an earlier step (`tensor.detach()` holds none)"
            yield f"{name} of {type(module).__name__} holds {graph}"
    loaders = loaders_of(trainer)
    yield from unsaved_generators(trainer, loaders, generators_of(loaders))
    yield from generators_reached(trainer, loaders, generators_of(loaders))
    for callback in vars(trainer)["callbacks"]:
        hindrance = getattr(callback, "hindrance", None)
        if callable(hindrance) and (found := hindrance()):
            yield str(found)


def loaders_of(trainer: pl.Trainer) -> list[object]:
    """Return the loaders that the training has: for training and for validation."""
    return tree_leaves([trainer.train_dataloader, trainer.val_dataloaders])


def generators_of(loaders: Iterable[object]) -> list[torch.Generator]:
    """Find the generators that loaders and their samplers were given, each once."""
    owners = [owner for loader in loaders for owner in (loader, *samplers_of(loader))]
    found = {id(each): each for each in (getattr(owner, "generator", None) for owner in owners)}
    return [each for each in found.values() if isinstance(each, torch.Generator)]


def samplers_of(loader: object) -> tuple[object, ...]:
    """Return what a loader may have its order from, None too, and one of them twice."""
    batches = getattr(loader, "batch_sampler", None)
    # Shards stand in for a batch sampler, and hold it.
    whole = getattr(batches, "batch_sampler", None)
    inner = [getattr(each, "sampler", None) for each in (loader, batches, whole)]
    return inner[0], batches, inner[1], whole, inner[2]

"""Generators of random numbers whose states no checkpoint holds.

A resumed training would draw the first epoch's order or augmentations again. Looked at are the
attributes of the module and its submodules, the data module, loaders, samplers, batch samplers and
datasets (also those that wrap another one), and the short lists, tuples and dictionaries in them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.unsaved_state import MOST_WRAPPED, WRAPPED, inside
from twinrun.containers import attributes_of, entries, is_container
from twinrun.generators import GENERATORS


def unsaved_generators(
    trainer: pl.Trainer, loaders: Sequence[object], saved: Sequence[torch.Generator]
) -> Iterator[str]:
    """Name the attributes that hold generators whose states no checkpoint holds.

    Args:
        trainer: of the training; it knows module and data module.
        loaders: of the training.
        saved: generators that the checkpoint holds.
    """
    known = {id(generator) for generator in saved}
    owners: list[object] = [*trainer.lightning_module.modules(), vars(trainer).get("datamodule")]
    owners += [part for loader in loaders for part in _parts(loader, MOST_WRAPPED)]
    for owner in owners:
        for name, value in _attributes(owner).items():
            for found in inside(value):
                if isinstance(found, GENERATORS) and id(found) not in known:
                    yield unheld(f"{type(owner).__name__}.{name}", found)


def unheld(name: str, generator: object) -> str:
    """Say of a generator that no checkpoint holds its state, and what helps."""
    kind = f"{type(generator).__module__.partition('.')[0]}'s {type(generator).__name__}"
    return (
        f"{name} is a random number generator ({kind}) whose state no checkpoint holds (one that "
        f"is made where it is used, of a seed and the epoch, has none to be held)"
    )


def _parts(owner: object, deeper: int) -> Iterator[object]:
    """Walk a loader, its samplers and datasets, and what these wrap."""
    if owner is None:
        return
    yield owner
    if not deeper:
        return
    attributes = _attributes(owner)
    for name in WRAPPED:
        value = attributes.get(name)
        several = is_container(value) and not isinstance(value, dict)
        for part in [item for _, item in entries(value)] if several else [value]:
            yield from _parts(part, deeper - 1)


def _attributes(owner: object) -> Mapping[str, object]:
    # Those of compiled libraries have none that could be seen.
    found: dict[str, object] = {}
    with suppress(Exception):  # of whatever class
        found = attributes_of(owner)
    return found

"""What a module, its data and loaders keep in attributes: no checkpoint of Lightning's holds it.

Counters, lists of losses, queues, a teacher in a list: where they have changed since the training
began, those of the module are kept in the checkpoint and put back, if they are plain data; all
others are a reason to write none. Of data modules, datasets and samplers only numbers and short
lists of them are looked at: they hold the data, and caches of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_map

from twinrun.checkpoint.stream_position import Stateful, is_stream, parts_of
from twinrun.checkpoint.unsaved_state import MOST_LOOKED_AT, OURS, digest
from twinrun.optimizer_attributes import values_in

Attributes = dict[str, dict[str, Any]]
"""Of the parts of a module, by path and name."""

LIBRARIES = (*OURS, "torch.", "torchmetrics.")  # keep themselves, or are kept otherwise
_OF_MODULE = {*vars(torch.nn.Module()), *vars(pl.LightningModule()), "_hparams_initial"}
_OF_DATA = {*vars(pl.LightningDataModule()), "_hparams_initial"}
_PLAIN = (bool, int, float, str, type(None))


def states_of_attributes(trainer: pl.Trainer, loaders: Sequence[object]) -> dict[str, str]:
    """Hash the attributes of the module and of its data, by part and name."""
    module = trainer.lightning_module
    held = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    found = {}
    for path, part in _parts(module):
        for name, value in _own(part).items():
            kept = [
                (where, digest(leaf))
                for where, leaf in values_in(value, name)
                if id(leaf) not in held
            ]
            if kept:
                found[f"module {path} {name}"] = str(kept)
    for key, value in _of_data(trainer, loaders):
        found[f"data {key}"] = repr(value)
    return found


def changed_attributes(
    trainer: pl.Trainer, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Attributes, list[str]]:
    """Return copies of what the module has changed since, and why the rest cannot be kept."""
    parts = dict(_parts(trainer.lightning_module))
    plain: Attributes = {}
    refused = []
    for key in [key for key, state in after.items() if before.get(key) != state]:
        owner, _, rest = key.partition(" ")
        path, _, name = rest.rpartition(" ")
        value = getattr(parts.get(path), name, None) if owner == "module" else None
        if owner == "module" and _is_plain(value):
            plain.setdefault(path, {})[name] = tree_map(_copied, value)
        else:
            # Of data the path is a number.
            called = name if owner == "data" else f"{type(parts[path]).__name__}.{name}"
            refused.append(f"{called} changes while the training runs, and no checkpoint holds it")
    return plain, refused


def restore_attributes(module: pl.LightningModule, saved: Attributes) -> None:
    """Put the attributes of a checkpoint into a module."""
    parts = dict(_parts(module))
    for path, values in saved.items():
        for name, value in values.items():
            setattr(parts[path], name, value)


def _parts(module: pl.LightningModule) -> Iterator[tuple[str, torch.nn.Module]]:
    for path, part in module.named_modules():
        if not type(part).__module__.startswith(LIBRARIES):
            yield path, part


def _own(part: torch.nn.Module) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(part).items()
        if name not in _OF_MODULE and (not callable(value) or isinstance(value, torch.nn.Module))
    }


def _of_data(trainer: pl.Trainer, loaders: Sequence[object]) -> Iterator[tuple[str, object]]:
    """Yield the plain attributes of the data module, loaders, samplers and datasets."""
    owners = [vars(trainer).get("datamodule"), *parts_of(loaders)]
    for index, owner in enumerate(owners):
        is_known = type(owner).__module__.startswith(LIBRARIES)
        # Those tell their position, or are asked for it: see `stream_position`.
        if (
            owner is None
            or is_known
            or (index and (isinstance(owner, Stateful) or is_stream(owner)))
        ):
            continue
        # Lightning tells a sampler its epoch anew.
        told = {"epoch"} if hasattr(owner, "set_epoch") else set()
        for name, value in getattr(owner, "__dict__", {}).items():
            few = value if isinstance(value, list | tuple) else [value]
            is_short = len(few) <= MOST_LOOKED_AT and all(isinstance(v, _PLAIN) for v in few)
            if is_short and name not in {*_OF_DATA, *told}:
                yield f"{index} {type(owner).__name__}.{name}", value


def _is_plain(value: object) -> bool:
    """Say whether a checkpoint can hold a value as data alone, and a copy stands for it."""
    if isinstance(value, torch.Tensor):
        # On a GPU it would come back elsewhere.
        return type(value) is torch.Tensor and value.device.type == "cpu"
    if isinstance(value, _PLAIN):
        return True
    if type(value) is dict:
        return all(isinstance(k, _PLAIN) and _is_plain(item) for k, item in value.items())
    return type(value) in (list, tuple) and all(map(_is_plain, cast(list, value)))


def _copied(leaf: object) -> object:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

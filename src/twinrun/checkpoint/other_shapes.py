"""Tensors of a module that have another shape than where the training begins.

Most layers cannot load them. Some have it while they are loaded (`_load_from_state_dict`), as those
of torch's quantization-aware training do: whether one does is tried with a copy of it.
"""

import copy
from collections.abc import Sequence
from typing import TypeAlias

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.looks import digest

KEEPS_ALL = pl.LightningModule.on_save_checkpoint
TensorShapes: TypeAlias = dict[str, tuple[int, ...]]
"""Of parameters and buffers, by name."""


def tensor_shapes_of(module: torch.nn.Module) -> TensorShapes:
    """Return the shape of each parameter and buffer, by each name that it has."""
    return {name: tuple(tensor.shape) for name, tensor in _tensors_of(module).items()}


def never_taken(module: torch.nn.Module, at_start: TensorShapes) -> list[str]:
    """Name the tensors that a checkpoint could not be loaded into.

    Args:
        module: that is trained.
        at_start: what `tensor_shapes_of` gave where a checkpoint would be loaded.
    """
    now = tensor_shapes_of(module)
    others = [name for name in {**at_start, **now} if at_start.get(name) != now.get(name)]
    parts = dict(module.named_modules(remove_duplicate=False))
    named: dict[str, list[str]] = {}
    for name in others:
        named.setdefault(name.rpartition(".")[0], []).append(name)
    return [
        name
        for path, names in named.items()
        if any(name not in at_start or name not in now for name in names)
        or not _takes(parts[path], [name.rpartition(".")[2] for name in names], path, at_start)
        for name in names
    ]


def _takes(part: torch.nn.Module, names: Sequence[str], path: str, at_start: TensorShapes) -> bool:
    """Say whether a layer that is as it began has the tensors that it has now, once loaded."""
    if type(part)._load_from_state_dict is torch.nn.Module._load_from_state_dict:
        return False
    wanted = {name: digest(tensor) for name, tensor in _tensors_of(part).items()}
    try:
        state = copy.deepcopy(part.state_dict())
        fresh = copy.deepcopy(part)
        for name in names:
            began = torch.zeros(at_start[f"{path}.{name}" if path else name])
            held = getattr(fresh, name)
            began = began.to(held)
            is_trained = isinstance(held, torch.nn.Parameter)
            setattr(fresh, name, torch.nn.Parameter(began) if is_trained else began)
        fresh.load_state_dict(state)
        return wanted == {name: digest(tensor) for name, tensor in _tensors_of(fresh).items()}
    except Exception:  # of whatever class: a layer of a user's own may refuse anything
        return False


def _tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    # A state_dict has each by all its names, and a module may take some out, or load without.
    saves = getattr(type(module), "on_save_checkpoint", KEEPS_ALL)
    once = saves is not KEEPS_ALL or not getattr(module, "strict_loading", True)
    found = module.named_parameters(remove_duplicate=once)
    return {**dict(found), **dict(module.named_buffers(remove_duplicate=once))}

"""What is taken out of a checkpoint: by a module, though it is needed; by us, as it is not.

Lightning's callbacks that average weights save the `state_dict` of their copy of the module, and
lose what is no part of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch.optim.swa_utils import AveragedModel

from twinrun.plain_tensors import raw_bytes

_PLAIN = (str, bytes, int, float, bool, type(None))


def left_out_of(
    checkpoint: Mapping[str, Any], module: torch.nn.Module, *, key: str
) -> dict[str, torch.Tensor]:
    """Return the weights and buffers that a module takes out of its checkpoint, or saves otherwise.

    As one does who saves what is trained alone: the running statistics of the rest move, too.

    Args:
        checkpoint: as it is going to be written, behind all hooks.
        module: whose it is.
        key: of what `Resumable` adds to it.
    """
    held = {**checkpoint["state_dict"], **checkpoint[key]["buffers"]}
    return {
        name: tensor.detach().cpu()
        for name, tensor in tensors_of(module)
        if not _is_same(held.get(name), tensor.detach())
    }


def _is_same(saved: object, tensor: torch.Tensor) -> bool:
    if not isinstance(saved, torch.Tensor):
        return False
    saved = saved.detach()
    kinds = [(each.shape, each.dtype, each.layout) for each in (saved, tensor)]
    if kinds[0] != kinds[1]:
        return False
    tensor = tensor.to(saved.device)  # a state that was made by hand may lie elsewhere
    if tensor.layout is not torch.strided:
        return torch.equal(saved, tensor)
    return torch.equal(raw_bytes(saved), raw_bytes(tensor))


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name all parameters and buffers."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def drop_hyperparameters(checkpoint: dict[str, Any]) -> None:
    """Take the hyperparameters that are no data from a checkpoint: no training needs them.

    The others stay: a module's own `on_save_checkpoint`, which comes later, may read or add some.
    """
    for owner in (pl.LightningModule, pl.LightningDataModule):
        key, kind = owner.CHECKPOINT_HYPER_PARAMS_KEY, owner.CHECKPOINT_HYPER_PARAMS_TYPE
        checkpoint.pop(kind, None)  # the class of a configuration
        if key in checkpoint:
            held = dict(checkpoint[key])
            checkpoint[key] = {name: value for name, value in held.items() if _is_data(value)}


def _is_data(value: object) -> bool:
    """Say whether a value can be loaded where nothing but data may be."""
    if type(value) is dict:
        return all(type(key) in _PLAIN and _is_data(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_data, cast("list[object]", value)))
    return type(value) in _PLAIN  # by what it is: a number of NumPy's is a float, too


def transient_buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name the buffers that are no part of the module's state_dict."""
    kept = module.state_dict().keys()
    return ((name, buffer) for name, buffer in module.named_buffers() if name not in kept)


def put_back_tensors(
    module: torch.nn.Module,
    buffers: Mapping[str, torch.Tensor],
    left_out: Mapping[str, torch.Tensor],
) -> None:
    """Put back what a module's state_dict leaves out, by name."""
    with torch.no_grad():
        for name, buffer in transient_buffers(module):
            buffer.copy_(buffers[name])
        for name, tensor in tensors_of(module):
            if name in left_out:
                tensor.copy_(left_out[name])


def left_out_of_averages(trainer: pl.Trainer) -> dict[str, torch.Tensor]:
    """Name what callbacks' averages hold beside their state_dict, by number and name."""
    return {
        f"{number} {name}": tensor
        for number, module in _averages(trainer)
        for name, tensor in tensors_of(module)
        if name not in module.state_dict()
    }


def put_back_averages(trainer: pl.Trainer, saved: Mapping[str, torch.Tensor]) -> None:
    """Put back what `left_out_of_averages` named."""
    with torch.no_grad():
        for name, tensor in left_out_of_averages(trainer).items():
            tensor.copy_(saved[name])


def _averages(trainer: pl.Trainer) -> Iterator[tuple[int, torch.nn.Module]]:
    """Yield the copies of the module that Lightning's callbacks average, and their numbers."""
    for number, callback in enumerate(vars(trainer)["callbacks"]):
        found = getattr(callback, "_average_model", None)
        if isinstance(found, torch.nn.Module):
            yield number, found.module if isinstance(found, AveragedModel) else found

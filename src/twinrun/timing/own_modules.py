"""A module for each variant of a timing, with the same initial weights."""

from types import CellType, FunctionType

import torch
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from twinrun.containers import is_really


def holds_itself(module: torch.nn.Module) -> bool:
    """Say whether a function that a module keeps was made with one of its layers."""
    kept = [value for part in module.modules() for value in tree_leaves(dict(vars(part)))]
    functions = [each for each in kept if is_really(each, FunctionType)]
    cells = [cell for each in functions for cell in each.__closure__ or ()]
    return any(isinstance(_content(cell), torch.nn.Module) for cell in cells)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def give_weights(first: torch.nn.Module, other: torch.nn.Module) -> None:
    """Copy the weights and buffers of a module into another one of its class.

    Constructed from the same random numbers it has them, unless these decide less than all.
    """
    known = {**dict(first.named_parameters()), **dict(first.named_buffers())}
    with torch.no_grad():
        for name, tensor in [*other.named_parameters(), *other.named_buffers()]:
            found = known.get(name)
            # One that is made with the first batch has no shape yet.
            if found is None or is_lazy(found) or is_lazy(tensor):
                continue
            if tensor.layout is torch.strided and _kind(tensor) == _kind(found):
                tensor.copy_(found)


def _kind(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.layout

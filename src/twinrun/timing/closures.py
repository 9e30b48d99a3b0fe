"""Functions that a module keeps and that hold layers of it, which no copy of it changes."""

from types import CellType

import torch
from torch.utils._pytree import tree_leaves


def holds_itself(module: torch.nn.Module) -> bool:
    """Say whether a function that a module keeps was made with one of its layers."""
    kept = [value for part in module.modules() for value in tree_leaves(dict(vars(part)))]
    cells = [cell for each in kept for cell in getattr(each, "__closure__", None) or ()]
    return any(isinstance(_content(cell), torch.nn.Module) for cell in cells)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None

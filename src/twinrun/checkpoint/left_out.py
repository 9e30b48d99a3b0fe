"""What a module takes out of its own checkpoint, and a resumed training needs all the same."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch


def add_left_out(
    path: Path, saved: Mapping[str, Any], module: torch.nn.Module, *, key: str
) -> None:
    """Complete a checkpoint by the weights and buffers that its module takes out of it.

    As one does who saves what is trained alone: the running statistics of the rest move, too.

    Args:
        path: of the checkpoint.
        saved: what it holds.
        module: whose it is.
        key: of what `Resumable` adds to it.
    """
    held = saved["state_dict"].keys() | saved[key]["buffers"].keys()
    left_out = {name: t.detach().cpu() for name, t in tensors_of(module) if name not in held}
    if left_out:
        # Read anew: the file that is written must not be the one that memory is mapped to.
        whole = torch.load(path, weights_only=True)
        whole[key]["left_out"] = left_out
        torch.save(whole, path)


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name all parameters and buffers."""
    yield from module.named_parameters()
    yield from module.named_buffers()

"""In which order a tensor's elements lie in memory: a checkpoint brings back their values alone.

A network that a hook lays out anew under way (`channels_last`) would be resumed in the order in
which it is made, and other kernels would add in another order.
"""

from collections.abc import Iterator, Mapping

import torch

Orders = Mapping[str, tuple[int, ...]]
"""The strides of parameters and buffers, by name."""


def orders_in_memory(module: torch.nn.Module) -> Orders:
    """Return the strides of a module's parameters and buffers, where they have any."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {
        name: tensor.stride()
        for name, tensor in tensors.items()
        if tensor.layout is torch.strided and not tensor.is_nested
    }


def reordered(before: Orders, after: Orders) -> Iterator[str]:
    """Name the tensors of the same size that lie otherwise than before."""
    for name, strides in after.items():
        if before.get(name, strides) != strides:
            yield f"{name} lies in memory in another order than where the training began"

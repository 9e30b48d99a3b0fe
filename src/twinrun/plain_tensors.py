"""Sparse, nested and quantised tensors as strided ones; subclasses as what they are at bottom."""

import numpy as np
import torch


def bare(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a user's class as torch's own, which shares its memory.

    Its class may have methods of its own, which refuse to be called for anything but its purpose.
    One that is no memory but stands before other tensors is returned as it is.
    """
    kind = type(tensor)
    if kind in (torch.Tensor, torch.nn.Parameter):
        return tensor
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or tensor.is_nested:
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(torch.Tensor.detach(tensor), torch.Tensor)


def plain_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the strided tensors of numbers that a sparse, nested or quantised one is made of."""
    if tensor.is_nested:
        parts = list(tensor.unbind())
        # Without the shapes, the same values cut in other places would look alike.
        shapes = [number for part in parts for number in (part.ndim, *part.shape)]
        return [*parts, torch.tensor(shapes)]
    if tensor.layout is torch.sparse_coo:
        # Uncoalesced, equal tensors may hold their entries in another order, or in parts.
        tensor = tensor.coalesce()
        return [tensor.indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.layout is not torch.strided:
        return [tensor.to_dense()]
    if not tensor.is_quantized:
        return [tensor]
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale = torch.tensor([tensor.q_scale(), tensor.q_zero_point()], dtype=torch.float64)
        return [tensor.int_repr(), scale]
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return [tensor.int_repr(), scales, zeros, torch.tensor([tensor.q_per_channel_axis()])]


def flat_bytes(tensor: torch.Tensor) -> np.ndarray:
    """Return a strided tensor's bytes in the order of its elements, flat uint8.

    To be read at once: the tensor may be resized behind that, as behind its `numpy` it may not.
    """
    return np.from_dlpack(raw_bytes(tensor.detach().cpu().resolve_conj().resolve_neg()))


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a strided tensor's bytes where it lies, in the order of its elements, flat uint8."""
    flat = tensor.contiguous().reshape(-1)
    if flat.stride() != (1,):  # of one element that was expanded, which torch calls contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)

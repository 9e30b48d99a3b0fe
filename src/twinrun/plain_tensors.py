"""Sparse, nested and quantised tensors as the strided ones that they are made of."""

import torch


def plain_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the strided tensors of numbers that a sparse, nested or quantised one is made of."""
    if tensor.is_nested:
        parts = list(tensor.unbind())
        # Without the lengths, the same values cut in other places would look alike.
        return [*parts, torch.tensor([len(part) for part in parts if part.ndim])]
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

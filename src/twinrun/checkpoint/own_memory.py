"""Where tensors lie, and which of them share their memory with nothing else."""

import torch


def id_of_memory(value: object) -> int | None:
    """Return where a strided tensor lies, None for all else."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_nested:
        return None
    return None if value.is_meta else value.untyped_storage().data_ptr()


def is_by_itself(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is all of its memory, each element of its own."""
    if id_of_memory(tensor) is None or tensor.is_conj() or tensor.is_neg():
        return False
    return tensor.untyped_storage().nbytes() == tensor.nbytes

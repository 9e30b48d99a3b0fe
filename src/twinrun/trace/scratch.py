"""Which results of an operation may hold what was in memory before it."""

import torch
from torch._ops import OpOverload

from twinrun.trace.data_flow import name_of

# What kernels of a GPU give their backward pass in memory that they need not have written: states
# of generators where nothing is dropped, and what a library keeps for itself.
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/native_functions.yaml
_SCRATCH = {"rng_state", "unused", "philox_seed", "philox_offset", "debug_attn_mask"}
_RESERVES = {  # the place of the result
    "cudnn_batch_norm": 3,
    "_batch_norm_with_update": 3,
    "_cudnn_rnn": 3,
    "miopen_rnn": 3,
}


def scratch_of(func: OpOverload, result: object) -> list[torch.Tensor]:
    """Return the results of an operation that may hold what was in memory before."""
    if not isinstance(result, tuple | list):
        return []
    names = [returned.name for returned in func._schema.returns]
    reserve = _RESERVES.get(name_of(func))
    return [
        each
        for index, each in enumerate(result)
        if isinstance(each, torch.Tensor)
        and (index == reserve or (index < len(names) and names[index] in _SCRATCH))
    ]

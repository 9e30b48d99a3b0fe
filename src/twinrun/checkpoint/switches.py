"""Switches of torch that decide about bits: no checkpoint holds how they are set.

A resumed training begins with them as its process set them before the first epoch.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter

import torch

from twinrun.process.determinism import ATTRIBUTES, matmul_precision

# Which library computes, and in which order: no setting of a variant, and never set by Twinrun.
_CHOOSING = ("backends.mkldnn.enabled", "backends.cudnn.enabled", "backends.cudnn.benchmark_limit")
_CHOOSING += ("backends.opt_einsum.enabled", "backends.opt_einsum.strategy")
_CHOOSING += tuple(
    f"backends.cuda.matmul.allow_{dtype}_reduced_precision_reduction" for dtype in ("fp16", "bf16")
)
_CHOOSING += ("backends.cuda.matmul.allow_fp16_accumulation",)
_AUTOCAST = ("cpu", "cuda")
_TINY = 1e-323  # the number of torch's documentation of `set_flush_denormal`


def switches() -> dict[str, object]:
    """Return how they are set, by their names in torch."""
    return {
        "set_default_dtype": torch.get_default_dtype(),
        "set_default_device": str(torch.get_default_device()),
        # Torch does not say so.
        "set_flush_denormal": torch.tensor([_TINY], dtype=torch.float64).item() == 0,
        "use_deterministic_algorithms": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "set_float32_matmul_precision": matmul_precision(),
        "set_num_threads": torch.get_num_threads(),
        "set_autocast_enabled": [torch.is_autocast_enabled(device) for device in _AUTOCAST],
        "set_autocast_dtype": [torch.get_autocast_dtype(device) for device in _AUTOCAST],
        "set_autocast_cache_enabled": torch.is_autocast_cache_enabled(),
        "backends.mha.set_fastpath_enabled": torch.backends.mha.get_fastpath_enabled(),
        "backends.cuda.enable_flash_sdp": torch.backends.cuda.flash_sdp_enabled(),
        "backends.cuda.enable_mem_efficient_sdp": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "backends.cuda.enable_math_sdp": torch.backends.cuda.math_sdp_enabled(),
        "backends.cuda.enable_cudnn_sdp": torch.backends.cuda.cudnn_sdp_enabled(),
        "backends.cuda.preferred_blas_library": str(torch.backends.cuda.preferred_blas_library()),
        **{name: attrgetter(name)(torch) for name in (*ATTRIBUTES, *_CHOOSING)},
    }


def changed_switches(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    """Name those that have been set otherwise."""
    for name, value in before.items():
        if after[name] != value:
            yield f"{name} of torch changes while the training runs, and no checkpoint holds it"

"""Seeds and switches: capture, set, restore.

`determinism` sets every switch by which torch and cuDNN choose between a reproducible and a faster
algorithm, and puts back what it found, also after an exception, together with the states of all
random generators. What must be set before the interpreter or CUDA starts (`PYTHONHASHSEED`,
`CUBLAS_WORKSPACE_CONFIG`, the thread counts of OpenMP and MKL) is in `launching`, not here.

It does not promise that training repeats: that is what the comparisons measure.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.backends import cudnn, mkldnn

SWITCHES = ("deterministic", "threads", "fill_uninitialized_memory")  # settings of a variant


def capture() -> dict[str, Any]:
    """Read every switch and the state of every random generator of this process."""
    return {
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill": torch.utils.deterministic.fill_uninitialized_memory,
        "cudnn_deterministic": cudnn.deterministic,
        "cudnn_benchmark": cudnn.benchmark,
        "mkldnn_deterministic": mkldnn.deterministic,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "random": random_states(),
    }


def restore(state: dict[str, Any]) -> None:
    """Put back what `capture` read."""
    torch.use_deterministic_algorithms(state["algorithms"], warn_only=state["warn_only"])
    torch.utils.deterministic.fill_uninitialized_memory = state["fill"]
    cudnn.deterministic = state["cudnn_deterministic"]
    cudnn.benchmark = state["cudnn_benchmark"]
    mkldnn.deterministic = state["mkldnn_deterministic"]
    torch.set_float32_matmul_precision(state["matmul_precision"])
    torch.set_num_threads(state["threads"])
    restore_random_states(state["random"])


def random_states() -> dict[str, Any]:
    """Read the states of Python's, NumPy's and torch's generators, of torch for each device.

    They are tensors and plain values, so that a file of them can be loaded with `weights_only`.
    """
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put back what `random_states` read."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    for state in states["mps"]:
        torch.mps.set_rng_state(state)


@contextmanager
def determinism(
    *, deterministic: bool, threads: int, fill_uninitialized_memory: bool = True
) -> Iterator[None]:
    """Set the switches for the body and restore them, and the random generators, after it.

    Args:
        deterministic: only reproducible algorithms; an operation that has none raises a
            RuntimeError that names it.
        threads: torch's intra-op threads, on which the bits of a result on a CPU depend.
        fill_uninitialized_memory: only where deterministic, as in torch.
    """
    before = capture()
    try:
        torch.use_deterministic_algorithms(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = (
            deterministic and fill_uninitialized_memory
        )
        cudnn.deterministic = deterministic
        cudnn.benchmark = False
        mkldnn.deterministic = deterministic
        torch.set_num_threads(threads)
        yield
    finally:
        restore(before)

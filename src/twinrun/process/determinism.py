"""Switches and RNG states: capture, set, restore.

`determinism` sets every switch by which torch and cuDNN choose between a deterministic and a faster
algorithm. After its body, also after an exception, it restores the switches and the RNG states (the
states of all random number generators). What must be set before the interpreter or CUDA starts
(`PYTHONHASHSEED`, `CUBLAS_WORKSPACE_CONFIG`, the thread counts of OpenMP and MKL) is set by
`launching`. The switches are those of https://docs.pytorch.org/docs/stable/notes/randomness.html.

Nothing here promises that training repeats: the comparisons measure that.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, TypedDict

import numpy as np
import torch

SWITCHES = ("deterministic", "threads", "fill_uninitialized_memory")  # settings of a variant

# Switches that are attributes of torch; parents stand before their children. `fp32_precision`
# chooses TF32 for a backend or one of its operations, where a child follows its parent until it is
# set itself. In a process that has set one of them torch refuses to read the older switch of all:
# https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
ATTRIBUTES = (
    "utils.deterministic.fill_uninitialized_memory",
    "backends.cudnn.deterministic",
    "backends.cudnn.benchmark",
    "backends.mkldnn.deterministic",
    "backends.fp32_precision",
    "backends.cuda.matmul.fp32_precision",
    "backends.cudnn.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.mkldnn.fp32_precision",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mkldnn.conv.fp32_precision",
    "backends.mkldnn.rnn.fp32_precision",
)


class RNGStates(TypedDict):
    """RNG states of a process, as tensors and plain values."""

    python: tuple[object, ...]
    """As `random.getstate` has it."""
    numpy: tuple[Any, ...]
    """As `numpy.random.get_state` has it, with the keys as a list."""
    torch: torch.Tensor
    """State of the default generator on the CPU, uint8."""
    cuda: list[torch.Tensor]
    """State of each CUDA device."""
    mps: list[torch.Tensor]
    """State of Apple's GPU, if there is one."""


class State(TypedDict):
    """Switches and RNG states of a process."""

    algorithms: bool
    """torch.use_deterministic_algorithms."""
    warn_only: bool
    """Whether an operation without a deterministic algorithm warns instead of raising."""
    matmul_precision: str | None
    """torch.set_float32_matmul_precision; None where torch refuses to say, see ATTRIBUTES."""
    attributes: dict[str, bool | str]
    """The switches of ATTRIBUTES."""
    threads: int
    """torch's intra-op threads."""
    random: RNGStates
    """RNG states."""


def _set(values: Mapping[str, bool | str]) -> None:
    """Set attributes of torch that have another value: an inherited precision stays inherited."""
    for name, value in values.items():
        owner, _, attribute = name.rpartition(".")
        if attrgetter(name)(torch) != value:
            setattr(attrgetter(owner)(torch), attribute, value)


def matmul_precision() -> str | None:
    """Return torch's precision of float32 products; None where torch refuses to say."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # the process has set `fp32_precision`, which replaces it
        return None


def fp32_precisions() -> dict[str, str]:
    """Return the switches `fp32_precision` of ATTRIBUTES by their names in torch."""
    names = [name for name in ATTRIBUTES if name.endswith(".fp32_precision")]
    return {name: attrgetter(name)(torch) for name in names}


def capture() -> State:
    """Return every switch and the RNG states of this process."""
    return {
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "matmul_precision": matmul_precision(),
        "attributes": {name: attrgetter(name)(torch) for name in ATTRIBUTES},
        "threads": torch.get_num_threads(),
        "random": rng_states(),
    }


def restore(state: State) -> None:
    """Set what `capture` returned."""
    restore_switches(state)
    restore_rng_states(state["random"])


def restore_switches(state: State) -> None:
    """Set the switches of what `capture` returned, and leave the RNG states as they are."""
    torch.use_deterministic_algorithms(state["algorithms"], warn_only=state["warn_only"])
    if state["matmul_precision"] is not None:
        torch.set_float32_matmul_precision(state["matmul_precision"])
    _set(state["attributes"])
    torch.set_num_threads(state["threads"])


def impose(before: State, after: State) -> None:
    """Set the switches in which a process differs from before, and no others."""
    algorithms = [after["algorithms"], after["warn_only"]]
    if algorithms != [before["algorithms"], before["warn_only"]]:
        torch.use_deterministic_algorithms(after["algorithms"], warn_only=after["warn_only"])
    known = before["attributes"]
    _set({name: value for name, value in after["attributes"].items() if value != known[name]})
    if after["threads"] != before["threads"]:
        torch.set_num_threads(after["threads"])


def rng_states() -> RNGStates:
    """Return the states of Python's, NumPy's and torch's generators, torch's on each device.

    They are tensors and plain values, so that torch.load can read a file of them with weights_only.
    """
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
    }


def restore_rng_states(states: RNGStates) -> None:
    """Set what `rng_states` returned."""
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
    """Set the switches for the body; restore them and the RNG states after it.

    Args:
        deterministic: use deterministic algorithms only. An operation that has none raises a
            RuntimeError that names it.
        threads: torch's intra-op threads; on a CPU the bits of a result depend on them.
        fill_uninitialized_memory: has an effect only where deterministic, as in torch.
    """
    before = capture()
    try:
        torch.use_deterministic_algorithms(deterministic)
        _set(
            {
                "utils.deterministic.fill_uninitialized_memory": deterministic
                and fill_uninitialized_memory,
                "backends.cudnn.deterministic": deterministic,
                "backends.mkldnn.deterministic": deterministic,
                # Benchmarking chooses algorithms by time, so that two runs may choose differently.
                "backends.cudnn.benchmark": False,
            }
        )
        torch.set_num_threads(threads)
        yield
    finally:
        restore(before)

"""What torch is set to in this process, and what a training sets otherwise for a while.

A module may switch deterministic algorithms off for an operation, or take one thread for a step,
and put back what was there: no look between two steps sees it. So the functions that set these
switches are watched while the training runs. What is set past them, by another library or by a name
that was imported from torch (`from torch import set_num_threads`), is seen where it still holds at
the end of a step.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

import torch

from twinrun.config.definitions import Variant
from twinrun.process.determinism import fp32_precisions, matmul_precision
from twinrun.process.environment import Switches
from twinrun.run_records import Departure

ONLY_WARNS = (
    "is set with warn_only=True by the module: an operation without a reproducible algorithm "
    "warns, and is done all the same"
)

# Where they are looked up when they are called. torch.use_deterministic_algorithms and its brothers
# call the second, by whatever name they are called.
SETTERS = (
    (torch, "set_num_threads"),
    (torch._C, "_set_deterministic_algorithms"),
    (torch._C, "_set_float32_matmul_precision"),
    (torch._C, "_set_fp32_precision_setter"),
    (torch._C, "_set_cublas_allow_tf32"),
    (torch._C, "_set_cudnn_allow_tf32"),
)


def switches() -> Switches:
    """Read what torch is set to in this process."""
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "matmul_precision": matmul_precision() or _fp32_precisions(),
    }


def _fp32_precisions() -> str:
    """Name the switches that replace the precision of products, where they are set."""
    found = fp32_precisions().items()
    return ", ".join(f"{name}={value}" for name, value in found if value != "none")


def departure(setting: str, what: str) -> Departure:
    """Say of a setting how a training departs from it."""
    return {"setting": setting, "sentence": f"{setting} {what}"}


def departures_of_switches(
    actual: Mapping[str, object] | Switches, variant: Variant
) -> list[Departure]:
    """Return each of torch's switches that is not as the variant says."""
    found = other_than_asked({**actual}, variant, ("threads", "deterministic"))
    if variant.deterministic and actual["deterministic"] and actual["warn_only"]:
        found.append(departure("deterministic", ONLY_WARNS))
    return found


def other_than_asked(
    actual: Mapping[str, object], variant: Variant, names: Sequence[str]
) -> list[Departure]:
    """Return each of these settings that is not as the variant says."""
    return [
        departure(name, f"is {actual[name]}, where the variant says {getattr(variant, name)}")
        for name in names
        if actual[name] != getattr(variant, name)
    ]


class Switched:
    """Notes which switches have another value for a while than when it was started."""

    def __init__(self) -> None:
        self.found: dict[str, object] = {}
        """The first other value of each switch that had one."""
        self._at_start = switches()
        self._thread = 0
        self._replaced: list[tuple[object, str, object]] = []

    def start(self) -> None:
        """Watch what this thread sets from now on."""
        self.stop()
        self.found, self._at_start, self._thread = {}, switches(), threading.get_ident()
        for owner, name in SETTERS:
            setter = getattr(owner, name, None)  # one of them came with torch 2.9
            if setter is not None:
                self._replaced.append((owner, name, setter))
                setattr(owner, name, self._watched(setter))

    def stop(self) -> None:
        """Put back what was there."""
        while self._replaced:
            owner, name, setter = self._replaced.pop()
            setattr(owner, name, setter)

    def look(self) -> None:
        """Note what is set otherwise now."""
        before, now = dict(self._at_start), dict(switches())
        for name, value in now.items():
            if value != before[name]:
                self.found.setdefault(name, value)

    def _watched(self, setter: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            given = setter(*args, **kwargs)
            # Threads of their own, as a loader's that pins memory, set what counts for them alone.
            if threading.get_ident() == self._thread:
                self.look()
            return given

        return call

"""Whether the settings in which two runs differ do no more, by what they are, than choose kernels.

Threads, layouts, instruction sets and compilers compute the same sums in another order or format.
How far a step enlarges that, the model of `rounding` does not know: one of a line search is twenty
updates, a second difference divides by the square of a small step, the direction of an adversarial
example is that of a gradient which is rounding, and a student that begins as its teacher has no
other gradients. So no distance shows that such a change computed something else.
"""

from collections.abc import Mapping
from dataclasses import asdict

from twinrun.process.machine import ARITHMETIC
from twinrun.run_files import variant_of
from twinrun.run_records import RunManifest, is_in_doubt

_KERNELS = {
    *("accelerator", "threads", "deterministic", "precision", "compile", "layout", "optimizer"),
    "cuda_graph",
}
_PARTS = {"devices", "accumulate"}
# What Python does and the order of sets, memory that nothing has written, arguments of the Trainer,
# and whatever a library that is preloaded does.
_MORE = ("PYTHON", "MALLOC_", "PL_TRAINER_", "LD_PRELOAD")
_SUMS = "the setting chooses how the same sums are computed"
_PARTS_OF_SUMS = (
    "parts of a mini-batch have the same sums if its loss is a mean over samples, which is not "
    "known of every loss"
)
_KEPT = (
    "it is not known whether what parts of a mini-batch change in attributes changes the training"
)
_SO_FAR = (
    "a step may enlarge rounding so far (a line search, a small difference that is divided by, a "
    "gradient that is rounding)"
)


def doubt_of(first: RunManifest, other: RunManifest) -> str | None:
    """Say why what goes beyond the model's bounds may be rounding; None if more was changed.

    Args:
        first: a finished run.
        other: another, of the same training but for settings.
    """
    before, now = asdict(variant_of(first)), asdict(variant_of(other))
    changed = {name for name in now if now[name] != before[name]}
    variables = _variables(before["environment"], now["environment"])
    if first["seed"] != other["seed"] or not changed:
        return None
    if not all(name.startswith(ARITHMETIC) and not name.startswith(_MORE) for name in variables):
        return None
    # A mean over parts is the mean, but for what the parts have of their own.
    parts = changed & _PARTS
    is_known = not (parts and any(_in_parts(run) for run in (first, other)))
    if not (changed <= {*_KERNELS, "environment", *parts} and is_known):
        return None
    kept = [d for run in (first, other) for d in run["departures"] if is_in_doubt(d)]
    # What may be the cause comes first.
    sums = f"{_KEPT}, {_PARTS_OF_SUMS}" if kept else _PARTS_OF_SUMS
    return f"{sums if parts else _SUMS}, and {_SO_FAR}"


def _variables(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name, _ in before.items() ^ now.items()}


def _in_parts(run: RunManifest) -> bool:
    """Say whether a run computes parts of mini-batches otherwise, or nobody knows."""
    actual = run["actual"]
    is_other = actual is None or actual["batch_norm"] != "none"
    return is_other or not all(map(is_in_doubt, run["departures"]))

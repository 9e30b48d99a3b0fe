"""What whole trainings of a workload show that a timing of its steps does not. Without torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from twinrun.run_files import left_network, workload_of
from twinrun.run_records import FailedRun, RunManifest
from twinrun.timing.whole_trainings import is_whole


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The whole trainings of a workload, all of its own size."""

    compiling: dict[str, float]
    """For how long they compiled: median seconds by variant."""
    epochs: int | None
    """The most that one had, where one ended before its last; None where none did."""
    is_exact: bool
    """Whether each had so many, and in each of them all batches."""


def trained_of(runs: Iterable[RunManifest | FailedRun]) -> dict[str, Trained]:
    """Return what whole trainings show, by workload."""
    found: dict[str, list[RunManifest]] = {}
    for run in runs:
        if left_network(run) and is_whole(run):
            found.setdefault(run["workload"], []).append(run)
    return {workload: _of_workload(of) for workload, of in found.items()}


def _of_workload(runs: list[RunManifest]) -> Trained:
    compiling: dict[str, list[float]] = {}
    for run in runs:
        compiling.setdefault(run["variant"], []).append(run["seconds"]["compiling"])
    numbers = {run["epochs"] for run in runs} | {run["whole_epochs"] for run in runs}
    return Trained(
        compiling={variant: median(seconds) for variant, seconds in compiling.items()},
        epochs=max(run["epochs"] for run in runs) if any(map(_ended_early, runs)) else None,
        is_exact=len(numbers) == 1,
    )


def _ended_early(run: RunManifest) -> bool:
    """Say whether something ended a training before its last epoch, such as early stopping."""
    workload = workload_of(run)
    most = workload.trainer.max_steps
    if most != -1 and run["steps"] >= most:
        return False
    return workload.epochs == -1 or run["epochs"] < workload.epochs

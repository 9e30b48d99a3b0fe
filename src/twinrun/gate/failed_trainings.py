"""Trainings that failed: what is required of them does not hold, whatever their verdict says.

To be `not comparable` is no fault, and a CI may let it pass; to crash is one. So is to become NaN
where results are compared: in a contest. Whether bits repeat, NaN or not, a pair has found out.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from twinrun.gate.outcome import Judged
from twinrun.run_files import left_network, read_ended
from twinrun.run_records import FAILED
from twinrun.verdicts.failed_runs import how_to_retry

# Of a fast training that failed, whose network so far is kept.
BROKEN_OFF = "broken off: "


def failures(requirement: str, runs: Iterable[str | Path]) -> list[Judged]:
    """Judge the runs behind a requirement that fail it, whatever the verdict on them says."""
    runs = list(runs)
    return [*failed_trainings(runs), *(without_result(runs) if requirement == "contest" else ())]


def failed_trainings(runs: Iterable[str | Path]) -> Iterator[Judged]:
    """Judge the runs whose training failed: each with the reason, its log and what repeats it."""
    for run in runs:
        manifest = read_ended(run)
        ended = manifest["ended"]
        if not left_network(manifest) or ended.startswith(BROKEN_OFF):
            folder, why = Path(run).parent, ended.removeprefix(FAILED).removeprefix(BROKEN_OFF)
            yield "fail", f"{folder}: this training failed: {why} ({how_to_retry(folder)})"


def without_result(runs: Iterable[str | Path]) -> Iterator[Judged]:
    """Judge the runs of a contest that ended, and left no result: their weights are NaN, say."""
    for run in runs:
        manifest = read_ended(run)
        if left_network(manifest) and (why := manifest["no_result"]) is not None:
            yield "fail", f"{Path(run).parent}: this training left no result: {why}"

"""Whether runs were tested on the same samples, and predicted the same ones in the same order."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from twinrun.run_files import left_network
from twinrun.run_records import FailedRun, RunManifest

Phase = Literal["test", "predict"]
OTHER_SAMPLES = "its test was of other samples than that of the reference"
OTHER_ROWS = "it predicts other samples than the reference, or in another order"


def other_phases(first: RunManifest, second: RunManifest) -> list[Phase]:
    """Return where two runs were given other samples; what cannot be looked into has no hash.

    Predictions are compared row by row, so that their order counts, and that of a test does not.
    """
    of: dict[Phase, list[dict[str, str]]] = {
        "test": [first["evaluated_samples"], second["evaluated_samples"]],
        "predict": [first["evaluated_on"], second["evaluated_on"]],
    }
    return [
        phase
        for phase, (one, other) in of.items()
        if phase in one and phase in other and one[phase] != other[phase]
    ]


def other_samples(manifests: Sequence[RunManifest | FailedRun]) -> bool:
    """Say whether runs of one seed were tested on other samples."""
    return any(True for _ in _unlike(manifests))


def drawn_otherwise(manifests: Sequence[RunManifest | FailedRun]) -> str | None:
    """Name runs of one workload and seed that were tested on other samples; None without any.

    Two workloads may prepare the samples in their own ways. One does not.
    """
    for one, other in _unlike(manifests):
        if one["settings"]["workload"] == other["settings"]["workload"]:
            names = [f"{m['workload']}/{m['variant']}/seed{m['seed']}" for m in (one, other)]
            return (
                f"{names[0]} was tested on other samples than {names[1]}: the data module draws "
                f"them from a generator that something else draws from, too; give it one of its own"
            )
    return None


def _unlike(
    manifests: Sequence[RunManifest | FailedRun],
) -> Iterator[tuple[RunManifest, RunManifest]]:
    runs = [manifest for manifest in manifests if left_network(manifest)]
    for one, other in combinations(runs, 2):
        if one["seed"] == other["seed"] and "test" in other_phases(one, other):
            yield one, other

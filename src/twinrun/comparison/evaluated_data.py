"""Whether runs were tested on the same samples, and predicted the same ones in the same order."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from twinrun import run_files
from twinrun.run_files import left_network
from twinrun.run_records import FailedRun, RunManifest

Phase = Literal["test", "predict"]
OTHER_SAMPLES = (
    "its test was of other samples than that of the reference, or of the same ones computed "
    "otherwise"
)
OTHER_ROWS = (
    "it predicts other samples than the reference, or in another order, or the same ones computed "
    "otherwise"
)


def other_phases(first: RunManifest, second: RunManifest) -> list[Phase]:
    """Return where two runs were given other samples; what cannot be looked into has no hash.

    Predictions are compared row by row, so that their order counts, and that of a test does not.
    Of two precisions the samples are those of the loaders: Lightning may have cast them.
    """
    of_runs = [
        (run_files.variant_of(run).precision, run["evaluated_on"], run["loaded"])
        for run in (first, second)
    ]
    is_cast = len({precision for precision, _, _ in of_runs}) > 1
    one_of, other_of = (loaded if is_cast else given for _, given, loaded in of_runs)
    of: dict[Phase, tuple[dict[str, str], dict[str, str]]] = {
        "test": (one_of["in_any_order"], other_of["in_any_order"]),
        "predict": (one_of["in_order"], other_of["in_order"]),
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
                f"{names[0]} was tested on other samples than {names[1]}, or on the same ones "
                f"computed otherwise: the data module draws them from a generator that something "
                f"else draws from, too (give it one of its own), or computes them with what the "
                f"two do not share, such as an instruction set (compute them once, into a file)"
            )
    return None


def _unlike(
    manifests: Sequence[RunManifest | FailedRun],
) -> Iterator[tuple[RunManifest, RunManifest]]:
    runs = [manifest for manifest in manifests if left_network(manifest)]
    for one, other in combinations(runs, 2):
        if one["seed"] == other["seed"] and "test" in other_phases(one, other):
            yield one, other

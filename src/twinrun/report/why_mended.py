"""Whether settings explain that the runs of one variant repeat and those of another do not.

Two runs that are equal beside two that differ may be chance: of a cache that the first training of
all has filled, the order of the trainings decides which variant seems to repeat.
"""

from twinrun.comparison.advice import REPRODUCIBLE
from twinrun.comparison.causes import GIVEN
from twinrun.comparison.difference_words import clause_of
from twinrun.report.results import ReportedComparison, Results

SHARED = (
    "a run of each ended in the same weights, so that chance, or the order in which they were "
    "trained, may decide it, and not the settings: more `repeats` tell"
)


def doubt_of(
    results: Results,
    workload: str,
    *,
    pairs: list[ReportedComparison],
    variants: tuple[str, str],
    is_determinism: bool,
    has_weights_apart: bool,
) -> str | None:
    """Say why the settings need not be what mends it; None where nothing speaks against it.

    Args:
        results: of the report.
        workload: its name.
        pairs: the comparisons of the variant that does not repeat.
        variants: its name, and that of the one that does.
        is_determinism: whether they differ in deterministic algorithms alone.
        has_weights_apart: whether the first one's runs end in other weights, and not only in other
            predictions or logged values.
    """
    if is_determinism and _is_decided_by_algorithms(results, pairs):
        return None
    weights = [
        {
            run["weights_sha256"]
            for run in results.runs_of(workload, name)
            if not run["perturbation"]
        }
        for name in variants
    ]
    if has_weights_apart and weights[0] & weights[1]:
        return SHARED
    firsts = [first for pair in pairs if (first := pair["first_difference"]) is not None]
    given = [first for first in firsts if first["quantity"] in GIVEN]
    if is_determinism and given:
        return (
            f"no operation of a training step decides what differs first, {clause_of(given[0])}: "
            f"one of validation, of a callback or of the start may, or a fixed `PYTHONHASHSEED`"
        )
    return None


def _is_decided_by_algorithms(results: Results, pairs: list[ReportedComparison]) -> bool:
    """Say whether the operation that diverged first is one that deterministic algorithms mend."""
    asked = {(p["study"], p["workload"], p["variant"], p["seed"]) for p in pairs}
    return any(
        op["differs_in"] == "unwritten"
        or (op["differs_in"] == "outputs" and op["op"] in REPRODUCIBLE)
        for found in results.locations
        if (found["study"], found["workload"], found["variant"], found["seed"]) in asked
        and (op := found["op"]) is not None
    )

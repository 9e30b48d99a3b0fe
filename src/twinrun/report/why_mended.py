"""Whether settings explain that the runs of one variant repeat and those of another do not.

Two runs that are equal beside two that differ may be chance: of a cache that the first training of
all has filled, the order of the trainings decides which variant seems to repeat. And a
deterministic variant fixes more than algorithms (see `process.determinism` and
`launching.environment_of`): only where the operation with which the runs of each seed diverge is
one that deterministic algorithms mend do these explain it. What it fixes beside them is told also
then: nobody has seen whether later steps rest on it.
"""

from collections.abc import Iterator, Mapping, Sequence

from twinrun.comparison.advice import REPRODUCIBLE, UNWRITTEN_ADVICE
from twinrun.comparison.causes import GIVEN
from twinrun.comparison.conditions import listed
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.pair_records import Operation
from twinrun.report.results import ReportedComparison, ReportedLocation, Results
from twinrun.report.sentence import listed as named
from twinrun.run_files import end_of

SHARED = (
    "a run of each ended in the same weights, so that chance, or the order in which they were "
    "trained, may decide it, and not the settings: more `repeats` tell"
)
# What `deterministic: true` fixes beside algorithms, by the variable that does it.
FIXED = {
    "PYTHONHASHSEED": "the order of sets (`PYTHONHASHSEED`)",
    "CUBLAS_WORKSPACE_CONFIG": "cuBLAS's workspace (`CUBLAS_WORKSPACE_CONFIG`)",
}
FILLED = "what is read of memory that no operation has written"


def doubts_of(
    results: Results,
    workload: str,
    *,
    pairs: Sequence[ReportedComparison],
    variants: tuple[str, str],
    otherwise: Mapping[str, object],
) -> Iterator[str]:
    """Say why the settings need not be what mends it; nothing where nothing speaks against it.

    Args:
        results: of the report.
        workload: its name.
        pairs: the comparisons of the variant that does not repeat.
        variants: its name, and that of the one that does.
        otherwise: the settings that the latter has otherwise.
    """
    differing = [pair for pair in pairs if pair["answer"] == "differs"]
    seeds = {pair["seed"] for pair in differing} - _seeds_that_repeat(
        results, workload, variants[1]
    )
    if seeds:
        yield f"{variants[1]} was not trained twice from {listed('seed', sorted(seeds))}"
    located = [(pair, op) for pair in differing for op in _origins(results, pair)]
    unwritten = [op for _, op in located if op is not None and op["differs_in"] == "unwritten"]
    not_mended = [(pair, op) for pair, op in located if op is None or not _is_mended(op)]
    asks_algorithms = otherwise.get("deterministic") is True
    if unwritten:
        yield (
            f"the runs diverge at {op_with_line(unwritten[0])}, which reads memory that no "
            f"operation has written: {UNWRITTEN_ADVICE}"
        )
    elif asks_algorithms and located and not not_mended:
        return
    else:
        is_shared = _shares_weights(results, workload, variants)
        suspects = (suspect for pair in differing for suspect in _suspects(results, pair))
        suspect = next(filter(_is_mended, suspects), None)
        # What was seen comes before what may be chance, such as a race that did not fire.
        if asks_algorithms and (suspect is not None or not is_shared):
            yield _of_algorithms(results, not_mended, suspect, len(pairs), variants)
        if is_shared:
            yield SHARED


def _of_algorithms(
    results: Results,
    not_mended: Sequence[tuple[ReportedComparison, Operation | None]],
    suspect: Operation | None,
    seeds: int,
    variants: tuple[str, str],
) -> str:
    """Say why it need not be the algorithms, and what else the deterministic variant fixes."""
    why = _not_mended(not_mended, seeds)
    if suspect is not None:
        why += (
            f"; but they mend {op_with_line(suspect)}, before it, of whose values Python may have "
            f"made what differs"
        )
    also = [*fixed_beside(results, variants)]
    beside = f", and `deterministic: true` also fixes {named(also)}" if also else ""
    return f"it need not be the algorithms that mend it: {why}{beside}"


def fixed_beside(results: Results, variants: tuple[str, str]) -> Iterator[str]:
    """Say what a deterministic variant fixes beside algorithms, and the other one does not."""
    broken, whole = (results.config["variants"].get(name, {}) for name in variants)
    yield from (says for name, says in FIXED.items() if name not in broken.get("environment", {}))
    if whole.get("fill_uninitialized_memory", True):
        yield FILLED


def location_of(results: Results, pair: ReportedComparison) -> ReportedLocation | None:
    """Return where the runs of a pair diverge; None if nobody looked."""
    asked = (pair["study"], pair["workload"], pair["variant"], pair["seed"])
    for found in results.locations:
        if (found["study"], found["workload"], found["variant"], found["seed"]) == asked:
            return found
    return None


def _origins(results: Results, pair: ReportedComparison) -> list[Operation | None]:
    """Return all operations that were seen to make the runs differ; one None where none was."""
    found = location_of(results, pair)
    return [None] if found is None else [found["op"], *found["others"]]


def _suspects(results: Results, pair: ReportedComparison) -> list[Operation]:
    """Return the operation of whose values Python may have made what differs, if there is one."""
    found = location_of(results, pair)
    return [found["suspect"]["op"]] if found is not None and found["suspect"] is not None else []


def op_with_line(op: Operation) -> str:
    """Name an operation and where it stands."""
    where = f" at {op['source']}" if op["source"] else f" in {op['module']}" if op["module"] else ""
    return f"`{op['op']}`{where}"


def _seeds_that_repeat(results: Results, workload: str, variant: str) -> set[int]:
    """Return from which seeds the runs of a variant were seen to be equal, in whichever study."""
    table = results.matrices.get(workload)
    is_of_matrix = table is not None and (table["baseline"], table["answer"]) == (variant, "equal")
    return {
        pair["seed"]
        for pair in results.comparisons
        if (pair["workload"], pair["variant"], pair["answer"]) == (workload, variant, "equal")
    } | ({table["seed"]} if table is not None and is_of_matrix else set())


def _is_mended(op: Operation) -> bool:
    """Say whether deterministic algorithms make an operation give the same from the same."""
    return op["differs_in"] == "outputs" and not op["draws"] and op["op"] in REPRODUCIBLE


def _shares_weights(results: Results, workload: str, variants: tuple[str, str]) -> bool:
    """Say whether of runs of one seed that end in other weights one ends as the second variant."""
    broken, whole = (_weights(results, workload, name) for name in variants)
    return any(
        len(weights) > 1 and weights & whole.get(seed, set()) for seed, weights in broken.items()
    )


def _weights(results: Results, workload: str, variant: str) -> dict[int, set[str]]:
    """Return in which weights the runs of each seed end."""
    found: dict[int, set[str]] = {}
    for run in results.runs_of(workload, variant):
        # Trainings that broke, each in its own way, may all end in NaN.
        if not run["perturbation"] and run["no_result"] is None and (end := end_of(run)):
            found.setdefault(run["seed"], set()).add(end)
    return found


def _not_mended(found: Sequence[tuple[ReportedComparison, Operation | None]], seeds: int) -> str:
    """Say why no algorithm is known to decide the difference, of the first pair where it is so."""
    if not found:
        return "no operation was found that makes them differ"
    pair, op = found[0]
    runs = f"the runs of seed {pair['seed']}" if seeds > 1 else "the runs"
    if op is not None:
        return f"{runs} diverge at {op_with_line(op)}, which they do not mend"
    first = pair["first_difference"]
    if first is not None and first["quantity"] in GIVEN:
        return f"no operation of a training step decides what differs first, {clause_of(first)}"
    return f"no operation was found with which {runs} diverge"

"""Advice on speed: what a first call takes, and what of a bare step Lightning's Trainer leaves."""

from collections.abc import Sequence

from twinrun.formatting import count, seconds
from twinrun.report.measured_sizes import Measured, size_of, timing_of, where
from twinrun.report.results import Results
from twinrun.timing.break_even import BreakEven, break_even, ends
from twinrun.timing.trained import trained_of
from twinrun.verdicts.rows import VerdictRow

Weighed = tuple[Measured, BreakEven]


def break_evens(
    results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]
) -> list[Weighed]:
    """Return at each size that was measured when a variant pays."""
    timing, row = timing_of(results, rows[0]), rows[0]
    if timing is None:
        return []
    trained = trained_of(results.runs_of_study(row["study"], row["workload"]))
    of_sizes = (
        (m, break_even(timing, row["variant"], m.size, trained.get(row["workload"]))) for m in found
    )
    return [(m, of) for m, of in of_sizes if of is not None]


def pays_of(results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]) -> str | None:
    """Say what the Trainer leaves of faster steps, and how many make up for the first call."""
    weighed = break_evens(results, rows, found)
    if weighed and all(of.never_pays for _, of in weighed):
        return _never(results, rows, weighed)
    costs = [of for _, of in weighed if not of.is_free and not of.never_pays]
    clauses = [*_in_trainer(results, rows, weighed), *_first_call(costs)]
    return "; ".join(clauses) or None


def _never(results: Results, rows: Sequence[VerdictRow], weighed: Sequence[Weighed]) -> str:
    """Say why no number of steps pays: the verdicts know them as faster, and the Trainer not."""
    why = "; ".join(_in_trainer(results, rows, weighed))
    costs = [of for _, of in weighed if not of.is_free]
    return f"it never pays, since {why}, and {_takes(costs)} more" if costs else why


def _in_trainer(
    results: Results, rows: Sequence[VerdictRow], weighed: Sequence[Weighed]
) -> list[str]:
    """Say what steps through the Trainer show where only the bare ones are faster, and where."""
    groups: dict[str, list[Measured]] = {}
    for m, of in weighed:
        if of.in_trainer:
            groups.setdefault(of.in_trainer, []).append(m)
    return [
        said if len(of) == len(weighed) else f"{said}{where_of(results, rows, of)}"
        for said, of in groups.items()
    ]


def _first_call(costs: Sequence[BreakEven]) -> list[str]:
    """Say after how many steps the first call is made up for, where it takes longer."""
    if not costs:
        return []
    takes = f"{_takes(costs)} more"
    if any(of.is_unsure or of.is_undecided for of in costs):
        return [f"{takes}; how many steps pay for it is unsure"]
    steps = " to ".join(map(count, ends(costs)))
    says = f"it pays only above about {steps} steps, since {takes}"
    taken = {of.length for of in costs}
    if len(taken) > 1 or None in taken:
        return [says]
    return [f"{says}, and this training has {costs[0].length}"]


def _takes(costs: Sequence[BreakEven]) -> str:
    """Say what takes how much longer; of several sizes the most."""
    longer = sorted(costs, key=lambda of: of.once)
    up_to = "up to " if longer[0].once < longer[-1].once else ""
    return f"{longer[-1].subject} takes {up_to}{seconds(longer[-1].once)}"


def where_of(results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]) -> str:
    """Say at which sizes something was measured; nothing of a timing without sizes."""
    sizes = [m.size for m in found if m.size is not None]
    timing = timing_of(results, rows[0])
    if not sizes or timing is None:
        return ""
    every = {size for row in rows if (size := size_of(results, row)) is not None}
    return f" {where(sizes, every, str(timing['settings']['timing'].size))}"

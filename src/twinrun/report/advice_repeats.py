"""Advice on repeats: what repeats, and what to switch on so that it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinrun.comparison.conditions import conditions_of_seeds
from twinrun.formatting import count, measure, plural
from twinrun.report.measured_sizes import measured
from twinrun.report.results import ReportedComparison, Results
from twinrun.report.sentence import Sentence, listed, sentence, setting
from twinrun.report.why_mended import doubts_of, fixed_beside
from twinrun.timing.ratio_words import interval_of_time, meaning
from twinrun.verdicts.rows import VerdictRow

ANYWAY = 2  # a workload that repeats ranks behind those that do not
REPEATS = "training repeats, bit for bit,"
MENDED = (
    "switch deterministic algorithms on (`deterministic: true`), which mend the operation that "
    "differs first"
)


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Whether the runs of a variant repeat."""

    name: str
    """The variant's."""
    is_equal: bool
    """In parameters, buffers and steps."""
    differing: Sequence[str]
    """Of those: which outputs are not equal."""
    is_no_result: bool
    """Whether a run of it leaves weights that are NaN, say."""
    row: VerdictRow
    """The verdict that says so."""

    @property
    def repeats(self) -> bool:
        """Whether nothing that was compared differs."""
        return self.is_equal and not self.differing


OUTPUTS: Mapping[str, str] = {
    "repeats_logged": "logged values",
    "repeats_metrics": "test metrics",
    "repeats_predictions": "predictions",
}


def repeating(results: Results) -> list[Sentence]:
    """Say of each workload that does not repeat what mends it, and then which cannot be mended."""
    ranked = sorted(_ranked(results), key=lambda entry: entry[0])  # stable, as the config has them
    return [found for rank, found in ranked if rank < ANYWAY]


def repeating_anyway(results: Results) -> list[Sentence]:
    """Say of each other workload that it repeats."""
    return [found for rank, found in _ranked(results) if rank == ANYWAY]


def _ranked(results: Results) -> list[tuple[int, Sentence]]:
    return [_of_workload(results, variants) for variants in variants_of(results).values()]


def variants_of(results: Results) -> dict[str, list[Repeated]]:
    """Return by workload the variants whose repeats have an answer that is sure."""
    found: dict[str, dict[str, Repeated]] = {}
    for row in results.verdicts:
        if row["key"] != "repeats" or row["answer"] not in ("equal", "differs"):
            continue
        of = Repeated(
            name=row["variant"],
            is_equal=row["answer"] == "equal",
            differing=_outputs(results, row),
            is_no_result=bool(no_result(results, row)),
            row=row,
        )
        if any(pair["departures"] for pair in pairs_of(results, row)):
            continue  # not trained as the variant says
        # Asked once by each study that has it: one pair that differs is enough.
        before = found.setdefault(row["workload"], {}).get(of.name)
        if before is None or before.repeats:
            found[row["workload"]][of.name] = of
    return {workload: list(variants.values()) for workload, variants in found.items()}


def _outputs(results: Results, row: VerdictRow) -> list[str]:
    names = ("study", "workload", "variant")
    return [
        OUTPUTS[other["key"]]
        for other in results.verdicts
        if other["key"] in OUTPUTS
        and other["answer"] == "differs"
        and all(other[name] == row[name] for name in names)
    ]


def no_result(results: Results, row: VerdictRow) -> list[str]:
    """Say why a run of a verdict's variant is no result; nothing if each is one."""
    runs = results.runs_of(row["workload"], row["variant"])
    reasons = [run["no_result"] for run in runs if not run["perturbation"] and run["no_result"]]
    pairs = pairs_of(results, row)
    if any(any(pair["non_finite_parameters"]) for pair in pairs):
        reasons.append("its weights are not all finite")
    losses = [loss for pair in pairs for loss in pair["non_finite_loss"]]
    if any(loss is not None and loss["is_lasting"] for loss in losses):
        reasons.append("its loss is not finite")
    return [f"a run of {row['variant']} is no result: {reason}" for reason in reasons[:1]]


def pairs_of(results: Results, row: VerdictRow) -> list[ReportedComparison]:
    """Return the comparisons that a verdict on repeats rests on."""
    return [
        pair
        for pair in results.repeats_of(row["study"], row["workload"])
        if pair["variant"] == row["variant"]
    ]


def _of_workload(results: Results, variants: Sequence[Repeated]) -> tuple[int, Sentence]:
    broken = [found for found in variants if not found.repeats]
    whole = [found for found in variants if found.repeats]
    if not broken:
        return ANYWAY, _whole(results, whole)
    if not whole:
        return 1, _broken(results, broken)
    # First whose weights differ, then a remedy that leaves numbers, and of these what is nearest to
    # it: the fewest settings to change.
    first, mended, otherwise = min(
        ((b, w, _set_otherwise(results, b.name, w.name)) for b in broken for w in whole),
        key=lambda entry: (entry[0].is_equal, entry[1].is_no_result, len(entry[2])),
    )
    how, cost = _how_much(results, [mended]), _cost(results, first, mended)
    cost = f"; {cost}" if cost else ""
    doubts = doubts_of(
        results,
        first.row["workload"],
        pairs=pairs_of(results, first.row),
        variants=(first.name, mended.name),
        otherwise=otherwise,
    )
    broken_ones = (*no_result(results, mended.row), *no_result(results, first.row))
    doubt = "; ".join([*doubts, *broken_ones])
    if otherwise == {"deterministic": True}:
        what, do = (listed(first.differing), "do") if first.is_equal else ("training", "does")
        says = f"{what} {do} not repeat under {first.name}"
        if doubt:
            says += f", and {do} under {mended.name}{how}{cost}"
        else:
            also = [*fixed_beside(results, (first.name, mended.name))]
            beside = f", with {listed(also)} fixed, too" if also else ""
            says += f"; {MENDED}: under {mended.name} all repeats, bit for bit{how}{beside}{cost}"
    else:
        settings = ", ".join(setting(key, value) for key, value in otherwise.items())
        settings = f" ({settings})" if settings else ""
        says = f"{REPEATS} under {mended.name}{settings}{how}, and not under {first.name}{cost}"
    return 0, sentence(mended.row, f"{says}; but {doubt}" if doubt else says)


def _set_otherwise(results: Results, broken: str, whole: str) -> dict[str, object]:
    """Return the settings of a variant that another one has otherwise."""
    first, second = (results.config["variants"].get(name, {}) for name in (broken, whole))
    return {key: value for key, value in second.items() if first.get(key) != value}


def _how_much(results: Results, variants: Sequence[Repeated]) -> str:
    """Say how many runs and steps equal answers rest on, and that there is more to be known."""
    runs, steps, seeds, has_conditions = [], [], [], False
    for row in (found.row for found in variants):
        pairs = pairs_of(results, row)
        table = results.matrices.get(row["workload"]) if row["study"] == "matrix" else None
        if not pairs and (table is None or not table["steps"]):
            return ""
        runs += [pair["repeats"] for pair in pairs] or [2]
        steps += [pair["steps"] for pair in pairs] or [table["steps"] if table else 0]
        seeds.append(len(pairs) or 1)
        has_conditions = has_conditions or bool(conditions_of_seeds(pairs))
    said = [_from_to(runs, "run"), _from_to(steps, "step")]
    if max(seeds) > 1:
        said[0] += f" of each of {_from_to(seeds, 'seed')}"
    if has_conditions:
        whose = "its verdict names" if len(variants) == 1 else "their verdicts name"
        said.append(f"on conditions that {whose}")
    return f" ({', '.join(said)})"


def _from_to(numbers: Sequence[int], noun: str) -> str:
    """Write the least and the most of some numbers of a kind.

    >>> _from_to([240, 180], "step"), _from_to([2, 2], "run")
    ('180 to 240 steps', '2 runs')
    """
    least, most = min(numbers), max(numbers)
    return plural(most, noun) if least == most else f"{count(least)} to {plural(most, noun)}"


def _cost(results: Results, first: Repeated, second: Repeated) -> str:
    """Say what the second variant costs, compared with the first, as far as that is known."""
    for row in results.verdicts:
        names = (row["key"], row["workload"], row["variant"])
        if names != ("cost", second.row["workload"], second.name):
            continue
        found = measured(results, row)
        if found is None or found.baseline != first.name:
            continue
        if row["answer"] == "undecided":
            return "whether it costs time is undecided"
        if row["answer"] not in ("yes", "no"):
            continue
        if found.unstable:
            return f"it is {found.effect} (by how much is unsure: the clock was unstable)"
        if found.effect == "no difference that matters":
            return "it costs no time that matters (at most 5%)"
        ratio = measure(found.ratio["time_ratio"])
        return (
            f"it is {meaning(found.ratio)} ({ratio} times the time of a step, "
            f"{interval_of_time(found.ratio)})"
        )
    return ""


def _whole(results: Results, variants: Sequence[Repeated]) -> Sentence:
    """Say what repeats under every variant that was trained twice."""
    settings = results.config["variants"]
    free = [v for v in variants if settings.get(v.name, {}).get("deterministic") is False]
    first = free[0] if free else variants[0]
    how = _how_much(results, free or variants)
    if free:
        says = f"{REPEATS} without deterministic algorithms{how}"
        for other in variants:
            cost = _cost(results, first, other)
            if is_deterministic(results, other.name) and cost:
                says += f"; with them it also repeats, and {cost}"
                break
    else:
        says = f"{REPEATS} under {listed(found.name for found in variants)}{how}"
    doubts = [doubt for found in variants for doubt in no_result(results, found.row)]
    return sentence(first.row, f"{says}; but {'; '.join(doubts)}" if doubts else says)


def _broken(results: Results, variants: Sequence[Repeated]) -> Sentence:
    strict = [found for found in variants if is_deterministic(results, found.name)]
    first = next((v for v in variants if not v.is_equal), variants[0])
    if first.is_equal:
        what = f"the runs of {first.name} have equal weights, and other {listed(first.differing)}"
        return sentence(first.row, what)
    if strict and not strict[0].is_equal:
        says = (
            f"training does not repeat, not even with deterministic algorithms ({strict[0].name})"
        )
        return sentence(strict[0].row, says)
    return sentence(first.row, f"training does not repeat under {listed(v.name for v in variants)}")


def is_deterministic(results: Results, variant: str) -> bool:
    """Say whether a variant has deterministic algorithms only."""
    return results.config["variants"].get(variant, {}).get("deterministic") is True

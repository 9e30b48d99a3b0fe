"""What a difference is worth, on a scale of rounding and of seeds.

The scale: what one unit in the last place of one weight did to a training, several times, and what
another seed did. A change is one more run. May it be one of the first kind? Of the second? Each
question is a test (`future`), by each metric and each prediction; the smallest p counts as many
times as there are of these (Bonferroni), so that the answer errs in 5 % of cases, whatever is
measured. `worth` gives the answers.

All runs of a kind are compared with one reference run. Given that run they are independent, and so
is one more run of their kind: that they share it is no dependence that the test would have to know.
Distances are compared by their logarithms, which scatter more evenly than they do.

A run of a kind that leaves a measure no number went further in it than any that did: what is tested
is then as unusual as so many of the kind are, at most.

Some perturbations come to nothing: the first sum or update rounds them away. The others are those
that a change is compared with. If it does what rounding does, it came to nothing, too, or it is as
one of them, so that it is called more no more often than the test errs.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinrun.comparison.distances import unit_of
from twinrun.comparison.noise_records import Measure, NoiseRun, NoiseTable
from twinrun.luck.future import bound_of, from_logarithm, p_of, runs_to_decide
from twinrun.luck.student_t import LEVEL
from twinrun.luck.welch import steps_between

BORDER = 0.2  # above which p is no reason to doubt
FEW = 10.0  # predictions that change, whose number is taken for Poisson's


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A run tested against the runs of a kind."""

    p: float
    """The smallest p of all measures, as often as there are measures; at most 1."""
    by: str
    """The measure that it is of."""
    unlike: str | None
    """What it does and no run of the kind: it moves a metric, or leaves something no number."""
    needed: int | None
    """Further runs of the kind that would decide, if these are like the others; None if no number
    does."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The runs of the two kinds."""

    measures: Sequence[Measure]
    """By which answers are given."""
    rounding: Mapping[str, Sequence[float]]
    """The values of the perturbed runs, by measure; of a metric the reference's too, in its unit.
    Distances are logarithms."""
    seeds: Mapping[str, Sequence[float]]
    """Of the runs from other seeds, likewise."""
    absorbed: int
    """Perturbations of which nothing was left to be measured; the tests leave them out."""
    coarse: Sequence[str]
    """Predictions of whole values, such as classes, where nothing finer is measured, less than two
    of these runs are left and some have other parameters: scores might have shown more."""
    kept: float
    """The share of the perturbations that the tests do not leave out."""
    not_finite: Mapping[str, Mapping[str, int]]
    """Runs of each kind of which a measure is NaN or infinite, by kind and measure."""
    units: Mapping[str, float]
    """Of each metric, so large that no difference of two values is too large for a float."""
    left_out: Sequence[str]
    """Runs of the scale that could not be compared, and why."""
    diverged: Sequence[str]
    """Runs of the scale that leave a measure no number, and which or why."""
    nothing: str
    """Why there is no measure, where there is none."""

    def test(self, run: NoiseRun, kind: Mapping[str, Sequence[float]]) -> Tested | None:
        """Test whether a run may be of a kind; None where there are not two runs of it."""
        found, unlike = [], None
        for measure in self.measures:
            name, is_distance = measure["name"], measure["kind"] != "metric"
            values, value, p = kind[name], math.inf, None
            broken = self.broken(kind, name)
            # One of a metric's is the reference's.
            if len(values) + broken < (2 if is_distance else 3):
                return None
            if name not in run["not_finite"]:
                value = _on_scale(run["values"][name], measure, self.units)
                least = scatter_of_few(values, measure)
                p = p_of(values, value, is_distance=is_distance, least=least)
            if p is None and not broken:
                is_moved = name not in run["not_finite"]
                unlike = f"moves {name}" if is_moved else f"gives {name} without a number"
            if p is None or broken:
                p = max(p or 0.0, by_rank(broken, len(values)))
            found.append((p, measure, values, value))
        if not found:
            return None
        p, measure, values, value = min(found, key=lambda entry: entry[0])
        name = measure["name"]
        needed: int | None
        if self.broken(kind, name):
            needed = None
        elif unlike is not None or math.isinf(value):
            needed = math.ceil(len(found) / LEVEL)
        else:
            needed = runs_to_decide(
                values,
                value,
                is_distance=measure["kind"] != "metric",
                below=LEVEL / len(found),
                above=BORDER / len(found),
                least=scatter_of_few(values, measure),
            )
        return Tested(
            p=min(1.0, p * len(found)),
            by=name,
            unlike=unlike,
            needed=self.further(needed, kind, name),
        )

    def broken(self, kind: Mapping[str, Sequence[float]], name: str) -> int:
        """Return how many runs of a kind give a measure that is no number."""
        of_kind = "perturbation" if kind is self.rounding else "seed"
        return self.not_finite[of_kind].get(name, 0)

    def further(
        self, needed: int | None, kind: Mapping[str, Sequence[float]], name: str
    ) -> int | None:
        """Return how many runs are to be added, where so many values of a measure are needed.

        Of perturbations as many more as come to nothing, if as large a share of them does.
        """
        if needed is None:
            return None
        more = max(1, needed - len(kind[name]))
        return math.ceil(more / self.kept) if kind is self.rounding else more

    def interval(self, measure: Measure) -> dict[str, float | None]:
        """Return the distances that 95 % of further perturbations and seeds do not exceed.

        There is none of a kind of which a run left no number: it went further than any distance.
        """
        name = measure["name"]
        bounds = {
            label: None
            if self.broken(kind, name)
            else bound_of(kind[name], LEVEL, least=scatter_of_few(kind[name], measure))
            for label, kind in (("perturbation", self.rounding), ("seed", self.seeds))
        }
        return {kind: None if b is None else from_logarithm(b) for kind, b in bounds.items()}


def scale_of(table: NoiseTable) -> Scale:
    """Return the scale of a table; by the parameters only where there is nothing else."""
    # What the reference itself has no number of cannot be compared, and takes nothing else with it.
    references = [run for run in table["runs"] if run["kind"] == "reference"]
    lacking = {name: why for run in references for name, why in run["lacks"].items()}
    no_result = next((run["reason"] for run in references if run["reason"]), None)
    every = [m for m in table["measures"] if m["name"] not in lacking]
    measures = [m for m in every if m["kind"] != "parameters"] or every
    names = {measure["name"] for measure in measures}
    usable: dict[str, list[NoiseRun]] = {"reference": [], "perturbation": [], "seed": []}
    left_out = [f"{name} of the reference: {why}" for name, why in lacking.items()]
    if no_result is not None:
        left_out = [f"the reference left no result: {no_result}"]
    diverged: list[str] = []
    for run in table["runs"]:
        if run["kind"] not in usable:
            continue
        if names <= {*run["values"], *run["not_finite"]}:
            usable[run["kind"]].append(run)
            if broken := [name for name in run["not_finite"] if name in names]:
                diverged.append(f"{run['label']}: {run['reason'] or ' and '.join(broken)}")
        elif run["kind"] != "reference":
            left_out.append(f"{run['label']}: {why_not(run, names)}")
    perturbed = usable["perturbation"]
    # What became nothing says nothing of how far the others go.
    grown = [run for run in perturbed if not measures or has_grown(run, measures)]
    usable["perturbation"] = grown

    units = {
        of["name"]: unit_of(r["values"].get(of["name"], 0.0) for r in table["runs"])
        for of in measures
        if of["kind"] == "metric"
    }

    def values(measure: Measure, kind: str) -> list[float]:
        own = usable["reference"] if measure["kind"] == "metric" else []
        name = measure["name"]
        found = [r["values"][name] for r in [*own, *usable[kind]] if name in r["values"]]
        return [_on_scale(value, measure, units) for value in found]

    return Scale(
        measures=measures if usable["reference"] else [],
        rounding={m["name"]: values(m, "perturbation") for m in measures},
        seeds={m["name"]: values(m, "seed") for m in measures},
        absorbed=len(perturbed) - len(grown),
        coarse=_coarse(measures, perturbed) if len(grown) < 2 else [],
        kept=len(grown) / len(perturbed) if grown else 1.0,
        not_finite={
            kind: Counter(name for run in usable[kind] for name in run["not_finite"])
            for kind in ("perturbation", "seed")
        },
        units=units,
        left_out=left_out,
        diverged=diverged,
        nothing=left_out[0] if lacking else "there is no metric and no prediction",
    )


def scatter_of_few(values: Sequence[float], measure: Measure) -> float:
    """Return what the logarithms of shares scatter by at least, where few predictions change.

    If each changes by itself, their number is Poisson's, of variance λ, and its logarithm deviates
    by 1/√λ. Of many it need not be so: they are the same samples in all runs. A metric that moves
    deviates by half of the smallest step between its values, since it may count, too.
    """
    if measure["kind"] == "metric":
        return min(steps_between(values), default=0.0) / 2
    if measure["kind"] not in ("rows", "values") or not values:
        return 0.0
    # The smallest that is told from none is half a prediction.
    number = math.exp(math.fsum(values) / len(values)) / (2 * measure["floor"])
    return 1 / math.sqrt(number) if number < FEW else 0.0


def by_rank(broken: int, others: int) -> float:
    """Return how probable a run is that goes further than others, of which so many broke.

    >>> by_rank(1, 4)
    0.333...
    """
    return (broken + 1) / (others + broken + 1)


def has_grown(run: NoiseRun, measures: Sequence[Measure]) -> bool:
    """Say whether anything is left of a perturbation that can be told from nothing."""
    distances = [of for of in measures if of["kind"] != "metric"]
    if any(of["name"] in run["not_finite"] for of in measures):
        return True
    far = any(run["values"].get(of["name"], 0.0) > of["floor"] for of in distances)
    return far or (not distances and run["answer"] != "equal")


def _coarse(measures: Sequence[Measure], perturbed: Sequence[NoiseRun]) -> list[str]:
    """Name the predictions by which alone it is told if anything is left, if they are classes."""
    distances = [of for of in measures if of["kind"] != "metric"]
    if all(run["answer"] == "equal" for run in perturbed):
        return []
    is_coarse = all(of["kind"] == "values" for of in distances)
    return [of["name"] for of in distances] if is_coarse else []


def why_not(run: NoiseRun, names: set[str]) -> str:
    """Say why a run has no place on the scale."""
    lacks = [f"{name}: {why}" for name, why in run["lacks"].items() if name in names]
    return run["reason"] or "; ".join(lacks) or "it has no metric and no prediction"


def _on_scale(value: float, measure: Measure, units: Mapping[str, float]) -> float:
    if measure["kind"] == "metric":
        return value / units[measure["name"]]
    return math.log(max(value, measure["floor"]))

"""Whole trainings as they ran: the seconds of `fit`, and what of them is no training.

Runs of a workflow may run side by side, one after the other, or beside other people's jobs; each
records how long it had no core, and how busy the machine was. What fingerprints took is taken out
where it is known, since a user's own training takes none; compiling stays in. Does without torch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from twinrun.run_records import RunManifest
from twinrun.timing.ratios import CONFIDENCE, median_interval
from twinrun.timing.summary import Interval

BUSY = 0.25  # cores: above, other processes were at work, and not only the system
WAITED = 0.05  # of a training: above, it had to wait for others
# ASSUME two trainings that had the machine for themselves differ by no more of the way; and two
# that shared caches, memory and clock rate with others, each on cores of its own.
ALONE, BESIDE = 0.1, 0.5
FEW_EPOCHS, PARTS = 4, 8  # of fewer the spread says nothing


@dataclass(frozen=True, kw_only=True)
class WholeTrainings:
    """The whole trainings of one variant: those that finished at the first attempt."""

    variant: str
    """Its name."""
    seconds: list[float]
    """Of each `fit`; without the fingerprints, unless the other side's time of these is unknown."""
    waited: list[float | None]
    """Of each, as in `RunSeconds`."""
    fit: float
    """The median of `fit`, with all that is in it; the next five are medians, too."""
    tracing: float | None
    """Of it the fingerprints; None where that is not known of all."""
    untraced: float | None
    """Of `fit` without them; None likewise."""
    compiling: float
    """Of it torch's compiler."""
    beside_steps: float
    """Of it what is no training step: validation, the ends of epochs."""
    others: float
    """The most cores that were busy with other processes, of any of the trainings."""
    cores: int | None
    """Of the machine; None where nobody knows."""
    proof: float | None
    """The seconds of the proof of its fast steps, which are in no `fit`; None without one."""
    spread: float
    """The largest interquartile range of the eighths of a training, as a share of their median."""

    @property
    def has_waited(self) -> bool | None:
        """Say whether any of them had to wait for a core; None where nobody knows."""
        known = [waited for waited in self.waited if waited is not None]
        if len(known) < len(self.waited):
            return None
        return any(w > WAITED * s for w, s in zip(known, self.seconds, strict=True))

    @property
    def is_alone(self) -> bool:
        """Say whether nothing else was at work."""
        return self.others <= BUSY


def whole_trainings(
    variant: str, runs: Sequence[RunManifest], *, leaves_out_tracing: bool
) -> WholeTrainings:
    """Sum up whole trainings of a variant.

    Args:
        variant: its name.
        runs: at least one; see `is_whole`.
        leaves_out_tracing: whether `seconds` are those without the fingerprints, as is possible
            where `is_tracing_known`.
    """
    of_runs = [run["seconds"] for run in runs]
    tracing = [seconds["tracing"] for seconds in of_runs]
    known = [taken for taken in tracing if taken is not None]
    untraced = [of["fit"] - of["tracing"] for of in of_runs if of["tracing"] is not None]
    proofs = [run["proof"]["seconds"] for run in runs if run["proof"] is not None]
    return WholeTrainings(
        variant=variant,
        seconds=[of["fit"] - (of["tracing"] or 0.0) * leaves_out_tracing for of in of_runs],
        waited=[of["waited"] for of in of_runs],
        fit=median(of["fit"] for of in of_runs),
        tracing=median(known) if len(known) == len(tracing) else None,
        untraced=median(untraced) if len(untraced) == len(of_runs) else None,
        compiling=median(of["compiling"] for of in of_runs),
        beside_steps=median(max(of["fit"] - sum(of["epochs"]), 0.0) for of in of_runs),
        others=max(of["others"] for of in of_runs),
        cores=runs[0]["environment"]["context"]["cores"],
        proof=max(proofs, default=None),
        spread=max(_spread(of["epochs"]) for of in of_runs),
    )


def is_whole(run: RunManifest) -> bool:
    """Say whether the seconds of a run are those of a whole training: it was never resumed."""
    return run["ended"] == "finished" and not run["resumed_at"] and not run["was_stopped"]


def is_tracing_known(runs: Iterable[RunManifest]) -> bool:
    """Say whether it is known of all runs what fingerprints took: both sides of a ratio lack it."""
    return all(run["seconds"]["tracing"] is not None for run in runs)


def time_ratio(variant: WholeTrainings, baseline: WholeTrainings) -> Interval:
    """Return the ratio of the medians, with the least and the most that it may be.

    Without its waiting a training would have taken less: by no more than its threads waited. Of 7
    trainings a side or more the ends are those of a 95 % interval of both medians, of fewer the
    extremes; both are widened by what two trainings of the same may differ by.
    """
    (_, most), (least, _) = _ends(variant.seconds), _ends(_without_waiting(variant))
    (_, base_most), (base_least, _) = _ends(baseline.seconds), _ends(_without_waiting(baseline))
    factor = 1 + noise(variant, baseline)
    return {
        "time_ratio": median(variant.seconds) / median(baseline.seconds),
        "low": least / base_most / factor,
        "high": most / base_least * factor if base_least > 0 else float("inf"),
    }


def noise(variant: WholeTrainings, baseline: WholeTrainings) -> float:
    """Return by which share of its seconds a training may differ from another of the same."""
    both = (variant, baseline)
    assumed = ALONE if all(of.is_alone for of in both) else BESIDE
    return max(assumed, *(of.spread for of in both))


def _without_waiting(of: WholeTrainings) -> list[float]:
    pairs = zip(of.seconds, of.waited, strict=True)
    return [max(seconds - (waited or 0.0), 0.0) for seconds, waited in pairs]


def _ends(seconds: Sequence[float]) -> tuple[float, float]:
    """Return an interval of the median of trainings, each side of a ratio by half of the error."""
    values = np.array(seconds)
    found = median_interval(values, 1 - (1 - CONFIDENCE) / 2)
    return (float(values.min()), float(values.max())) if found is None else found


def _spread(epochs: Iterable[float]) -> float:
    """Return the spread of an eighth of a training, of as many epochs each."""
    later = np.array(list(epochs)[1:])  # the first one has what happens once
    if len(later) < FEW_EPOCHS:
        return 0.0
    parts = [part.mean() for part in np.array_split(later, min(len(later), PARTS))]
    low, middle, high = np.quantile(parts, [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle > 0 else 0.0

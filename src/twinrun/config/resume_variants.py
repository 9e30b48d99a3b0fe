"""The study resume: where trainings are stopped, from which checkpoint they are resumed.

Each variant of the study is trained once whole, and for each kind of stop once resumed from
Lightning's checkpoint and once from Twinrun's. A stop between two micro-batches needs some, so
there the whole training accumulates too.
"""

from collections.abc import Sequence

from twinrun.config.definitions import Section
from twinrun.config.rule_records import StopPair

# Where a training is stopped, for readers.
STOPS = {
    "mid_epoch": "between two mini-batches of an epoch",
    "mid_accumulation": "between two micro-batches of a mini-batch",
    "last_batch": "after the last mini-batch of an epoch",
    "epoch_end": "at the end of an epoch",
    "before_validation": "just before validation",
    "after_validation": "just after validation",
}
RESUMES = {"lightning": "Lightning's checkpoint", "twinrun": "Twinrun's checkpoint"}


def of_stop(stop: str, resume: str) -> str:
    """Say for a reader where a training was stopped, and from what it was resumed.

    >>> of_stop("epoch_end", "twinrun")
    "stopped at the end of an epoch, resumed from Twinrun's checkpoint"
    """
    return f"stopped {STOPS[stop]}, resumed from {RESUMES[resume]}"


def pairs(variant: str, stops: Sequence[str]) -> list[StopPair]:
    """Return the pairs by which a variant is examined."""
    return [
        {
            "stop": stop,
            "resume": resume,
            "stopped": f"{variant}-stop-{stop}-resume-{resume}",
            "whole": f"{variant}-accumulate-2" if stop == "mid_accumulation" else variant,
        }
        for stop in stops
        for resume in RESUMES
    ]


def variants(name: str, settings: Section, stops: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return the settings of the variants that `pairs` names, by name.

    >>> sorted(variants("plain", {"threads": 1, "accumulate": 1}, ["epoch_end"]))
    ['plain', 'plain-stop-epoch_end-resume-lightning', 'plain-stop-epoch_end-resume-twinrun']
    """
    found: dict[str, dict[str, object]] = {}
    for pair in pairs(name, stops):
        # Between two micro-batches there is a point only where gradients are accumulated.
        whole = dict(settings) if pair["whole"] == name else {**settings, "accumulate": 2}
        found[pair["whole"]] = whole
        found[pair["stopped"]] = {**whole, "stop": pair["stop"], "resume": pair["resume"]}
    return found

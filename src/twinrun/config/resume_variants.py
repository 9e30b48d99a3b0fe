"""The study resume: where trainings are stopped, by what they go on, and the variants this makes.

Each variant of the study is trained once whole, and for each kind of stop once resumed by
Lightning's checkpoint and once by Twinrun's. Between the parts of a mini-batch one can only stop
where there are parts, so there the whole training accumulates too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# Where a training is stopped, for readers.
STOPS = {
    "mid_epoch": "between two mini-batches of an epoch",
    "mid_accumulation": "between two parts of a mini-batch",
    "last_batch": "after the last mini-batch of an epoch",
    "epoch_end": "at the end of an epoch",
    "before_validation": "just before validation",
    "after_validation": "just after validation",
}
RESUMES = {"lightning": "Lightning's checkpoint", "twinrun": "Twinrun's checkpoint"}


def pairs(variant: str, stops: Sequence[str]) -> list[dict[str, str]]:
    """Return `stop`, `resume`, the variant of the `stopped` run and that of the `whole` one."""
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


def variants(
    name: str, settings: Mapping[str, Any], stops: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the settings of the variants that `pairs` names, by name.

    >>> sorted(variants("plain", {"threads": 1, "accumulate": 1}, ["epoch_end"]))
    ['plain', 'plain-stop-epoch_end-resume-lightning', 'plain-stop-epoch_end-resume-twinrun']
    """
    found: dict[str, dict[str, Any]] = {}
    for pair in pairs(name, stops):
        whole = dict(settings) if pair["whole"] == name else {**settings, "accumulate": 2}
        found[pair["whole"]] = whole
        found[pair["stopped"]] = {**whole, "stop": pair["stop"], "resume": pair["resume"]}
    return found

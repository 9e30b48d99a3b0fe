"""What rules are told of a matrix, of stops and of the scale of noise, as plain values."""

from typing import Literal, TypeAlias, TypedDict

KindOnScale: TypeAlias = Literal["reference", "repeat", "perturbation", "seed", "change"]
"""What a run of the study noise is to the reference, which comes first."""


class ListedCell(TypedDict):
    """A cell as the rule `tabulate` is told of it."""

    name: str
    """Part of a path: what is changed, and its value."""
    label: str
    """For readers, as one would write it in the config."""
    not_run: str | None
    """Why this machine cannot run it."""


class StopPair(TypedDict):
    """Two variants whose runs should end in the same bits."""

    stop: str
    """Where the one is stopped; see `resume_variants.STOPS`."""
    resume: str
    """From whose checkpoint it is resumed; see `resume_variants.RESUMES`."""
    stopped: str
    """The variant that is stopped and resumed, by its name; or its run, by its run.json."""
    whole: str
    """The one that is not, likewise."""


class ListedRun(TypedDict):
    """A run of the study noise, as its rule is told of it."""

    kind: KindOnScale
    """What it is to the reference."""
    label: str
    """For a reader."""
    study: str
    """The study whose change it is; `noise` of the runs of the scale itself."""
    run: str
    """Its run.json; empty of one that this machine cannot run."""
    not_run: str | None
    """Why this machine cannot run it."""

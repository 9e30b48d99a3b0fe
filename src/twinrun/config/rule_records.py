"""What rules are told of a matrix and of stops, as plain values."""

from typing import TypedDict


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

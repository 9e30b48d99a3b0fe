"""What is said of a sound config before any job starts: what it asks for and will not get."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import yaml

from twinrun.config.shipped import STANDARD

if TYPE_CHECKING:  # settings import this module
    from twinrun.config.settings import Settings


def notes_on(settings: "Settings") -> Iterator[str]:
    """Say which variants no timing measures, and which workloads no study trains."""
    for study in settings.studies:
        for name, why in settings.untimed_of(study).items():
            yield f"{study}: the variant {name} is trained and not timed: {why}"
    # Of ours most configs leave some out; of the user's own nobody means to.
    named = {*_ours(), *settings.active_workloads()}
    for name in settings.config["workloads"]:
        if name not in named:
            yield (
                f"workloads.{name}: not trained, since no study names it (chosen: "
                f"{', '.join(settings.studies)}); put it under {settings.studies[0]}.workloads"
            )


@cache  # PyYAML takes a twentieth of a second for it
def _ours() -> frozenset[str]:
    """Name the built-in workloads."""
    return frozenset(yaml.safe_load(STANDARD.read_text(encoding="utf-8"))["workloads"])

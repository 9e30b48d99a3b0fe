"""What a changed setting changes by itself, whatever one's own code does."""

from collections.abc import Sequence
from dataclasses import dataclass

from twinrun.comparison.pair_records import Cause
from twinrun.comparison.study_records import MatrixCell
from twinrun.process.machine import ARITHMETIC

BATCHES: tuple[Cause, ...] = ("data order", "data content", "data order or content")
DRAWN: tuple[Cause, ...] = (*BATCHES, "RNG state")


@dataclass(frozen=True, kw_only=True)
class ByItself:
    """A setting, and which causes it has by itself."""

    settings: Sequence[str]
    """As a config writes them; those that end in a colon with any value."""
    causes: Sequence[Cause]
    """Of a difference that begins there; none for all."""
    says: str
    """What it does."""


SETTINGS = (
    ByItself(
        settings=["resume: lightning"],
        causes=[],
        says="the training is resumed from Lightning's checkpoint, which does not keep all that a "
        "step depends on: the study `resume` says what is lost, and `resume: twinrun` keeps it or "
        "refuses",
    ),
    ByItself(
        settings=["persistent_workers:"],
        causes=DRAWN,
        says="torch draws one random number fewer before each epoch but the first if data workers "
        "are kept, so that what is drawn after it is another",
    ),
    ByItself(
        settings=["sharding:", "scale_batch_with_devices:"],
        causes=BATCHES,
        says="the setting decides which samples come together in a mini-batch",
    ),
    ByItself(
        settings=["devices:", "accumulate:"],
        causes=["RNG state"],
        says="each part of a mini-batch draws random numbers of its own, as for dropout",
    ),
    ByItself(
        settings=["validation:"],
        causes=DRAWN,
        says="to go through validation data draws from torch's generator, so that later epochs "
        "draw other numbers",
    ),
    ByItself(
        settings=["precision: 16-mixed"],
        causes=["optimizer"],
        says="gradients are scaled, and an update whose gradients overflow is left out",
    ),
    ByItself(
        # Which order a set has is for one's own code to decide.
        settings=[name for name in ARITHMETIC if not name.startswith(("PYTHON", "MALLOC_"))],
        causes=["initial weights", "RNG state"],
        says="the variable chooses other code of torch's, which draws or computes them otherwise",
    ),
)


def by_itself(cell: MatrixCell) -> str | None:
    """Say what the setting of a cell does by itself; None where that does not explain its cause."""
    changes = cell["label"].split(", ")
    for known in SETTINGS:
        if known.causes and cell["cause"] not in known.causes:
            continue
        if any(change.startswith(setting) for change in changes for setting in known.settings):
            return known.says
    return None

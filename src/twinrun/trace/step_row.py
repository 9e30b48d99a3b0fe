"""What steps.csv holds of a step, as its row and as the record that is kept while training."""

from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np

if TYPE_CHECKING:  # a run imports it when it writes its tables
    import pandas as pd


class StepRow(TypedDict):
    """A step: a row of steps.csv. Fingerprints are in hexadecimal."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    loss: float
    """NaN of a step that gave none."""
    before: str
    """Fingerprint of the parameters that the step starts with."""
    buffers_before: str
    """Fingerprint of the buffers that the step starts with: hooks between steps may move them."""
    random: str
    """Fingerprint of the RNG states that it starts with."""
    batch: str
    """Fingerprint of all that the batch holds, in order."""
    samples: str
    """Fingerprint of the batch's samples in any order."""
    loss_fingerprint: str
    """Fingerprint of the loss."""
    own_gradients: str
    """Fingerprint of the workers' gradients, before they were summed."""
    settings: str
    """Fingerprint of the optimizers' settings."""
    random_after: str
    """Fingerprint of the RNG states that the step leaves."""
    buffers: str
    """Fingerprint of the buffers that the step ends with."""
    gradients: str
    """Fingerprint of all gradients, before they are clipped."""
    optimizer: str
    """Fingerprint of the optimizers' state."""
    parameters: str
    """Fingerprint of the parameters that the step ends with."""


NUMBERS = {"step": "i8", "epoch": "i8", "loss": "f8"}
FINGERPRINTS = tuple(name for name in StepRow.__annotations__ if name not in NUMBERS)
# Half as long as a row of the table.
RECORD = np.dtype([*NUMBERS.items(), *((name, "u8") for name in FINGERPRINTS)])


def row_of(record: np.void) -> StepRow:
    """Return a record as a row."""
    values = dict(zip(RECORD.names or (), record.item(), strict=True))
    return cast(StepRow, values | {name: f"{values[name]:016x}" for name in FINGERPRINTS})


def table_of(records: np.ndarray) -> "pd.DataFrame":
    """Return records as a part of steps.csv."""
    import pandas as pd

    return pd.DataFrame(
        {name: records[name] for name in NUMBERS}
        | {name: [f"{value:016x}" for value in records[name].tolist()] for name in FINGERPRINTS}
    )

"""What was found of a step, brought over from the GPU at its end and added to the tables.

This is where tracing waits for a GPU: one copy of all that the hooks of the step have left there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from twinrun.trace.batch_prints import BatchPrints
from twinrun.trace.fingerprints import Print
from twinrun.trace.hash_kinds import HASHED
from twinrun.trace.pending import Pending, fetch, kind_of, value_of, values_of
from twinrun.trace.step_row import FINGERPRINTS
from twinrun.trace.step_tables import StepTables


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What was found of a step."""

    prints: Mapping[str, Print]
    """Of each quantity but those of the batch, by its column in steps.csv."""
    rows: Mapping[str, list[Print]]
    """Of each tensor or generator, by its quantity, in the order of the columns."""
    batch: BatchPrints
    """Those of the batch."""
    loss: float | Pending[float]
    """NaN of a step that gave none."""
    elements: np.ndarray | Pending[np.ndarray] | None
    """Of the parameters; None for a step without a sample."""
    own_gradients: tuple[int, int]
    """Fingerprint of the workers' gradients, and its kind."""

    def add_to(
        self, tables: StepTables, optimizers: Sequence[torch.optim.Optimizer], *, epoch: int
    ) -> None:
        """Wait for a GPU's numbers, and add the step to the tables."""
        step = len(tables) + 1
        settings = tables.settings.pending(optimizers)
        given = self.batch.pending()
        fetch([*self.prints.values(), self.loss, self.elements, *settings, *given])
        self.batch.make()
        own, own_kind = self.own_gradients
        kinds = {name: kind_of(found) for name, found in self.prints.items() if name in HASHED}
        tables.kinds.note(step, kinds | self.batch.kinds | {"own_gradients": own_kind})
        if self.batch.on_host is not None:
            tables.kinds.note_on_host(step, self.batch.on_host)
        tables.add_details(step, {key: values_of(row) for key, row in self.rows.items()})
        if self.elements is not None:
            tables.add_sample(step, value_of(self.elements))
        tables.add_samples(self.batch.samples)
        found = {name: value_of(of) for name, of in self.prints.items()} | {
            "batch": self.batch.whole,
            # A sum knows no order, and may wrap around.
            "samples": int(self.batch.samples.sum(dtype=np.uint64)),
            "own_gradients": own,
            "settings": tables.settings.end_step(step - 1, optimizers),
        }
        tables.add((step, epoch, value_of(self.loss), *(found[name] for name in FINGERPRINTS)))

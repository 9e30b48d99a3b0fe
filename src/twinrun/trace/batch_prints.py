"""The fingerprints of a step's batch: of all of it, and of each sample."""

import numpy as np

from twinrun.trace.fingerprints import Print
from twinrun.trace.pending import Pending, kind_of, value_of
from twinrun.trace.samples import prints_of_samples
from twinrun.trace.step_fingerprints import StepFingerprints


class BatchPrints:
    """Looks at a batch when the step begins; once the numbers are here, `settle` makes them."""

    def __init__(self) -> None:
        self.whole = 0
        """Of all that the batch holds, in order."""
        self.samples = np.empty(0, dtype=np.uint64)
        """Of each sample, (N,) uint64."""
        self.kinds: dict[str, int] = {}
        """By which hash these were taken, by their columns."""
        self._whole: Print = 0
        self._samples: np.ndarray | Pending[np.ndarray] | None = None

    def look_at(self, batch: object, taken: StepFingerprints) -> list[str]:
        """Take the fingerprints of a batch; return the classes that it could not look into."""
        self._whole, opaque = taken.batch(batch)
        # Full-batch training has the same one in every step.
        is_new = isinstance(self._whole, Pending) or self._whole != self.whole
        self._samples = prints_of_samples(batch) if is_new else None
        return opaque

    def pending(self) -> list[object]:
        """Return what must be fetched."""
        return [self._whole, self._samples]

    def settle(self) -> None:
        """Make the fingerprints; of a batch that is the last one's again, the samples are kept."""
        found = value_of(self._whole)
        if found != self.whole and self._samples is not None:
            self.samples = value_of(self._samples)
            self.kinds["samples"] = kind_of(self._samples)
        self.whole, self.kinds["batch"] = found, kind_of(self._whole)

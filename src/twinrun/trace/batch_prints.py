"""The fingerprints of a step's batch: of all of it, and of each sample."""

import numpy as np

from twinrun.trace.fingerprints import Print, fingerprint_tree
from twinrun.trace.hash_kinds import UNLIKE_ROWS
from twinrun.trace.pending import Pending, kind_of, value_of
from twinrun.trace.samples import prints_of_samples, widths
from twinrun.trace.step_fingerprints import StepFingerprints


class BatchPrints:
    """Looks at a batch when the step begins; once the numbers are here, `make` makes them."""

    def __init__(self) -> None:
        self.whole = 0
        """Of all that the batch holds, in order."""
        self.samples = np.empty(0, dtype=np.uint64)
        """Of each sample, (N,) uint64."""
        self.kinds: dict[str, int] = {}
        """By which hash these were taken, by their columns."""
        self.kind = 0
        """Of a batch that is the shards of several workers; else 0: by which hash, shows itself."""
        self.on_host: int | None = None
        """Of all of it as on a CPU, at the step that is fingerprinted on the host."""
        self._widths: dict[str, tuple[int, ...] | None] = {}
        self._whole: Print = 0
        self._samples: np.ndarray | Pending[np.ndarray] | None = None

    def look_at(self, batch: object, taken: StepFingerprints) -> list[str]:
        """Take the fingerprints of a batch; return the classes that it could not look into."""
        # The batches of a run are compared with each other, too: all by one hash.
        is_on_host, taken.on_host = taken.on_host, False
        self._whole, opaque = taken.batch(batch)
        taken.on_host = is_on_host
        self.on_host = fingerprint_tree(batch) if is_on_host and kind_of(self._whole) else None
        # Full-batch training has the same one in every step.
        is_new = isinstance(self._whole, Pending) or self._whole != self.whole
        self._samples = prints_of_samples(batch) if is_new else None
        if is_new:
            self._note_rows(batch)
        return opaque

    def _note_rows(self, batch: object) -> None:
        """Note once rows turn out to be padded to what is beside them, or something else has."""
        for path, width in widths(batch).items():
            if width is None or self._widths.setdefault(path, width) != width:
                self.kinds[UNLIKE_ROWS] = 1

    def pending(self) -> list[object]:
        """Return what must be fetched."""
        return [self._whole, self._samples]

    def make(self) -> None:
        """Make the fingerprints; of a batch that is the last one's again, the samples are kept."""
        found = value_of(self._whole)
        if found != self.whole and self._samples is not None:
            self.samples = value_of(self._samples)
            self.kinds["samples"] = self.kind or kind_of(self._samples)
        self.whole, self.kinds["batch"] = found, self.kind or kind_of(self._whole)

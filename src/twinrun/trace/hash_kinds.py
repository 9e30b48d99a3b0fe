"""By which hash the fingerprints of each step were taken: see `step_fingerprints`.

Kept is what changes, and of most runs on a CPU nothing. Does without torch.
"""

from collections.abc import Mapping

import numpy as np

from twinrun.trace.spool import Spool

HASHED = (
    *("before", "buffers_before", "batch", "samples", "buffers", "own_gradients"),
    *("gradients", "optimizer", "parameters"),
)
"""Quantities whose tensors may lie on a GPU: columns of steps.csv."""
KIND = np.dtype([("step", "i8"), ("quantity", "i8"), ("kind", "u8")])
ARRAY = "hash_kinds"
ON_HOST = len(HASHED)  # instead of a quantity: not a kind, but a batch's fingerprint
UNLIKE_ROWS = "unlike rows"
"""Beside a step's kinds: 1 where a sample may have other bytes in the company of other samples."""
_NUMBERS = {**{name: number for number, name in enumerate(HASHED)}, UNLIKE_ROWS: ON_HOST + 1}

_SHARDS = 2**16  # and the number of workers: see `kind_of_shards`


class HashKinds:
    """Takes the kinds of each step's fingerprints; `arrays` has where they change."""

    def __init__(self, changes: Spool) -> None:
        """Begin with the changes that are there."""
        self._changes = changes
        self._last: dict[str, int] = {}

    def note(self, step: int, kinds: Mapping[str, int]) -> None:
        """Keep the kinds that are not those of the step before."""
        changed = {name: kind for name, kind in kinds.items() if kind != self._last.get(name, 0)}
        if changed:
            self._last |= changed
            rows = [(step, _NUMBERS[name], kind) for name, kind in changed.items()]
            self._changes.append(np.array(rows, dtype=KIND))

    def note_on_host(self, step: int, batch: int) -> None:
        """Keep the fingerprint that a CPU has of a step's batch."""
        self._changes.append(np.array([(step, ON_HOST, batch)], dtype=KIND))

    def load(self) -> None:
        """Go on after the changes that are there by now."""
        names = {number: name for name, number in _NUMBERS.items()}
        for row in self._changes.read():
            if row["quantity"] != ON_HOST:
                self._last[names[int(row["quantity"])]] = int(row["kind"])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return step, number of the quantity in HASHED and kind of each change, (K, 3) uint64.

        Of the number ON_HOST it is the fingerprint that a CPU has of the step's batch.
        """
        found = self._changes.read()
        if not len(found):
            return {}
        columns = [found[name].astype(np.uint64) for name in ("step", "quantity", "kind")]
        return {ARRAY: np.stack(columns, axis=1)}


def kinds_of(arrays: Mapping[str, np.ndarray], quantity: str, steps: np.ndarray) -> np.ndarray:
    """Return the kind of the fingerprints of a quantity at steps, uint64: 0 is the xxh3 of a CPU.

    Args:
        arrays: of fingerprints.npz.
        quantity: a column of steps.csv, or UNLIKE_ROWS.
        steps: their numbers, ascending.
    """
    if ARRAY not in arrays or quantity not in _NUMBERS:
        return np.zeros(len(steps), dtype=np.uint64)
    changes = arrays[ARRAY]
    changes = changes[changes[:, 1] == _NUMBERS[quantity]]
    known = np.append(np.uint64(0), changes[:, 2])
    return known[np.searchsorted(changes[:, 0].astype(np.int64), steps, side="right")]


def batch_on_host(arrays: Mapping[str, np.ndarray], steps: np.ndarray) -> dict[int, int]:
    """Return the fingerprint that a CPU has of the batch, by step; of steps that have one beside.

    Args:
        arrays: of fingerprints.npz.
        steps: the numbers that are asked for.
    """
    if ARRAY not in arrays:
        return {}
    found = arrays[ARRAY][arrays[ARRAY][:, 1] == ON_HOST]
    return {int(step): int(value) for step, _, value in found if step in steps}


def kind_of_shards(workers: int) -> int:
    """Return the kind of a batch that is the shards of so many workers, one after another.

    They say nothing of a whole mini-batch, nor of the shards of another number of workers.
    """
    return _SHARDS + workers


def are_of_shards(kinds: np.ndarray) -> np.ndarray:
    """Say which of the kinds of batches are those of shards, (S,) bool."""
    return (kinds > _SHARDS) & (kinds < 2 * _SHARDS)

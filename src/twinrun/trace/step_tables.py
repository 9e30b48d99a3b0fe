"""The tables of a training's steps, which go to disk as they come, and how much of them is kept.

Of each step there is a record: one fingerprint of each quantity. What would grow with tensors times
steps, or with elements times steps, has a bound: fingerprints of single tensors and generators are
kept of the first steps, as many as a variant's `per_tensor` allows, and then of every 1,000th one;
the sample of the parameters' elements of the first SAMPLED steps, and then of every 4,096th; those
of single samples of a batch until MOST_SAMPLES. A training of 1,000,000 steps and 500 tensors so
leaves less than 300 MB, and holds none of it in memory. Which steps these are depends on nothing
but module and variant, so that the runs of a pair keep the same ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinrun.run_records import PER_STEP
from twinrun.trace.columns import Columns, Found
from twinrun.trace.hash_kinds import KIND, HashKinds
from twinrun.trace.optimizer_settings import SETTING, SettingsTrace
from twinrun.trace.spool import Spool
from twinrun.trace.step_row import FINGERPRINTS, RECORD, StepRow, row_of, table_of

if TYPE_CHECKING:  # a run imports it when it writes its tables
    import pandas as pd

EVERY = 1_000  # traced steps from one to the next with fingerprints of single tensors, at the end
SAMPLED = 4_096  # steps with a sample of the parameters' elements, and then from one to the next
MOST_SAMPLES = 2**20  # samples of batches whose fingerprints are kept one by one: 8 MiB
INITIAL = {"initial": "names", "initial_buffers": "buffer_names"}  # and the names of their columns
_WIDTHS = tuple(dict.fromkeys(PER_STEP.values()))
_TABLES = {
    "steps": RECORD,
    # Of a step with details, how many columns each kind of them has so far.
    "detailed": np.dtype([("step", "i8"), *((of, "i8") for of in _WIDTHS)]),
    "details": np.dtype("u8"),
    "sampled": np.dtype("i8"),
    "num_samples": np.dtype("i8"),
    "samples": np.dtype("u8"),
    "settings": SETTING,
    "kinds": KIND,
}


class StepTables:
    """Takes what each step leaves; `table` and `arrays` give it back."""

    def __init__(self, folder: Path | None = None) -> None:
        """Write nothing yet.

        Args:
            folder: for the tables of this training alone, where a checkpoint finds them again;
                without one they are in temporary files, and a checkpoint holds their bytes.
        """
        self._folder = folder
        self._spools = {name: self._spool(name, dtype) for name, dtype in _TABLES.items()}
        self._sample: Spool | None = None
        self._sample_size = 0
        self._skipped = 0
        self._most = self._details = 0
        self._room = MOST_SAMPLES
        # The first rows behind a checkpoint that a killed process left, and where they begin.
        self._killed, self._resumed_at = np.empty(0, dtype=RECORD), 0
        self._columns = {of: Columns() for of in _WIDTHS}
        self._initial: dict[str, list[int]] = {key: [] for key in INITIAL}
        self.settings = SettingsTrace(self._spools["settings"])
        self.kinds = HashKinds(self._spools["kinds"])

    def __len__(self) -> int:
        return len(self._spools["steps"]) + self._skipped

    def skip(self) -> None:
        """Count a step that is not traced."""
        self._skipped += 1

    def begin(self, *, most: int) -> None:
        """Choose how many fingerprints of single tensors are kept of the first steps; 0: none."""
        self._most = most

    def set_initial(self, **found: Mapping[str, int]) -> None:
        """Keep the fingerprints from before the first step: `initial` and `initial_buffers`."""
        self._initial = {key: self.row(INITIAL[key], of) for key, of in found.items()}

    def row(self, of: str, values: Mapping[str, Found]) -> list[Found | int]:
        """Return values in the order of the columns of a kind, 0 for what is not there."""
        return self._columns[of].row(values)

    def add(self, record: tuple[object, ...]) -> None:
        """Add the record of a step."""
        self._spools["steps"].append(np.array(record, dtype=RECORD))

    def last(self) -> StepRow:
        """Return the row of the last step."""
        steps = self._spools["steps"]
        return row_of(steps.read(len(steps) - 1)[0])

    def trained_otherwise(self) -> str | None:
        """Say where the last step is not what a process had trained that was killed behind it."""
        steps = self._spools["steps"]
        index = len(steps) - 1 - self._resumed_at
        if not 0 <= index < len(self._killed):
            return None
        now, before = steps.read(len(steps) - 1)[0], self._killed[index]
        # Of a NaN the fingerprint speaks; the workers' own gradients are several workers' matter.
        told = (name for name in FINGERPRINTS if name != "own_gradients")
        if (name := next((name for name in told if now[name] != before[name]), None)) is None:
            return None
        return f"step {now['step']} is another one than before the stop (`{name}` in steps.csv)"

    def add_details(self, step: int, rows: Mapping[str, Sequence[int]]) -> None:
        """Add the fingerprints of single tensors and generators, if this step is to have them."""
        number = len(self._spools["steps"]) + 1
        widths = {of: len(rows[key]) for key, of in PER_STEP.items()}
        # By this step: a module may make tensors after the first one.
        has_room = number == 1 or self._details + _counted(widths) <= self._most
        if not self._most or not (has_room or number % EVERY == 0):
            return
        self._details += _counted(widths)
        index = np.array((step, *(widths[of] for of in _WIDTHS)), _TABLES["detailed"])
        self._spools["detailed"].append(index)
        flat = [value for key in PER_STEP for value in rows[key]]
        self._spools["details"].append(np.array(flat, dtype=np.uint64))

    def has_sample(self) -> bool:
        """Say whether the next step that is traced has a sample of the parameters' elements."""
        number = len(self._spools["steps"]) + 1
        return number <= SAMPLED or number % SAMPLED == 0

    def add_sample(self, step: int, elements: np.ndarray) -> None:
        """Add a sample of the parameters' elements."""
        if self._sample is None:
            self._sample = self._spool("sample", elements.dtype)
            self._sample_size = len(elements)
        if len(elements) != self._sample_size:
            # Resumed with other parameters than it began with.
            elements = np.full(self._sample_size, np.nan)
        self._spools["sampled"].append(np.array([step]))
        self._sample.append(elements)

    def add_samples(self, samples: np.ndarray) -> None:
        """Add the fingerprints of a batch's samples, all of them or none."""
        if not self._room:
            return
        # From the first step on that finds no room, none are kept: their number tells.
        has_room = len(samples) <= self._room
        samples = samples if has_room else samples[:0]
        self._room = self._room - len(samples) if has_room else 0
        self._spools["num_samples"].append(np.array([len(samples)]))
        self._spools["samples"].append(samples)

    def table(self) -> "Iterator[pd.DataFrame]":
        """Yield steps.csv in parts: at least one, which may have no rows."""
        if not len(self._spools["steps"]):
            yield table_of(np.empty(0, dtype=RECORD))
        yield from map(table_of, self._spools["steps"].parts())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what fingerprints.npz holds; T parameters, B buffers, R RNG states, S steps.

        names (T,), buffer_names (B,), rng_state_names (R,) str; initial (T,), initial_buffers (B,)
        uint64; of D steps, whose numbers detail_steps (D,) has, gradients, optimizer, parameters
        (D, T), buffers (D, B), random, random_after (D, R) uint64, 0 for what came later;
        samples_of_steps (N,) uint64, those of a step after those of the one before, and
        num_samples (S,) int64 of each step, 0 where none are kept;
        setting_names (K,) str and the arrays of `SettingsTrace` and `HashKinds`;
        of P steps, whose numbers sample_steps (P,) has, sample (P, elements) float32, or float64
        where a parameter needs it.
        """
        sampled = self._spools["sampled"].read()
        elements = np.empty((0, 0)) if self._sample is None else self._sample.read()
        samples, sizes = self._spools["samples"].read(), self._spools["num_samples"].read()
        names = {of: columns.names() for of, columns in self._columns.items()}
        names["setting_names"] = self.settings.names()
        return {
            **{of: np.array(found, dtype=np.str_) for of, found in names.items()},
            **{
                key: np.array(self._columns[INITIAL[key]].padded(row), dtype=np.uint64)
                for key, row in self._initial.items()
            },
            "detail_steps": self._spools["detailed"].read()["step"].astype(np.int64),
            **self._detail_arrays(names),
            "samples_of_steps": samples,
            # Of later steps none are kept.
            "num_samples": np.pad(sizes, (0, len(self._spools["steps"]) - len(sizes))),
            **self.settings.arrays(),
            **self.kinds.arrays(),
            "sample_steps": sampled,
            "sample": elements.reshape(len(sampled), self._sample_size),
        }

    def _detail_arrays(self, names: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        index, flat = self._spools["detailed"].read(), self._spools["details"].read()
        found = {
            key: np.zeros((len(index), len(names[of])), dtype=np.uint64)
            for key, of in PER_STEP.items()
        }
        widths = np.stack([index[of] for of in PER_STEP.values()], axis=1)
        # Stretches of steps with as many columns: mostly there is one.
        changed = np.flatnonzero((widths[1:] != widths[:-1]).any(axis=1)) + 1
        bounds, position = [0, *changed.tolist(), len(index)], 0
        for start, end in pairwise(bounds):
            if start == end:
                continue
            of_step = widths[start]
            size = (end - start) * int(of_step.sum())
            block = flat[position : position + size].reshape(end - start, -1)
            position += size
            for key, part in zip(
                PER_STEP, np.split(block, np.cumsum(of_step)[:-1], axis=1), strict=True
            ):
                found[key][start:end, : part.shape[1]] = part
        return found

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the tables: tensors and plain values."""
        spools = self._all()
        state: dict[str, Any] = {
            "room": self._room,
            "skipped": self._skipped,
            "sample_size": self._sample_size,
            "columns": {of: columns.names() for of, columns in self._columns.items()},
            "settings": self.settings.state(),
            # Not all of torch knows uint64.
            "initial": {
                key: torch.from_numpy(np.array(row, dtype=np.uint64).view(np.int64))
                for key, row in self._initial.items()
            },
        }
        if self._sample is not None:
            state["sample_dtype"] = self._sample.dtype.str
        if self._folder is not None:
            return state | {"files": {name: dict(s.state()) for name, s in spools.items()}}
        # torch has no type for records.
        raw = {name: s.read().view(np.uint8).copy() for name, s in spools.items() if len(s)}
        return state | {"bytes": {name: torch.from_numpy(array) for name, array in raw.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on after what `state` gave.

        Raises:
            TwinrunError: if the files in the folder are not those of the checkpoint.
        """
        self._room, self._sample_size = state["room"], state["sample_size"]
        self._skipped = state["skipped"]
        if "sample_dtype" in state:
            self._sample = self._spool("sample", state["sample_dtype"])
        for name, spool in self._all().items():
            if self._folder is not None and "files" in state:
                if name == "steps":
                    self._killed = spool.later_than(state["files"][name])
                if name in state["files"]:  # an older version has no `kinds`
                    spool.resume(state["files"][name])
            elif name in state.get("bytes", {}):
                raw = state["bytes"][name].numpy().tobytes()
                spool.append(np.frombuffer(raw, dtype=spool.dtype))
        for of, columns in self._columns.items():
            columns.row(dict.fromkeys(state["columns"][of], 0))
        self._initial = {
            key: found.numpy().view(np.uint64).tolist() for key, found in state["initial"].items()
        }
        self.settings.load(**state["settings"])
        self.kinds.load()
        self._details = sum(map(_counted, self._spools["detailed"].read()))
        self._resumed_at = len(self._spools["steps"])

    def close(self) -> None:
        """Close the files."""
        for spool in self._all().values():
            spool.close()

    def _all(self) -> dict[str, Spool]:
        return self._spools | ({} if self._sample is None else {"sample": self._sample})

    def _spool(self, name: str, dtype: Any) -> Spool:
        return Spool(dtype, None if self._folder is None else self._folder / name)


def _counted(widths: Any) -> int:
    """Count the fingerprints of a step, by how many columns each kind of them has."""
    # Of generators it takes those of a CPU: the runs of a pair must keep the same steps.
    return 3 * int(widths["names"]) + int(widths["buffer_names"]) + 6

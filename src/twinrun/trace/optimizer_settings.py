"""The settings of the optimizers in use at each step: learning rate, betas, weight decay, ...

A schedule, a callback or the module itself may set them, from anything: a clock, too. So each step
has a fingerprint of them, and the numbers among them are kept, for a reader to see both values
where two runs differ. Kept is what changes: most settings never do. A schedule that sets one at
every step has the changes of its first steps kept, MOST_CHANGES of them.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from twinrun.trace.fingerprints import Print, fingerprint, join, print_of_settings, settings_of
from twinrun.trace.pending import Pending, value_of, values_of
from twinrun.trace.spool import Spool
from twinrun.trace.step_fingerprints import WORD, StepFingerprints, number_of

MOST_CHANGES = 2**16  # 1.5 MiB
SETTING = np.dtype([("step", "i8"), ("name", "i8"), ("value", "f8")])
WORDS = {"lr": "learning rate", "weight_decay": "weight decay"}


class SettingsTrace:
    """Takes the settings of each step; `arrays` has those that changed."""

    def __init__(self, changes: Spool) -> None:
        """Begin with the changes that are there."""
        self._names: dict[str, int] = {}
        self._changes = changes
        self._until: int | None = None
        self._last: dict[str, float] = {}
        self._of_step: dict[str, float | Pending[float]] = {}
        self._fingerprints: list[Print] = []
        self._taken = StepFingerprints()

    def note(
        self, optimizers: Sequence[torch.optim.Optimizer], stepping: object | None = None
    ) -> None:
        """Take the settings of an optimizer that is about to step; of all, if none is given.

        Those that lie on a GPU are pending.
        """
        for position, optimizer in enumerate(optimizers):
            # Lightning hands over its own wrapper where the module optimizes manually.
            if stepping is None or getattr(stepping, "optimizer", stepping) is optimizer:
                owner = f" of optimizer {position}" if len(optimizers) > 1 else ""
                groups = settings_of(optimizer)
                self._fingerprints += [position, print_of_settings(groups, self._print)]
                self._taken.launch()
                for number, group in enumerate(groups):
                    for name, value in _numbers(group):
                        self._of_step[f"{name} of group {number}{owner}"] = value

    def pending(self, optimizers: Sequence[torch.optim.Optimizer]) -> list[object]:
        """Return what must be fetched before the step ends.

        Args:
            optimizers: of the training: asked where none was seen to step.
        """
        if not self._fingerprints:
            self.note(optimizers)
        return [*self._fingerprints, *self._of_step.values()]

    def end_step(self, index: int, optimizers: Sequence[torch.optim.Optimizer]) -> int:
        """Keep what has changed since the last step; return the fingerprint of the step's settings.

        Args:
            index: of the step, from 0.
            optimizers: as for `pending`, whose values were fetched.
        """
        if not self._fingerprints:
            self.note(optimizers)
        now = {name: value_of(value) for name, value in self._of_step.items()}
        # By text: NaN is no change of NaN.
        changed = {n: v for n, v in now.items() if repr(self._last.get(n)) != repr(v)}
        if changed and self._until is None:
            if len(self._changes) + len(changed) > MOST_CHANGES:
                self._until = index
            else:
                self._last |= changed
                rows = [
                    (index, self._names.setdefault(name, len(self._names)), value)
                    for name, value in changed.items()
                ]
                self._changes.append(np.array(rows, dtype=SETTING))
        found = join(values_of(self._fingerprints))
        self._of_step, self._fingerprints = {}, []
        return found

    def _print(self, tensor: torch.Tensor | None) -> Print:
        # Of a size at which both hashes are the same; a longer one is copied.
        is_short = tensor is None or tensor.nbytes <= WORD
        return self._taken(tensor) if is_short else fingerprint(tensor)

    def names(self) -> list[str]:
        """Return the names of all settings that are numbers."""
        return list(self._names)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return `setting_changes`, of each the step's index and the name's, and the new values.

        `settings_until` is the index of the first step of which they are not known any more; empty
        where all are.
        """
        found = self._changes.read()
        return {
            "setting_changes": np.stack([found["step"], found["name"]], axis=1),
            "setting_values": found["value"].copy(),
            "settings_until": np.array([] if self._until is None else [self._until], np.int64),
        }

    def state(self) -> dict[str, object]:
        """Return what a checkpoint holds beside the changes."""
        return {"names": self.names(), "until": self._until}

    def load(self, names: Sequence[str], until: int | None) -> None:
        """Take what `state` gave; the changes are there already."""
        self._names = {name: position for position, name in enumerate(names)}
        self._until = until
        for row in self._changes.read():
            self._last[names[row["name"]]] = float(row["value"])


def _numbers(group: Mapping[str, object]) -> Iterator[tuple[str, float | Pending[float]]]:
    """Yield the numbers among the settings of a group, each of several (betas) by its index."""
    for key, value in group.items():
        name = WORDS.get(key, key)
        # A compiled or captured step has its learning rate in a tensor.
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            yield name, number_of(value)
        elif isinstance(value, int | float):
            yield name, float(value)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                if isinstance(item, int | float):
                    yield f"{name}[{index}]", float(item)

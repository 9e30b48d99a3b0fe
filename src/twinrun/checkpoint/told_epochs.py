"""What `set_epoch` of samplers and datasets sets, which no checkpoint holds.

Lightning calls that of samplers where an epoch begins, and a module may call that of a dataset
there: a resumed training calls it too. What is set elsewhere, where an epoch ends say, is not.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import told_anew, told_parts
from twinrun.checkpoint.users_code import attributes_seen


def told_epochs(trainer: pl.Trainer) -> dict[str, str]:
    """Write down what `set_epoch` sets of the training loaders' parts, by name."""
    found = {}
    for turn, part in enumerate(told_parts(training_loaders(trainer))):
        told = told_anew(part)
        seen = attributes_seen(part) if told else {}
        for name in sorted(told & seen.keys()):
            if not (content := look(seen[name], ())).startswith(UNSEEN):
                found[f"{turn} {type(part).__name__}.{name}"] = content
    return found


class ToldEpochs:
    """Whether a resumed epoch is told what the one before the stop was."""

    def __init__(self, trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
        """Look at the parts before hooks of the module begin the epoch.

        Args:
            trainer: of the training.
            state: of the checkpoint; in mid-epoch the hooks that begin one had been called by then.
        """
        self._trainer, self._before = trainer, told_epochs(trainer)
        # One of an older version has none.
        self._kept, self._is_begun = state.get("told_epochs", {}), "epoch" in state

    def unlike(self) -> str | None:
        """Say what is another, once the epoch has begun."""
        for key, now in told_epochs(self._trainer).items():
            # What is set where the epoch begins may be another than before that.
            is_to_be_kept = self._is_begun or now == self._before.get(key)
            if is_to_be_kept and now != self._kept.get(key, now):
                name = key.partition(" ")[2]
                return f"{name} is another one than before the stop: no checkpoint holds it"
        return None

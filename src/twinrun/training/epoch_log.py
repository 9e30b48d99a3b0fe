"""What a training comes to epoch by epoch: logged values, seconds."""

import time
from typing import Any

import pandas as pd
import pytorch_lightning as pl

from twinrun.parallel.team import Team


class EpochMetrics(pl.Callback):
    """Keeps what the module logged, a row an epoch."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a row; by now validation, which runs inside the epoch, has logged too."""
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch + 1, **values})

    def state_dict(self) -> dict[str, Any]:
        """Return the rows so far, for a checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the rows of a checkpoint."""
        self.rows = state_dict["rows"]

    def table(self) -> pd.DataFrame:
        """Return the rows; there is none if the training was stopped in its first epoch."""
        return pd.DataFrame(self.rows or {"epoch": []})


class EpochSeconds(pl.Callback):
    """Takes the seconds that the training steps of each epoch took; validation is left out."""

    def __init__(self, team: Team) -> None:
        self.training: list[float] = []
        self.communication: list[float] = []
        self._team = team
        self._started = self._ended = 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the seconds so far, for a checkpoint."""
        return {"training": self.training, "communication": self.communication}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the seconds of a checkpoint."""
        self.training, self.communication = state_dict["training"], state_dict["communication"]

    def on_train_epoch_start(self, *_: object, **__: object) -> None:
        """Start the clock."""
        # Asking takes the seconds so far away: what came before the epoch is not its own.
        self._team.communication()
        self._started = time.perf_counter()

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Stop it, unless another step follows."""
        self._ended = time.perf_counter()

    def on_train_epoch_end(self, *_: object, **__: object) -> None:
        """Note the epoch's seconds."""
        self.training.append(round(self._ended - self._started, 4))
        self.communication.append(round(self._team.communication(), 4))

"""Workloads that are killed once behind a checkpoint, and fail where they are resumed from it."""

import os
import signal
from pathlib import Path

from small import Small

ONCE = "KILLED_ONCE"


class Killed(Small):
    """Is killed once, in its second epoch."""

    def training_step(self, batch, batch_idx):
        once = Path(os.environ[ONCE])
        if self.trainer.current_epoch == 1 and batch_idx == 3 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().training_step(batch, batch_idx)


class DropsWeights(Killed):
    """Leaves weights out of its checkpoints."""

    def on_save_checkpoint(self, checkpoint):
        del checkpoint["state_dict"]["hidden.weight"]


class ReadsWhatIsNotThere(Killed):
    def on_load_checkpoint(self, checkpoint):
        checkpoint["not there"]


class FailsLater(Killed):
    """Fails in a step of a resumed training, and ends its process by itself."""

    def training_step(self, batch, batch_idx):
        if self.trainer.ckpt_path and self.trainer.current_epoch == 2:
            raise SystemExit(3)
        return super().training_step(batch, batch_idx)


class FailsAnyway(Killed):
    """Fails in its last epoch, resumed or not."""

    def training_step(self, batch, batch_idx):
        if self.trainer.current_epoch == 2:
            raise ValueError("my own mistake")
        return super().training_step(batch, batch_idx)


class MakesAFolder(Small):
    """Makes a folder that must not be there yet."""

    def setup(self, stage):
        """Make it, of all stages in the first."""
        if stage == "fit":
            Path("outputs").mkdir()

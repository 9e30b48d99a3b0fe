"""A workload that the machine disturbs once, at a point that the environment variable WHERE names.

`data worker in fit`, `helper in test`, ...: what is disturbed and in which phase. A file beside
says that it has happened.
"""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, get_worker_info

from twinrun.process.fresh_process import report_progress

WHERE, ONCE = "DISTURBED", "DISTURBED_ONCE"


def is_now(what):
    """Say whether the moment has come, which it does once."""
    once = Path(os.environ.get(ONCE, "."))
    if os.environ.get(WHERE) != what or once.exists():
        return False
    once.write_text(what)
    return True


class Read(Dataset):
    """Reads by a data worker that is killed, as the system does when memory runs out."""

    def __init__(self, data, phase):
        self.data, self.phase = data, phase

    def __len__(self):
        return len(self.data.inputs)

    def __getitem__(self, index):
        if get_worker_info() is not None and is_now(f"data worker in {self.phase}"):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.data.inputs[index], self.data.targets[index]


class DisturbedPoints(Points):
    """Has a data worker, whatever the variant says."""

    def loader(self, phase, **options):
        return DataLoader(Read(self, phase), batch_size=16, num_workers=1, **options)

    def train_dataloader(self):
        return self.loader("fit", shuffle=True)

    def val_dataloader(self):
        return self.loader("validation")

    def test_dataloader(self):
        return self.loader("test")

    def predict_dataloader(self):
        return self.loader("prediction")


class Disturbed(Small):
    """Has started a process of its own, and fails where that is gone."""

    def disturbed(self, phase):
        for number in (signal.SIGTERM, signal.SIGINT):
            # The system, a cluster or a user, who ends this process of a proof alone.
            if is_now(f"{number.name} in {phase}"):
                os.kill(os.getpid(), number)
        if is_now(f"disk in {phase}"):
            raise OSError(errno.ENOSPC, "No space left on device", "cache")
        if is_now(f"memory in {phase}"):
            torch.empty(1 << 60)  # more than any machine has: torch's own refusal
        if is_now(f"list in {phase}"):
            bytearray(1 << 62)  # Python's
        if is_now(f"helper in {phase}"):
            with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as helper:
                report_progress("all are sent SIGTERM")
                os.kill(os.getpid(), signal.SIGTERM)
                helper.terminate()
                raise RuntimeError(f"my helper ended with {helper.wait()}")

    def training_step(self, batch, batch_idx):
        if self.trainer.ckpt_path:
            self.disturbed("resumed")
        elif self.trainer.current_epoch == 1:
            self.disturbed("fit")
        return super().training_step(batch, batch_idx)

    def test_step(self, batch, batch_idx):
        self.disturbed("test")
        super().test_step(batch, batch_idx)

    def predict_step(self, batch, batch_idx):
        self.disturbed("prediction")
        return super().predict_step(batch, batch_idx)

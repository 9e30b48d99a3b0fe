"""Modules that write their weights under a name of the working directory, and read them again."""

import os
import time
from pathlib import Path

import torch
from small import Small

from twinrun.process.shared_files import LOG

OTHERS = "TEST_OF_TWINRUN_TRAININGS"  # so many of them wait for each other
HELD = []  # files


def met(name):
    """Wait until all trainings are here; who comes later, or again, need not."""
    Path(f"{name}.{os.getpid()}").touch()
    until = time.monotonic() + 120
    while len([*Path().glob(f"{name}.*")]) < int(os.environ[OTHERS]):
        assert time.monotonic() < until, "the other training does not come"
        time.sleep(0.05)


class KeepsBest(Small):
    """`torch.save` and `torch.load`, as most do it."""

    def on_train_start(self):
        met("started")

    def on_train_epoch_end(self):
        self.save()

    def on_test_start(self):
        met("trained")
        self.trained = {name: value.clone() for name, value in self.state_dict().items()}
        self.load()

    def test_step(self, batch, index):
        now = self.state_dict()
        others = sum(not torch.equal(now[name], value) for name, value in self.trained.items())
        self.log("other_tensors", float(others), batch_size=1)

    def save(self):
        torch.save(self.state_dict(), "best.pt")

    def load(self):
        self.load_state_dict(torch.load("best.pt"))


class KeepsApart(KeepsBest):
    """Below a folder that is this training's own."""

    def save(self):
        torch.save(self.state_dict(), Path(self.trainer.default_root_dir, "best.pt"))

    def load(self):
        self.load_state_dict(torch.load(Path(self.trainer.default_root_dir, "best.pt")))


class BreaksOff(KeepsBest):
    """Finds what the other one has left half-written."""

    def save(self):
        Path("best.pt").write_text(str(os.getpid()))

    def load(self):
        assert Path("best.pt").read_text() == str(os.getpid()), "not what was written"


class Continues(Small):
    """Begins with what an earlier training has left."""

    def on_fit_start(self):
        if Path("last.pt").exists():
            self.load_state_dict(torch.load("last.pt"))

    def on_train_end(self):
        torch.save(self.state_dict(), "last.pt")


class SecondWorkerHolds(Small):
    """Keeps a file open in its second worker's process, while another training writes it."""

    def on_train_start(self):
        """Open it."""
        if self.trainer.global_rank == 1:
            HELD.append(Path("shared.txt").open())  # noqa: SIM115

    def on_train_epoch_end(self):
        """Write what the other one would, and the log's line of it."""
        if self.trainer.global_rank == 1:
            time.sleep(0.1)
            os.utime("shared.txt")
            line = f"other/1\twritten\t{time.time_ns()}\t{Path('shared.txt').absolute()}\n"
            with Path(os.environ[LOG]).open("a") as log:
                log.write(line)

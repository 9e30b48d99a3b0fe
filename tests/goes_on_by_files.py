"""Modules that are killed once, and test what they have kept in a file, where there is one."""

import os
import signal
from pathlib import Path

import torch
from small import Small


class KeepsBelowRoot(Small):
    """In the folder that the Trainer was given."""

    def file_of_best(self):
        return Path(self.trainer.default_root_dir, "best.pt")

    def on_train_epoch_end(self):
        if self.trainer.current_epoch == 0:
            torch.save(self.state_dict(), self.file_of_best())

    def on_train_batch_end(self, outputs, batch, index):
        if self.trainer.global_step == 12 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_test_start(self):
        if self.file_of_best().exists():
            self.load_state_dict(torch.load(self.file_of_best()))


class KeepsInFolder(KeepsBelowRoot):
    """In the working directory, where another training writes meanwhile."""

    def file_of_best(self):
        return Path("best.pt")


class CountsInFolder(KeepsBelowRoot):
    """In a file that each attempt begins anew, and to which each epoch adds."""

    def on_fit_start(self):
        Path("epochs.txt").write_text("")

    def on_train_epoch_end(self):
        with Path("epochs.txt").open("a") as file:
            file.write("x")

    @torch.no_grad()
    def on_test_start(self):
        for parameter in self.parameters():
            parameter.mul_(len(Path("epochs.txt").read_text()))

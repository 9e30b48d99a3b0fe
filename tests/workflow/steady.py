"""A workload for tests of faults: tiny, and told in a file what shall go wrong in mid-epoch.

STEADY_FAULTS names the file; each training takes the first line out of it. `wait` is no fault: the
steps take half a second from then on, and a file `training` beside it holds the process number.
"""

import os
import resource
import time
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Steady(pl.LightningModule):
    def __init__(self, width=128):
        super().__init__()
        self.save_hyperparameters()
        self.hidden = torch.nn.Linear(4, width)
        self.output = torch.nn.Linear(width, 1)
        self.seconds = 0

    def training_step(self, batch, batch_idx):
        if self.global_step == 2 and "STEADY_FAULTS" in os.environ:
            self.fail(Path(os.environ["STEADY_FAULTS"]))
        time.sleep(self.seconds)
        inputs, targets = batch
        return (self.output(self.hidden(inputs).relu()) - targets).square().mean()

    def fail(self, faults):
        first, _, rest = faults.read_text().partition("\n")
        faults.write_text(rest)
        match first:
            case "wait":
                self.seconds = 0.5
                faults.with_name("training").write_text(f"{os.getpid()}\n")
            case "greedy":
                torch.empty(10**15)
            case "full":  # no file of this process grows over a kilobyte from now on
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Points(pl.LightningDataModule):
    def __init__(self, path, batch_size=8):
        super().__init__()
        self.path, self.batch_size = path, batch_size

    def setup(self, stage):
        with np.load(self.path) as arrays:
            self.inputs = torch.from_numpy(arrays["inputs"][:320])

    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.inputs.sum(1, keepdim=True))
        return DataLoader(data, self.batch_size)

"""Noise in two classes, and a module: the package has networks, and trains them by skorch."""

import pytorch_lightning as pl
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self, network: torch.nn.Module, optimizer: torch.optim.Optimizer):
        super().__init__()
        self.network, self.optimizer = network, optimizer

    def training_step(self, batch, batch_idx):
        return cross_entropy(self.network(batch[0]), batch[1])

    def train_dataloader(self):
        draws, classes = torch.Generator().manual_seed(0), torch.arange(64) % 2
        signals = torch.randn(64, 4, 128, generator=draws) * (1 + classes[:, None, None])
        return DataLoader(TensorDataset(signals, classes), batch_size=16, shuffle=True)

    def configure_optimizers(self):
        return self.optimizer(self.parameters())

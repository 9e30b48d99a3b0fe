"""A classifier whose training an environment variable spoils, as no setting of a variant may."""

import os

import pytorch_lightning as pl
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 5


class Classifier(pl.LightningModule):
    def __init__(self, learning_rate=0.02):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES)
        )

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        if os.getenv("PLANTED") == "class":
            inputs, labels = inputs[labels > 0], labels[labels > 0]
        return functional.cross_entropy(self.layers(inputs), labels)

    def test_step(self, batch, batch_idx):
        inputs, labels = batch
        is_right = self.layers(inputs).argmax(1) == labels
        self.log("test_accuracy", is_right.float().mean(), batch_size=len(labels))

    def predict_step(self, batch, batch_idx):
        return {"scores": self.layers(batch[0])}

    def configure_optimizers(self):
        factor = 100 if os.getenv("PLANTED") == "rate" else 1
        return torch.optim.Adam(self.parameters(), lr=factor * self.hparams.learning_rate)


class Blobs(pl.LightningDataModule):
    """Points around the centre of each class, which overlap."""

    def __init__(self, size=1500):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        labels = torch.arange(size) % CLASSES
        centres = torch.randn(CLASSES, 20, generator=generator)
        inputs = centres[labels] + 2.5 * torch.randn(size, 20, generator=generator)
        self.data = TensorDataset(inputs, labels)

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=25, shuffle=True)

    def test_dataloader(self):
        return DataLoader(self.data, batch_size=500)

    predict_dataloader = test_dataloader

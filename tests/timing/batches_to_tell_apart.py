"""Data of which a hyperparameter changes what the first batches of training do not show."""

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Graph:
    """A batch that nobody can look into, as those of some libraries of graphs."""

    def __init__(self, samples):
        self.nodes = torch.stack([sample for (sample,) in samples])

    def to(self, device):
        return self


class Stream(IterableDataset):
    """Tells no length."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(torch.zeros(self.size, 1))


def zeros(size, **options):
    return DataLoader(TensorDataset(torch.zeros(size, 1)), **options)


LOADERS = {
    "samples": lambda size: zeros(60, batch_size=size),
    "objects": lambda size: DataLoader(TensorDataset(torch.zeros(60, size)), collate_fn=Graph),
    "more batches than are kept": lambda size: zeros(size),
    "several loaders": lambda size: {"short": zeros(60), "long": zeros(size)},
    "stream": lambda size: DataLoader(Stream(size)),
    "short stream": lambda size: DataLoader(Stream(60), batch_size=size),
}


class Kinds(pl.LightningDataModule):
    def __init__(self, train="samples", predict=None, size=1):
        super().__init__()
        self.train, self.predict, self.size = train, predict, size

    def train_dataloader(self):
        return LOADERS[self.train](self.size if self.predict is None else 60)

    def predict_dataloader(self):
        return LOADERS[self.predict](self.size)

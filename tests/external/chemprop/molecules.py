"""Molecules as chemprop's graphs: the package has datasets and a loader, and no data module."""

import pytorch_lightning as pl
from chemprop.data import MoleculeDatapoint, MoleculeDataset, build_dataloader

GROUPS = ["C", "N", "O", "c1ccccc1", "C(=O)O", "Cl"]


class Chains(pl.LightningDataModule):
    """Chains of carbon between two groups; the target counts their heavy atoms."""

    def __init__(self, batch_size: int = 16, seed: int = 0, num_workers: int = 0):
        super().__init__()
        self.batch_size, self.seed, self.num_workers = batch_size, seed, num_workers

    def setup(self, stage):
        smiles = [a + "C" * n + b for a in GROUPS for b in GROUPS for n in range(1, 7)]
        points = [MoleculeDatapoint.from_smi(smi, [float(len(smi))]) for smi in smiles]
        self.train, self.test = MoleculeDataset(points[::2]), MoleculeDataset(points[1::2])

    def train_dataloader(self):
        return build_dataloader(self.train, self.batch_size, self.num_workers, seed=self.seed)

    def val_dataloader(self):
        return build_dataloader(self.test, self.batch_size, shuffle=False)

    def test_dataloader(self):
        return build_dataloader(self.test, self.batch_size, shuffle=False)

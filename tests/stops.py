"""Small workloads that are stopped, and for some reason not resumed."""

from pathlib import Path

import pytorch_lightning as pl
from small import Points, Small


class WithoutValidation(Points):
    val_dataloader = pl.LightningDataModule.val_dataloader


class KeepsObjects(Small):
    """Puts into its checkpoints what cannot be loaded as data alone."""

    def on_save_checkpoint(self, checkpoint):
        checkpoint["found"] = Path("here")

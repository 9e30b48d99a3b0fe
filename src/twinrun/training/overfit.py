"""`overfit_batches` where other things than Lightning's loop read the training loader.

Lightning switches the shuffling off in the loader that it is given. By then the loader may give
shards or micro-batches, and a timing takes batches from it without the loop.
"""

import functools

import pytorch_lightning as pl
from pytorch_lightning.trainer.connectors.data_connector import _resolve_overfit_batches
from pytorch_lightning.trainer.states import RunningStage
from pytorch_lightning.utilities.combined_loader import CombinedLoader


def without_shuffling(data: pl.LightningDataModule) -> None:
    """Have the training loader give its batches in the order of the data, as Lightning would."""
    original = data.train_dataloader

    @functools.wraps(original)
    def train_dataloader() -> object:
        loader = original()
        several = loader if isinstance(loader, CombinedLoader) else CombinedLoader(loader)
        _resolve_overfit_batches(several, RunningStage.TRAINING)
        return loader if isinstance(loader, CombinedLoader) else several.iterables

    data.train_dataloader = train_dataloader

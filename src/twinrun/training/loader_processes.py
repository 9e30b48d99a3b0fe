"""A callback that counts the processes that loaders start by themselves, and what each holds.

The rehearsal gives a data module no data workers: whichever there are, each run of any variant has.
"""

import multiprocessing
from contextlib import suppress

import psutil
import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

READY = 2  # batches that a worker of torch's has ready unless its loader says otherwise


class LoaderProcesses(pl.Callback):
    """Counts the data workers of training and of what is done beside it, as validation is."""

    def __init__(self) -> None:
        self._of_training = self._beside = (0, 0)
        self._seen = 0
        self.worker_bytes = 0
        """The most that one of them had for itself alone."""

    @property
    def workers(self) -> int:
        """Return how many there are; a loader's own class may hide its number."""
        return max(self._of_training[0] + self._beside[0], self._seen)

    @property
    def batches(self) -> int:
        """Return how many batches these may have ready."""
        return max(self._of_training[1] + self._beside[1], READY * self._seen)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count those of the training."""
        self._of_training = _counted(trainer.train_dataloader)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count those of a validation."""
        self._beside = max(self._beside, _counted(trainer.val_dataloaders))

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count those of a test: the training's may be kept until then."""
        self._beside = max(self._beside, _counted(trainer.test_dataloaders))

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count those of a prediction."""
        self._beside = max(self._beside, _counted(trainer.predict_dataloaders))

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Look at those that there are."""
        children = multiprocessing.active_children()
        self._seen = max(self._seen, len(children))
        for child in children:
            with suppress(psutil.Error):  # gone by now, or of another user
                alone = psutil.Process(child.pid).memory_full_info().uss
                self.worker_bytes = max(self.worker_bytes, alone)


def _counted(loaders: object) -> tuple[int, int]:
    """Return the number of workers, and of the batches that they have ready."""
    workers = batches = 0
    for loader in tree_leaves(loaders):
        number = getattr(loader, "num_workers", 0)
        if isinstance(number, int):
            workers += number
            ready = getattr(loader, "prefetch_factor", None)
            batches += number * (ready if isinstance(ready, int) else READY)
    return workers, batches

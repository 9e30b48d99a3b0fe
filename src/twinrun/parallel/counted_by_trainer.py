"""What a Trainer counts where mini-batches are cut: micro-batches."""

from collections.abc import Mapping

import pytorch_lightning as pl
from pytorch_lightning.callbacks import GradientAccumulationScheduler, StochasticWeightAveraging
from pytorch_lightning.trainer.connectors.data_connector import _parse_num_batches
from pytorch_lightning.trainer.states import RunningStage

from twinrun.errors import TwinrunError


def check_accumulated(trainer: pl.Trainer, told: int | Mapping[int, int]) -> None:
    """Make sure that the Trainer accumulates as many micro-batches as it was told."""
    if not isinstance(told, int):
        told = told[max(epoch for epoch in told if epoch <= trainer.current_epoch)]
    if trainer.accumulate_grad_batches != told:
        raise TwinrunError(
            f"accumulate: the module or a callback sets the Trainer's accumulate_grad_batches to "
            f"{trainer.accumulate_grad_batches}, and it has to be {told} parts of mini-batches; "
            f"say it by epoch under workloads.<name>.trainer.accumulate_grad_batches, such as "
            f"{{0: 1, 4: 2}}, or say accumulate: 1"
        )


def check_callbacks(trainer: pl.Trainer) -> None:
    """Refuse, before any step, a callback that is going to tell the Trainer another number."""
    module = trainer.lightning_module
    for callback in vars(trainer)["callbacks"]:
        averages = isinstance(callback, StochasticWeightAveraging) and trainer.max_epochs != -1
        if averages and callback.pl_module_contains_batch_norm(module):
            raise TwinrunError(
                f"accumulate: {type(callback).__name__} adds an epoch for the statistics of batch "
                f"normalisation, in which it sets the Trainer's accumulate_grad_batches by itself; "
                f"say accumulate: 1, or train without this callback"
            )


class AccumulatedByEpoch(GradientAccumulationScheduler):
    """Has the Trainer accumulate micro-batches by epochs, and before the first one as many as one.

    So what is asked there, such as `estimated_stepping_batches`, is that of mini-batches.
    """

    def __init__(self, scheduling: dict[int, int], micro_batches: int) -> None:
        """Take the numbers by epoch, and how many micro-batches a mini-batch is cut into."""
        super().__init__(scheduling)
        self._micro_batches = micro_batches

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check what Lightning checks: the Trainer must have been told no number."""
        trainer.accumulate_grad_batches = 1
        super().on_train_start(trainer, pl_module)
        trainer.accumulate_grad_batches = self._micro_batches


def count_micro_batches(trainer: pl.Trainer, batches: int, micro_batches: int) -> None:
    """Have a Trainer, which counts micro-batches, do what it was told of mini-batches."""
    limit, interval = trainer.limit_train_batches, trainer.val_check_interval
    if (limit, interval) == (1.0, 1.0) and isinstance(limit, float) and isinstance(interval, float):
        return
    # A part is rounded to whole mini-batches, as Lightning rounds it.
    most = _parse_num_batches(RunningStage.TRAINING, batches, limit)
    every = interval if isinstance(interval, int) else max(1, int(most * interval))
    trainer.limit_train_batches = int(most * micro_batches)
    trainer.val_check_interval = every * micro_batches

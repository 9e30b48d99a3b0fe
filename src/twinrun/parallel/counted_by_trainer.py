"""What a Trainer counts where mini-batches are cut: micro-batches."""

from collections.abc import Mapping

import pytorch_lightning as pl
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


def count_micro_batches(
    trainer: pl.Trainer,
    batches: int,
    limit: int | float,
    interval: int | float,
    micro_batches: int,
) -> None:
    """Have a Trainer, which counts micro-batches, do what it was told of mini-batches."""
    if (limit, interval) == (1.0, 1.0) and isinstance(limit, float) and isinstance(interval, float):
        return
    # A part is rounded to whole mini-batches, as Lightning rounds it.
    most = _parse_num_batches(RunningStage.TRAINING, batches, limit)
    every = interval if isinstance(interval, int) else max(1, int(most * interval))
    trainer.limit_train_batches = int(most * micro_batches)
    trainer.val_check_interval = every * micro_batches

"""Whether a training took the steps, and had the workers, that were asked for."""

import pytorch_lightning as pl
from pytorch_lightning.callbacks import GradientAccumulationScheduler

from twinrun.config.definitions import Variant
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.errors import TwinrunError
from twinrun.parallel.team import Team


def check_extent(
    trainer: pl.Trainer, variant: Variant, told: TrainerArguments, team: Team, *, steps: int
) -> None:
    """Refuse a training that was not the one asked for: Lightning may train a part in silence.

    Raises:
        TwinrunError: naming what there was more or less of.
    """
    if trainer.world_size != variant.devices:
        raise TwinrunError(
            f"devices: the variant wants {variant.devices}, but {trainer.world_size} trained"
        )
    if not steps:
        raise TwinrunError(
            "data: the training took no step; train_dataloader must give at least one batch"
        )
    # Empty for one worker, whose Trainer sees the whole loader.
    lengths = team.steps_per_epoch()
    if not lengths:
        return
    whole = lengths[-1]
    is_limited = told.limit_train_batches is not None or told.overfit_batches
    batches = int(trainer.num_training_batches) if is_limited else whole
    epochs = trainer.current_epoch
    least = most = told.batches_taken(epochs, batches)
    every = told.reload_dataloaders_every_n_epochs
    if every and len({*lengths}) > 1:
        if is_limited or told.max_steps != -1:
            return  # ASSUME the Trainer took of each loader what it was told
        # The last one that was made may be of later epochs, which did not come.
        most = sum(lengths[min(epoch // every, len(lengths) - 1)] for epoch in range(epochs))
        least, batches = most, lengths[min(max(epochs - 1, 0) // every, len(lengths) - 1)]
    callbacks = vars(trainer)["callbacks"]
    is_scheduled = any(isinstance(c, GradientAccumulationScheduler) for c in callbacks)
    is_counted = trainer.lightning_module.automatic_optimization and not is_scheduled
    if told.max_steps != -1 and not is_counted:
        # Nobody knows how many mini-batches these steps are.
        most = batches * epochs
        least = batches * (epochs - 1) + 1
    if trainer.should_stop:
        # The last epoch may have ended early.
        least = most - batches + 1 if every else batches * (epochs - 1) + 1
    if not least <= steps <= most:
        raise TwinrunError(
            f"devices: {epochs} epochs are {most} steps, but {steps} were taken; train with "
            f"devices: 1"
        )

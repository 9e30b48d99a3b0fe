"""Complete Lightning's checkpoint by what it does not hold."""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint import left_out, mid_epoch
from twinrun.checkpoint.loaded import metrics_of
from twinrun.checkpoint.plain_attributes import Attributes
from twinrun.checkpoint.refusals import generators_of, loaders_of
from twinrun.checkpoint.stream_position import positions_of
from twinrun.process.determinism import rng_states


def complete(
    checkpoint: dict[str, Any],
    trainer: pl.Trainer,
    module: pl.LightningModule,
    *,
    attributes: Attributes,
    epoch: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Have a checkpoint lie where an epoch starts; return what is kept beside it.

    Args:
        checkpoint: as Lightning has made it.
        trainer: of the training.
        module: that is trained.
        attributes: of the module, which have changed.
        epoch: of a `RunningEpoch`, where the checkpoint is taken in mid-epoch.
    """
    loops = checkpoint["loops"]["fit_loop"]
    more = {}
    if epoch is not None:
        more = {"epoch": epoch, "loops": mid_epoch.state_of(trainer, loops)}
    # The epoch has been made ready, but a resumed training makes it ready itself.
    for progress in loops["epoch_progress"].values():
        progress["ready"] = progress["started"] = progress["processed"]
    left_out.drop_hyperparameters(checkpoint)
    return {
        **more,
        "random": rng_states(),
        "generators": [each.get_state() for each in generators_of(loaders_of(trainer))],
        "metrics": metrics_of(trainer),
        # Asked for before `min_epochs` or `min_steps` have been reached.
        "should_stop": trainer.should_stop,
        "buffers": dict(left_out.transient_buffers(module)),
        "averages": left_out.left_out_of_averages(trainer),
        "positions": positions_of(loaders_of(trainer)),
        "attributes": attributes,
    }

"""Write Lightning's checkpoint, completed by what it does not hold."""

import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from twinrun.checkpoint import best_models, left_out, mid_epoch
from twinrun.checkpoint.at_start import state_at_start
from twinrun.checkpoint.gradients import gradients_of
from twinrun.checkpoint.kept_beside import KeptBeside
from twinrun.checkpoint.loaded import metrics_of
from twinrun.checkpoint.loaded_states import looks_of_callbacks
from twinrun.checkpoint.making_loaders import Making
from twinrun.checkpoint.plain_attributes import Attributes
from twinrun.checkpoint.plain_data import as_data
from twinrun.checkpoint.refusals import generators_of, loaders_of
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.straight import save_straight
from twinrun.checkpoint.stream_position import positions_of
from twinrun.checkpoint.told_epochs import looks_told, values_told
from twinrun.checkpoint.whole_state import saving
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.determinism import rng_states

_INNER = " (a schedule inside of another one: its state_dict may give that one's state_dict)"


def write(trainer: pl.Trainer, path: Path, *, key: str) -> None:
    """Write the checkpoint of this worker; the Trainer's own way has the first one write for all.

    Args:
        trainer: of the training.
        path: of the file.
        key: of what `Resumable` adds to it.

    Raises:
        OSError: if the file cannot be written.
        TwinrunError: if it holds more than data or what cannot be pickled, a state cannot be asked
            for, or a hook that saves it changes what is trained.
    """
    module = trainer.lightning_module
    for schedule in schedules_of(trainer):
        kind = type(schedule)
        try:
            if kind.state_dict.__module__.startswith("torch."):
                schedule.state_dict()
        except Exception as error:  # of an object in slots, which gives the rates, say
            why = f"{kind.__name__}.state_dict fails ({sentence_of(error)})"
            raise TwinrunError(why) from error
    with saving(trainer, module, path) as before:
        try:
            whole = _asked_for(trainer)
        finally:
            changed = before.undo()
    if changed is not None:
        raise TwinrunError(f"{changed} changes where a checkpoint is saved (on_save_checkpoint)")
    whole[key] |= {"whole": before.state, "left_out": left_out.left_out_of(whole, module, key=key)}
    writer = trainer.strategy.checkpoint_io
    try:
        if type(writer) is TorchCheckpointIO:
            save_straight(whole, path)
        else:
            writer.save_checkpoint(whole, path)
    except (OSError, TwinrunError):
        raise
    except Exception as error:  # of what cannot be pickled, whatever its class raises
        why = f"a checkpoint cannot be written ({sentence_of(error)})"
        raise TwinrunError(f"{why}{_where(whole)}") from error
    # Before it replaces an older one: `fit` loads it with weights_only=True.
    try:
        as_data(path)
    except TwinrunError as error:
        raise TwinrunError(f"{error}{_where(whole)}") from None


def _asked_for(trainer: pl.Trainer) -> dict[str, Any]:
    """Have Lightning ask all that is trained for its state.

    Raises:
        TwinrunError: if a `state_dict` or a hook of a user's raises.
    """
    try:
        return trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
    except (OSError, TwinrunError):
        raise
    except Exception as error:
        raise TwinrunError(f"what is to be saved raises {sentence_of(error)}") from error


def _where(checkpoint: Mapping[str, Any]) -> str:
    """Say which entry of a checkpoint holds more than data, where it is a small one."""
    held = {f", in the state of {name}": state for name, state in checkpoint["callbacks"].items()}
    for key, entry in checkpoint.items():
        if key not in ("callbacks", "state_dict", "optimizer_states"):
            held[f", under {key!r} of the checkpoint"] = entry
    found = next((where for where, entry in held.items() if not _is_read(entry)), "")
    return f"{found}{_INNER if repr('lr_schedulers') in found else ''}"


def _is_read(value: object) -> bool:
    """Say whether torch reads a value as data alone."""
    file = io.BytesIO()
    with suppress(Exception):  # of what cannot be pickled, whatever its class raises
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
        return True
    return False


def complete(
    checkpoint: dict[str, Any],
    trainer: pl.Trainer,
    module: pl.LightningModule,
    *,
    attributes: Attributes,
    start: KeptBeside,
    epoch: Mapping[str, Any] | None,
    worker: Mapping[str, Any],
    compiled_for: list[list[int]] | None,
    making: Making | None,
    beside: Mapping[str, Any],
) -> dict[str, Any]:
    """Have a checkpoint lie where an epoch starts; return what is kept beside it.

    Args:
        checkpoint: as Lightning has made it.
        trainer: of the training.
        module: that is trained.
        attributes: of the module, which have changed.
        start: a look at what hooks had set where the training began.
        epoch: of a `RunningEpoch`, where the checkpoint is taken in mid-epoch.
        worker: what this worker keeps beside all else, where there are several.
        compiled_for: the shapes of batch for which the module's own code was compiled.
        making: what the training loaders were made from.
        beside: which objects it might part, and what data were first given as they were read.
    """
    loops = checkpoint["loops"]["fit_loop"]
    more = {}
    if epoch is not None:
        more = {"epoch": epoch, "loops": mid_epoch.state_of(trainer, loops)}
    # The epoch has been made ready, but a resumed training makes it ready itself.
    for progress in loops["epoch_progress"].values():
        progress["ready"] = progress["started"] = progress["processed"]
    left_out.drop_hyperparameters(checkpoint)
    loaders = loaders_of(trainer)
    return {
        **more,
        "random": rng_states(),
        "generators": [each.get_state() for each in generators_of(loaders)],
        "has_validation": trainer.val_dataloaders is not None,
        "validation_made": trainer.fit_loop.epoch_loop.val_loop._last_val_dl_reload_epoch,
        "metrics": metrics_of(trainer),
        # Asked for before `min_epochs` or `min_steps` have been reached.
        "should_stop": trainer.should_stop,
        "buffers": dict(left_out.transient_buffers(module)),
        "gradients": gradients_of(module),
        "averages": left_out.left_out_of_averages(trainer),
        "positions": positions_of(loaders),
        "told_values": values_told(trainer),
        "told_looks": looks_told(trainer),
        "attributes": attributes,
        "at_start": state_at_start(trainer, start.made, start.clocks, start.of_data),
        "looks_of_callbacks": looks_of_callbacks(trainer),
        "models": best_models.beside(trainer),
        "worker": dict(worker),
        "compiled_for": compiled_for,
        "making": making,
        **beside,
    }

"""What Lightning has loaded from a checkpoint, to be put back once more where the training goes on.

Lightning loads it before the hooks that begin a training. A module that writes weights there (a
teacher set to its student, a bias set to a prior), a learning rate, or a callback that begins anew
would undo it; in the uninterrupted training they had done so long before the checkpoint.
"""

import copy
import traceback
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.connectors import checkpoint_connector

from twinrun.checkpoint import best_models
from twinrun.checkpoint.beside_states import beside_states_now
from twinrun.checkpoint.left_out import tensors_of
from twinrun.checkpoint.loaded_states import LoadedCallbacks, LoadedData
from twinrun.checkpoint.own_memory import id_of_memory
from twinrun.checkpoint.whole_state import load_optimizers
from twinrun.process.fresh_process import is_lost_peer
from twinrun.process.machine_faults import is_machine_fault

METRICS = ("_callback_metrics", "_logged_metrics", "_progress_bar_metrics")


class Loaded:
    """Weights, state of optimizers, schedules, callbacks and data as a checkpoint has them."""

    def __init__(self, checkpoint: dict[str, Any], trainer: pl.Trainer) -> None:
        """Copy them: an optimizer may use the very tensors of the checkpoint.

        Lightning has loaded the weights, and copied them into the module's own, unless that has
        taken the very tensors (`assign=True`). It loads the states of callbacks next, from the same
        mapping.
        """
        best_models.tell(trainer, checkpoint)
        keys = ("optimizer_states", "lr_schedulers", "callbacks")
        self._held: dict[str, Any] = {key: copy.deepcopy(checkpoint[key]) for key in keys}
        taken = {id_of_memory(tensor) for _, tensor in tensors_of(trainer.lightning_module)}
        self._held["state_dict"] = {
            name: copy.deepcopy(value) if id_of_memory(value) in taken else value
            for name, value in checkpoint["state_dict"].items()
        }
        self._callbacks = LoadedCallbacks(
            self._held["callbacks"], checkpoint[best_models.KEY].get("looks_of_callbacks", {})
        )
        self._data = LoadedData(checkpoint, trainer)
        self.beside_states: dict[str, str] = {}
        """What is beside states, as it was loaded."""

    def look(self, trainer: pl.Trainer) -> None:
        """Look at what Lightning has loaded, before any hook changes it."""
        self._callbacks.look(trainer)
        self.beside_states = beside_states_now(trainer)

    def put_back(self, trainer: pl.Trainer, module: pl.LightningModule) -> str | None:
        """Put them back; what a module names otherwise than in its state_dict is not among them.

        Returns:
            What could not be put back, if anything.
        """
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, saved in self._held["state_dict"].items():
                if name in own and _is_like(own[name], saved):
                    own[name].copy_(saved)
        load_optimizers(trainer, self._held["optimizer_states"])
        for config, state in zip(
            trainer.lr_scheduler_configs, self._held["lr_schedulers"], strict=True
        ):
            # A copy, since it may be loaded again, and CyclicLR takes out of it what it loads.
            config.scheduler.load_state_dict(copy.deepcopy(state))
        return self._callbacks.put_back(trainer) or self._data.put_back(trainer)


def cannot_be_loaded(error: BaseException) -> bool:
    """Say whether a training failed where its checkpoint was loaded, and would again.

    What a hook raises between that and the first epoch says nothing of the checkpoint.
    """
    files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    is_of_loading = not files.isdisjoint({checkpoint_connector.__file__, __file__})
    is_disturbed = is_machine_fault(error) or is_lost_peer(error)
    return isinstance(error, Exception) and is_of_loading and not is_disturbed


def metrics_of(trainer: pl.Trainer) -> dict[str, dict[str, Any]]:
    """Return what was logged last, as the Trainer shows it to callbacks, loggers and bars."""
    trainer.callback_metrics  # noqa: B018  which takes in what was logged just now
    return {name: dict(getattr(trainer._logger_connector, name)) for name in METRICS}


def put_back_metrics(
    trainer: pl.Trainer, metrics: Mapping[str, Mapping[str, Any]], device: torch.device
) -> None:
    """Have the Trainer show what was logged before the stop."""
    for name, held in metrics.items():
        getattr(trainer._logger_connector, name).update(
            {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in held.items()}
        )


def _is_like(own: torch.Tensor, saved: object) -> bool:
    """Say whether the one can be written into the other as it is."""
    if not isinstance(saved, torch.Tensor) or saved.layout is not torch.strided:
        return False
    return (own.layout, own.dtype, own.shape) == (saved.layout, saved.dtype, saved.shape)

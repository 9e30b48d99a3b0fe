"""One training step and one prediction of a LightningModule, without the Trainer.

The step is the module's own `training_step`, the backward pass and its own optimizer, in the order
of Lightning's automatic optimization. What it logs goes nowhere; learning-rate schedulers and
gradient clipping belong to the loop around the step and are left out.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import DoublePrecision, HalfPrecision, MixedPrecision
from pytorch_lightning.plugins.precision import Precision as PlainPrecision

from twinrun.compilation import compile_steps
from twinrun.jobs import TwinrunError


def device_of(variant: Mapping[str, Any]) -> torch.device:
    """Give the device of a variant's resolved accelerator.

    Raises:
        TwinrunError: if torch sees no such device on this machine.
    """
    if variant["accelerator"] == "cpu":
        return torch.device("cpu")
    for kind, is_there in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        if is_there.is_available():
            return torch.device(kind, 0)
    raise TwinrunError("no GPU: torch sees none on this machine")


class Stepper:
    """A module made ready to be stepped under a variant's settings, on its device."""

    def __init__(self, module: pl.LightningModule, variant: Mapping[str, Any]) -> None:
        """Take over the module; it is moved, and its logging is switched off.

        Raises:
            TwinrunError: if the variant cannot run here, or the module needs the Trainer.
        """
        self._precision = _precision(variant["precision"])
        self.device = device_of(variant)
        self.module = self._precision.convert_module(module.to(self.device))
        if variant["compile"] == "module":
            compile_steps(self.module)
        self.module.log = self.module.log_dict = _log_nothing
        if not self.module.automatic_optimization:
            raise TwinrunError(
                f"{type(module).__name__} optimizes manually, which needs the Trainer"
            )
        self.optimizer = optimizer_of(self.module)

    def train(self, batch: Any, index: int) -> None:
        """Do one step."""
        self.module.train()
        self.optimizer.zero_grad()
        with self._precision.train_step_context():
            loss = self.module.training_step(self._precision.convert_input(batch), index)
        if isinstance(loss, Mapping):
            loss = loss["loss"]
        loss.backward()
        self.optimizer.step()

    def predict(self, batch: Any, index: int) -> Any:
        """Give what `predict_step` gives."""
        self.module.eval()
        with torch.inference_mode(), self._precision.predict_step_context():
            return self.module.predict_step(self._precision.convert_input(batch), index)


def optimizer_of(module: pl.LightningModule) -> torch.optim.Optimizer:
    """Give the only optimizer that `configure_optimizers` names, in whatever form.

    Raises:
        TwinrunError: if there are none or several.
    """
    found = module.configure_optimizers()
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], list | tuple):
        found = found[0]  # ([optimizers], [schedulers])
    found = list(found) if isinstance(found, list | tuple) else [found]
    found = [entry["optimizer"] if isinstance(entry, Mapping) else entry for entry in found]
    if len(found) != 1 or not isinstance(found[0], torch.optim.Optimizer):
        raise TwinrunError(
            f"{type(module).__name__}.configure_optimizers gives {len(found)} optimizers, where "
            f"automatic optimization needs exactly one"
        )
    return found[0]


def _precision(name: str) -> PlainPrecision:
    match name:
        case "32-true":
            return PlainPrecision()
        case "64-true":
            return DoublePrecision()
        case "bf16-true":
            return HalfPrecision("bf16-true")
        case "bf16-mixed":
            return MixedPrecision("bf16-mixed", "cpu")
    raise TwinrunError(f"precision {name} scales its gradients, which needs the Trainer")


def _log_nothing(*args: Any, **kwargs: Any) -> None:
    pass

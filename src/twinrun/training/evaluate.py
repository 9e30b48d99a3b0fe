"""What a trained network gives on the test and the prediction data."""

from collections.abc import Mapping

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.errors import TwinrunError


def test(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, float]:
    """Return the metrics that the module logs on the test data; none if it does not test."""
    if not (
        is_overridden("test_step", module, pl.LightningModule)
        and is_overridden("test_dataloader", data, pl.LightningDataModule)
    ):
        return {}
    return {
        name: float(value) for name, value in trainer.test(module, data, verbose=False)[0].items()
    }


def predict(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, torch.Tensor]:
    """Concatenate the outputs of `predict_step` over the data module's prediction batches.

    Lightning's own `predict_step` calls `forward`: a module with neither predicts nothing.
    """
    can_predict = any(
        is_overridden(method, module, pl.LightningModule) for method in ("predict_step", "forward")
    )
    if not (can_predict and is_overridden("predict_dataloader", data, pl.LightningDataModule)):
        return {}
    found = trainer.predict(module, data) or []
    batches = [{"prediction": b} if isinstance(b, torch.Tensor) else b for b in found]
    if not batches:
        return {}
    if not isinstance(batches[0], Mapping):
        raise TwinrunError(
            f"module: predict_step of {type(module).__name__} returns a "
            f"{type(batches[0]).__name__}, where a tensor or a dictionary of tensors is needed"
        )
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}

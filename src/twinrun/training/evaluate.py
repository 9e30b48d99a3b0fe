"""What a trained network gives on the test and the prediction data.

A training is never thrown away because its test or its prediction fails: what cannot be measured or
kept is named with the reason, and the run stands.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils._pytree import keystr, tree_flatten_with_path

from twinrun.checkpoint.stop_request import Stopped
from twinrun.errors import sentence_of

Result = TypeVar("Result")


@dataclass(kw_only=True)
class Evaluation:
    """What was measured and predicted, and what was not."""

    metrics: dict[str, float] = field(default_factory=dict)
    """What the module logs on the test data, of all its loaders."""
    predictions: dict[str, torch.Tensor] = field(default_factory=dict)
    """The outputs of `predict_step` by name, the batches joined along their first dimension."""
    missing: dict[str, str] = field(default_factory=dict)
    """What could not be measured or kept, and why."""


def evaluate(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> Evaluation:
    """Test and predict as far as module and data module can."""
    found = Evaluation()
    found.metrics = _attempt("test", found, lambda: _test(trainer, module, data), {})
    outputs = _attempt("predict", found, lambda: _predict(trainer, module, data), {})
    for loader, batches in outputs.items():
        _keep(found, loader, batches)
    return found


def _attempt(name: str, found: Evaluation, act: Callable[[], Result], otherwise: Result) -> Result:
    try:
        return act()
    except Stopped:
        raise
    except Exception as error:  # a user's module may raise anything
        traceback.print_exc()
        found.missing[name] = sentence_of(error)
        return otherwise


def _test(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, float]:
    # Lightning raises where one of the two is missing; a module without a test is in order.
    if not (
        is_overridden("test_step", module, pl.LightningModule)
        and is_overridden("test_dataloader", data, pl.LightningDataModule)
    ):
        return {}
    # A dictionary for each loader; Lightning adds the loader's number to names that several log.
    found = trainer.test(module, data, verbose=False)
    return {name: float(value) for values in found for name, value in values.items()}


def _predict(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, list[object]]:
    """Return the outputs for each batch, by a prefix that names the loader if there are several.

    Lightning's own `predict_step` calls `forward`: a module with neither predicts nothing.
    """
    can_predict = any(
        is_overridden(method, module, pl.LightningModule) for method in ("predict_step", "forward")
    )
    if not (can_predict and is_overridden("predict_dataloader", data, pl.LightningDataModule)):
        return {}
    # Lightning returns None where a module predicts nothing on purpose.
    found = trainer.predict(module, data) or []
    loaders = trainer.predict_dataloaders
    # Of several loaders Lightning returns a list of batches each, of one the batches alone.
    if isinstance(loaders, list | tuple | dict) and len(loaders) > 1:
        names = loaders if isinstance(loaders, dict) else range(len(loaders))
        return {f"loader{name}.": list(b) for name, b in zip(names, found, strict=True)}
    return {"": list(found)}


def _keep(found: Evaluation, prefix: str, batches: list[object]) -> None:
    """Join the outputs of a loader's batches, leaf by leaf; name the leaves that do not join."""
    if not batches:
        return
    flattened = [tree_flatten_with_path(_plain(batch)) for batch in batches]
    if any(structure != flattened[0][1] for _, structure in flattened):
        found.missing[f"{prefix}predict"] = "predict_step returns another structure for each batch"
        return
    for leaves in zip(*(leaves for leaves, _ in flattened), strict=True):
        name = prefix + (_name(leaves[0][0]) or "prediction")
        values = [value for _, value in leaves]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        reason = _why_not_joined(values, tensors)
        if reason is None:
            # A prediction without dimensions is one for its batch.
            found.predictions[name] = torch.cat(
                [t.reshape(1) if not t.ndim else t for t in tensors]
            )
        else:
            found.missing[name] = reason


def _why_not_joined(values: list[object], tensors: list[torch.Tensor]) -> str | None:
    """Say why the outputs of the batches are not kept.

    Args:
        values: one leaf of the outputs, of each batch.
        tensors: those of them that are tensors.
    """
    others = [type(value).__name__ for value in values if not isinstance(value, torch.Tensor)]
    if others:
        return f"predict_step returns a {others[0]}; tensors are kept"
    if any(value.layout is not torch.strided for value in tensors):
        return "predict_step returns a sparse or nested tensor; dense ones are kept"
    if len({(value.dtype, value.shape[1:]) for value in tensors}) > 1:
        return "the batches' predictions differ in type or shape beyond their first dimension"
    return None


def _plain(tree: object) -> object:
    """Make dictionaries of other mappings, whose leaves torch's pytree would not see."""
    if isinstance(tree, Mapping):
        return {str(key): _plain(value) for key, value in tree.items()}
    if type(tree) is list:
        return [_plain(value) for value in tree]
    return tuple(_plain(value) for value in tree) if type(tree) is tuple else tree


def _name(path: Any) -> str:
    """Write a leaf's place as a name: `boxes.0` for `['boxes'][0]`."""
    return (
        keystr(path)
        .replace("']['", ".")
        .replace("['", "")
        .replace("']", "")
        .replace("][", ".")
        .replace("[", ".")
        .replace("]", "")
        .lstrip(".")
    )

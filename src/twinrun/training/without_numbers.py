"""Whether a network still computes numbers: what is measured of one that does not is no result.

A network whose weights are NaN has an accuracy all the same: the largest of scores that are none is
the first, so that it is right wherever the first class is.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from twinrun import artifacts
from twinrun.formatting import plural
from twinrun.training.write_run import NamedTensor


def without_numbers(tensors: Iterable[NamedTensor]) -> set[str]:
    """Name the tensors that hold a NaN, and trained parameters that hold an infinity.

    What is not trained may be infinite on purpose: a mask is added to scores.
    """
    return {
        name
        for name, kind, tensor in tensors
        if not is_lazy(tensor)
        and _is_without(tensor, is_trained=kind == "parameter" and tensor.requires_grad)
    }


def _is_without(tensor: torch.Tensor, *, is_trained: bool) -> bool:
    if tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    if tensor.is_floating_point() and tensor.itemsize == 1:  # few functions take float8
        tensor = tensor.float()
    found = ~tensor.isfinite() if is_trained else tensor.isnan()
    return bool(found.any())


def why_no_result(broken: Collection[str], predictions: Mapping[str, torch.Tensor]) -> str | None:
    """Say why what is measured of a network is no result; None if it computes numbers.

    Args:
        broken: its tensors that have become `without_numbers` in the training.
        predictions: by name.

    >>> why_no_result(["a.weight", "a.bias"], {})
    'its weights are NaN or infinite (a.bias and 1 more tensor)'
    >>> why_no_result([], {"scores": torch.full((2,), torch.nan)})
    'all that it predicts as scores is NaN'
    """
    if broken:
        first, *others = sorted(broken)
        more = f" and {plural(len(others), 'more tensor')}" if others else ""
        return f"its weights are NaN or infinite ({first}{more})"
    for name, found in predictions.items():
        if found.is_floating_point() and found.numel() and bool(found.isnan().all()):
            return f"all that it predicts as {name} is NaN"
    return None


def why_no_loss(steps: str | Path, *, is_automatic: bool) -> str | None:
    """Say that a training ended in nothing but losses that are no numbers, and so without updates.

    As where steps are left out whose loss is NaN, by a module or a scaler of gradients: the weights
    stay numbers, and nothing that is computed of them need be.

    Args:
        steps: the steps.csv of the run.
        is_automatic: whether Lightning does the updates, so that a step without a loss has none.
    """
    table = artifacts.read_csv(steps, ["epoch", "loss", "loss_fingerprint"])
    last = table[table["epoch"] == table["epoch"].max()]
    is_given = last["loss_fingerprint"].astype(str).str.strip("0") != ""
    asked = last if is_automatic else last[is_given]
    if asked.empty or np.isfinite(asked["loss"].to_numpy(float)).any():
        return None
    return "no step of its last epoch has a loss that is a number"

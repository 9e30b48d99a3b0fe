"""Whether a network still computes numbers: what is measured of one that does not is no result.

A network whose weights are NaN has an accuracy all the same: the largest of scores that are none is
the first, so that it is right wherever the first class is.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from twinrun.formatting import plural
from twinrun.training.tensor_file import Parts
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
    # Others than plain ones are refused elsewhere, in words of their own.
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_nested:
        return False
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    if tensor.is_floating_point() and tensor.itemsize == 1:  # few functions take float8
        tensor = tensor.float()
    found = ~tensor.isfinite() if is_trained else tensor.isnan()
    return bool(found.any())


def why_no_result(
    module: torch.nn.Module,
    broken: Collection[str],
    predictions: Mapping[str, Parts],
    least_loss: float | None,
    steps: int,
) -> tuple[str | None, list[str]]:
    """Say why what is measured of a network is no result, if so, and else what raises a doubt.

    A buffer may be NaN as a statistic of nothing, a loss may be left out that is small enough, or
    infinite where its gradient is not: these raise a doubt.

    Args:
        module: of the run.
        broken: its tensors that have become `without_numbers` in the training.
        predictions: by name.
        least_loss: the smallest absolute value of a loss in the last epoch, of all its steps,
            NaN if all are NaN; None if no step gave any.
        steps: that were taken; of none there is no doubt about a loss.
    """
    weights = sorted(set(broken) - set(_beside(module)))
    doubts = [f"{name} is NaN" for name in sorted(set(broken) - set(weights))]
    if weights:
        more = f" and {plural(len(weights) - 1, 'more tensor')}" if len(weights) > 1 else ""
        return f"its weights are NaN or infinite ({weights[0]}{more})", doubts
    floating = [t for t in predictions.values() if t.dtype.is_floating_point and t.nbytes]
    # With others it may be a target that nobody has, handed on.
    if floating and all(bool(p.isnan().all()) for found in floating for p in found.parts()):
        return "all numbers that it predicts are NaN", doubts
    if least_loss is not None and math.isnan(least_loss):
        return "its loss is NaN in each step of its last epoch", doubts
    is_automatic = getattr(module, "automatic_optimization", True)
    # A module that steps by itself need not return a loss.
    if least_loss == math.inf or (least_loss is None and is_automatic and steps):
        doubts.append("no step of its last epoch has a finite loss")
    return None, doubts


def _beside(module: torch.nn.Module) -> Iterator[str]:
    """Name the buffers that no layer of torch's computes with."""
    for path, part in module.named_modules():
        # Of batch normalisation, which computes with them where it does not train.
        if not isinstance(part, _NormBase):
            for name, _ in part.named_buffers(recurse=False):
                yield f"{path}.{name}" if path else name

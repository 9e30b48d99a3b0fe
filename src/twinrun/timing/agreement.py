"""Whether variants predict the same, but for rounding, from the same initial weights.

It is said of compiled prediction and of layouts, before any training. Of what a training step
computes it says nothing: that is proven (see `training.prove`).

Numbers with a fraction are judged by their distance. Labels, ranks and masks are counted: rounding
turns over a near tie, to a label that is any distance away, so they alone never say that another
thing was computed.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

# Units in the last place. Sums of some thousand products in another order are a few units off, and
# each layer adds its own; a wrong weight or a lost layer is a million off.
TOLERANCE = 100


Outputs = dict[str, tuple[list[torch.Tensor], float]]
"""Predicted tensors by variant, and the distance from 1 to the next number in the dtype that
computed them."""


class Found(NamedTuple):
    """How far predictions are apart."""

    distance: float | None
    """The largest relative L2 distance of a tensor of floating-point numbers; None where there is
    none, infinite where the tensors have other shapes."""
    integers: int
    """How many integers and booleans were predicted."""
    integers_differing: int
    """How many of these differ."""


def agreement(outputs: Outputs, baseline: str) -> Iterator[tuple[str, Found, float]]:
    """Compare the predictions of each variant with the baseline's.

    Args:
        outputs: of all variants that predicted.
        baseline: the variant that the others are compared with.

    Yields:
        The variant, how far it is, and the tolerance of the distance.
    """
    expected, epsilon = outputs.get(baseline, ([], 0.0))
    for name, (output, own) in outputs.items():
        if name != baseline and output and expected:
            yield name, apart(output, expected), tolerance_of(max(own, epsilon))


def tolerance_of(epsilon: float) -> float:
    """Return up to which distance rounding explains a difference.

    Never more than half of the digits, which two orders of the same sums agree to (see
    `acceleration.proof`): of a format of three digits, a hundred units are nearly all of a value.
    """
    return min(TOLERANCE * epsilon, math.sqrt(epsilon))


def apart(output: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> Found:
    """Say how far tensors are from the expected ones."""
    if [tensor.shape for tensor in output] != [tensor.shape for tensor in expected]:
        return Found(math.inf, 0, 0)
    pairs = list(zip(output, expected, strict=True))
    counted = [(a, b) for a, b in pairs if _is_counted(a) and _is_counted(b)]
    distances = [_distance(a, b) for a, b in pairs if not (_is_counted(a) and _is_counted(b))]
    return Found(
        # torch's maximum is NaN where one value is; Python's depends on their order.
        float(torch.stack(distances).max()) if distances else None,
        sum(a.numel() for a, _ in counted),
        sum(int((a != b).sum()) for a, b in counted),
    )


def _is_counted(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _distance(output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return the relative L2 distance from the expected values, in float64."""
    a, b = (
        torch.view_as_real(t.resolve_conj()).double() if t.is_complex() else t.double()
        for t in (output, expected)
    )
    if a.shape != b.shape:  # complex numbers beside real ones
        return torch.tensor(math.inf)
    # Masked logits: -inf in both is no distance, and none that others are measured by.
    apart = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, a - b)
    size = torch.where(b.isfinite(), b, 0.0).norm()
    return apart.norm() / size.clamp(min=torch.finfo(torch.float64).tiny)

"""Whether variants predict the same, but for rounding, from the same initial weights.

It is said of compiled prediction and of layouts, before any training. Of what a training step
computes it says nothing: that is proven (see `training.prove`).
"""

import math
from collections.abc import Iterator, Sequence

import torch

# Units in the last place. Sums of some thousand products in another order are a few units off, and
# each layer adds its own; a wrong weight or a lost layer is a million off.
TOLERANCE = 100


Outputs = dict[str, tuple[list[torch.Tensor], float]]
"""Predicted tensors by variant, and the distance from 1 to the next number in the dtype that
computed them."""


def agreement(outputs: Outputs, baseline: str) -> Iterator[tuple[str, float, float]]:
    """Compare the predictions of each variant with the baseline's.

    Args:
        outputs: of all variants that predicted.
        baseline: the variant that the others are compared with.

    Yields:
        The variant, the largest distance and its tolerance.
    """
    expected, epsilon = outputs.get(baseline, ([], 0.0))
    for name, (output, own) in outputs.items():
        if name != baseline and output and expected:
            yield name, distance(output, expected), tolerance_of(max(own, epsilon))


def tolerance_of(epsilon: float) -> float:
    """Return up to which distance rounding explains a difference.

    Never more than half of the digits, which two orders of the same sums agree to (see
    `acceleration.proof`): of a format of three digits, a hundred units are nearly all of a value.
    """
    return min(TOLERANCE * epsilon, math.sqrt(epsilon))


def distance(output: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Return the largest relative L2 distance of a tensor from the expected one, in float64."""
    if [tensor.shape for tensor in output] != [tensor.shape for tensor in expected]:
        return math.inf
    # torch's maximum is NaN where one value is; Python's depends on their order.
    return float(torch.stack(list(map(_apart, output, expected))).max())


def _apart(output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    a, b = output.double(), expected.double()
    # Masked logits: -inf in both is no distance, and none that others are measured by.
    apart = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, a - b)
    size = torch.where(b.isfinite(), b, 0.0).norm()
    return apart.norm() / size.clamp(min=torch.finfo(torch.float64).tiny)

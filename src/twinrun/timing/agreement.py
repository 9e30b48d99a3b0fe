"""Whether variants predict the same, but for rounding, from the same initial weights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from twinrun.config.definitions import Variant

# Units in the last place. Sums of some thousand products in another order are a few units off, and
# each layer adds its own; a wrong weight or a lost layer is a million off.
TOLERANCE = 100


def agreement(
    outputs: Mapping[str, Sequence[torch.Tensor]], variants: Mapping[str, Variant]
) -> Iterator[dict[str, Any]]:
    """Compare the predictions of each variant with the baseline's."""
    baseline = next(iter(variants))
    for name, output in outputs.items():
        if name != baseline and output and baseline in outputs:
            precisions = {variants[variant].precision for variant in (name, baseline)}
            tolerance = TOLERANCE * max(map(_rounding_of, precisions))
            found = distance(output, outputs[baseline])
            yield {"variant": name, "distance": found, "tolerance": tolerance}


def _rounding_of(precision: str) -> float:
    """Return how far 1 and the next number are apart in what a precision computes with."""
    names = {"64": torch.float64, "32": torch.float32, "16": torch.float16}
    return torch.finfo(names.get(precision.split("-")[0], torch.bfloat16)).eps


def distance(output: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Return the largest relative L2 distance of a tensor from the expected one, in float64."""
    if len(output) != len(expected):
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(output, expected, strict=True)]
    tiny = torch.finfo(torch.float64).tiny
    # torch's maximum is NaN where one value is; Python's depends on their order.
    return float(torch.stack([(a - b).norm() / b.norm().clamp(min=tiny) for a, b in pairs]).max())

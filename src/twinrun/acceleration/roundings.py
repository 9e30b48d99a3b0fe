"""How far rounding moves what a training computes, by its precision."""

import math
from collections.abc import Iterable
from operator import attrgetter

import torch

EPSILONS = {
    "ieee": torch.finfo(torch.float32).eps,
    "tf32": torch.finfo(torch.float16).eps,  # as many bits
    "bf16": torch.finfo(torch.bfloat16).eps,
}
"""Of float32, by how torch multiplies it."""
# ASSUME sums of 4,096 terms: in another order they differ by the square root of that, in units of
# epsilon (Higham and Mary, see docs/method.md). Coarser formats are summed up in float32.
ROUNDINGS = 64.0


def noise_of(epsilon: float) -> float:
    """Return how far another order of the same sums moves a value, relative to its terms."""
    return epsilon * (ROUNDINGS if epsilon <= EPSILONS["ieee"] else 1.0)


def perturb(parameters: Iterable[torch.Tensor], size: float, draw: int = 0) -> None:
    """Change all weights by a relative size, each up or down; another `draw` decides otherwise."""
    # A generator of its own, so that the global ones draw the same in every training.
    generator = torch.Generator("cpu").manual_seed(draw)
    with torch.no_grad():
        for parameter in parameters:
            # Counts and indices, which a module may keep frozen, are not rounded.
            if not (parameter.is_floating_point() or parameter.is_complex()):
                continue
            signs = torch.randint(0, 2, parameter.shape, generator=generator, device="cpu") * 2 - 1
            # In the parameter's own precision: in float32 there is no number 1 + 2e-16.
            parameter.mul_(1 + size * signs.to(parameter))


def bound_of(epsilon: float, *, is_proven: bool) -> float:
    """Return the relative distance that rounding explains.

    Args:
        epsilon: how far 1 and the next number are apart.
        is_proven: of values that were the plain training's in float64.
    """
    # ASSUME two orders of the same sums agree to half of the digits, and that generated code which
    # is wrong does not agree to a third of them.
    return epsilon ** (1 / 3) if is_proven else math.sqrt(epsilon)


def epsilon_of(precision: str, accelerator: str) -> float:
    """Return how far 1 and the next number are apart in what is computed with, as torch is set now.

    float32 may be multiplied in fewer bits: by cuDNN's convolutions as TF32 unless they are told
    not to, by matrix products where the process says so, on a GPU and on a CPU that can.
    """
    if precision == "64-true":
        return torch.finfo(torch.float64).eps
    if not precision.startswith("32"):
        return torch.finfo(torch.float16 if precision.startswith("16") else torch.bfloat16).eps
    parts = (
        ("mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
        if accelerator == "cpu"
        else ("cuda.matmul", "cudnn.conv", "cudnn.rnn")
    )
    # ASSUME all float32 arithmetic is the coarsest that is allowed: the widest of the bounds. The
    # older switch, `allow_tf32`, sets these and cannot be read after one of them was set.
    found = [attrgetter(f"backends.{part}.fp32_precision")(torch) for part in parts]
    return max(EPSILONS.get(name, EPSILONS["ieee"]) for name in found)

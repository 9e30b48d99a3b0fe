"""How far apart rounding alone can bring the losses of two runs that compute the same.

Model: each rounding multiplies a result by 1 + d, where the d are independent, of mean 0 and at
most u, the unit roundoff of the format. Then the relative error of a result at the end of a chain
of roundings is, with probability 1 - 2 exp(-C^2 / 2) at least, at most

    exp(C sqrt(sum u_i^2) + sum u_i^2) - 1,    about C sqrt(n) u for n equal ones

(N. J. Higham, T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci.
Comput. 41(5), 2019, theorem 2.4, https://doi.org/10.1137/18M1226312, to the second order in u; with
several u by the same inequality of Hoeffding, as in I. C. F. Ipsen, H. Zhou, Probabilistic Error
Analysis for Inner Products, https://arxiv.org/abs/1906.10465). In the worst case, n u, every
rounding errs in the same direction.

The chain from a batch to its loss, read from the shapes of the parameters: ROUNDINGS_PER_TENSOR in
the format that activations are kept in, and as many in the format of accumulation as the inner
products have terms. The backward pass is two such chains (for
activations and for weights), so every further step adds three. The losses of both runs may err, and
a loss that training has made small is a difference of numbers that stayed large: of a squared error
that shrank from L to l the relative error grows by sqrt(L / l).

Where two runs have equal gradients and other parameters, only the optimizer differs:
UPDATE_ROUNDINGS an element in the parameters' own format, and the sum of a norm over all of them
that gradients may be clipped to, in the format of accumulation.

Not in the model: layers that are used several times (recurrent networks, whose chain is longer),
overflow, and a loss scale that has a step left out. Measured on six networks, fresh and trained,
the losses were at most 0.04 of the bound apart (see tests/comparison/test_rounding.py).
"""

import math

from twinrun.run_files import variant_of
from twinrun.run_records import RunManifest

CONFIDENCE = 3  # C: a bound fails with a probability of 2.2 % at most
ROUNDINGS_PER_TENSOR = 2  # of a layer's weight and bias: its input, product, sum and activation
CHAINS_PER_STEP = 3  # one forward, two backward
UPDATE_ROUNDINGS = 20  # more than Adam's with weight decay
LARGEST_EXPONENT = 700.0  # e^709 is the largest float64

# Unit roundoff, half of the relative spacing, of what is stored and of what is summed up, by
# Lightning's name of the precision. Low precisions are summed up in float32:
# https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/
FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = 2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8
TENSOR_FLOAT32 = 2.0**-11  # its significand has as many bits as float16's
UNIT_OF_DTYPE = {
    "float64": FLOAT64,
    "float32": FLOAT32,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
}
UNITS = {
    "64-true": (FLOAT64, FLOAT64),
    "32-true": (FLOAT32, FLOAT32),
    "16-mixed": (FLOAT16, FLOAT32),
    "bf16-mixed": (BFLOAT16, FLOAT32),
    "bf16-true": (BFLOAT16, FLOAT32),
}


def bound(first: RunManifest, second: RunManifest, *, steps_after: int, shrunk: float) -> float:
    """Return how far two losses can be apart by rounding alone, relative to the first.

    Args:
        first: manifest of a run.
        second: of another one of the same network.
        steps_after: steps between the one in which the runs diverged and the one of the losses.
        shrunk: the loss, as a part of the largest one up to it; 0 to 1.

    Returns:
        Infinity of a loss that has shrunk to 0.
    """
    if not shrunk:
        return math.inf
    return sum(error(run, steps_after=steps_after) for run in (first, second)) / math.sqrt(shrunk)


def error(run: RunManifest, *, steps_after: int) -> float:
    """Return the bound of a loss's relative error, beside the same loss in exact arithmetic."""
    stored, summed = units(run)
    parameters = [tensor["shape"] for tensor in run["tensors"] if tensor["kind"] == "parameter"]
    # ASSUME the first dimension counts outputs, as in torch's linear and convolutional layers: the
    # others are the terms of an inner product.
    terms = sum(math.prod(shape[1:]) for shape in parameters if len(shape) > 1)
    variance = ROUNDINGS_PER_TENSOR * len(parameters) * stored**2 + terms * summed**2
    variance *= 1 + CHAINS_PER_STEP * steps_after
    return _factor(variance)


def update_bound(run: RunManifest) -> float:
    """Return the relative L2 distance that equal gradients can lead to in one update."""
    parameters = [tensor for tensor in run["tensors"] if tensor["kind"] == "parameter"]
    elements = sum(math.prod(tensor["shape"]) for tensor in parameters)
    # Types that no optimizer changes (integers) have no unit, and differ by nothing.
    unit = max((UNIT_OF_DTYPE.get(tensor["dtype"], 0.0) for tensor in parameters), default=0.0)
    # In bfloat16's own unit the sum alone would explain any update of 2,000 parameters.
    summed = min(unit, FLOAT32)
    # Twice, since both runs may err.
    return 2 * _factor(UPDATE_ROUNDINGS * unit**2 + elements * summed**2)


def half_of_digits(*runs: RunManifest) -> float:
    """Return the root of the relative spacing of the coarsest format that runs compute in.

    It is the bound of the proof of a fast step too: two orders of the same sums agree to more
    than that, and two computations do not.
    """
    return math.sqrt(2 * max(units(run)[0] for run in runs))


def movement_bound(*runs: RunManifest, size: float, moved: float) -> float:
    """Return how far rounding can bring parameters apart, relative to the way they moved.

    Half of the digits of what was computed, since gradients are sums that cancel, or what a forward
    and a backward pass explain in a format of few digits; and what is lost where a small movement
    is added to parameters of a size. Infinite where nothing moved.

    Measured with SGD and Adam, with batch normalisation: 1e-8 to 1e-6 in float32, 2e-3 to 9e-2
    under bfloat16. A layer whose gradients were left out: 0.6.
    """
    if not moved:
        return math.inf
    stored = max(
        UNIT_OF_DTYPE.get(tensor["dtype"], 0.0)
        for run in runs
        for tensor in run["tensors"]
        if tensor["kind"] == "parameter"
    )
    # Twice, since both runs round.
    computed = max(half_of_digits(*runs), sum(error(run, steps_after=1) for run in runs))
    return computed + 2 * stored * size / moved


def _factor(variance: float) -> float:
    """Return the bound of a relative error from the sum of the squared units."""
    exponent = CONFIDENCE * math.sqrt(variance) + variance
    # expm1: with float64 the exponent is so small that exp(x) - 1 would lose most digits. Of many
    # steps in a low precision it is so large that there is no such number.
    return math.expm1(exponent) if exponent < LARGEST_EXPONENT else math.inf


def units(run: RunManifest) -> tuple[float, float]:
    """Return the unit roundoff of what a run stores and of what it sums up.

    ASSUME that float32 on a GPU is multiplied as TensorFloat-32: cuDNN's convolutions are by
    default, and matrix products where the module says so, which no manifest records.
    https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """
    variant = variant_of(run)
    if variant.precision == "32-true" and variant.accelerator == "gpu":
        return TENSOR_FLOAT32, FLOAT32
    return UNITS[variant.precision]

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
the format that activations are kept in (see `formats`), and as many in the format of accumulation
as the inner products have terms; and as many of the batch, and of the loss, where their formats may
be coarser than all of these. The backward pass is two such chains (for
activations and for weights), so every further step adds three. The losses of both runs may err, and
a loss that training has made small is a difference of numbers that stayed large: of a squared error
that shrank from L to l the relative error grows by sqrt(L / l).

Where two runs have equal gradients and other parameters, only the optimizer differs:
UPDATE_ROUNDINGS an element in the parameters' own format, and the sum of a norm over all of them
that gradients may be clipped to, in the format of accumulation.

Not in the model: layers that are used several times (recurrent networks, whose chain is longer),
overflow, a loss scale that has a step left out, and what enlarges an error: a loss that is a small
difference of large means, a softmax of large numbers, several updates in a step (LBFGS), a division
by a small step or by the norm of a gradient that is rounding, gradients that are all rounding.
Measured on two plain networks, fresh and trained, the losses were at most 0.04 of the bound apart;
those of a critic, which is such a difference, up to 8 times the bound (see
tests/comparison/test_rounding.py).
"""

import math

from twinrun.comparison.formats import FLOAT32, Formats

CONFIDENCE = 3  # C: a bound fails with a probability of 2.2 % at most
ROUNDINGS_PER_TENSOR = 2  # of a layer's weight and bias: its input, product, sum and activation
CHAINS_PER_STEP = 3  # one forward, two backward
UPDATE_ROUNDINGS = 20  # more than Adam's with weight decay
LARGEST_EXPONENT = 700.0  # e^709 is the largest float64


def bound(first: Formats, second: Formats, *, steps_after: int, shrunk: float) -> float:
    """Return how far two losses can be apart by rounding alone, relative to the first.

    Args:
        first: of a run.
        second: of another one of the same network.
        steps_after: steps between the one in which the runs diverged and the one of the losses.
        shrunk: the loss, as a part of the largest one up to it; 0 to 1.

    Returns:
        Infinity of a loss that has shrunk to 0.
    """
    if not shrunk:
        return math.inf
    return sum(error(run, steps_after=steps_after) for run in (first, second)) / math.sqrt(shrunk)


def error(run: Formats, *, steps_after: int) -> float:
    """Return the bound of a loss's relative error, beside the same loss in exact arithmetic."""
    # Low precisions are summed up in float32:
    # https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/
    variance = sum(
        ROUNDINGS_PER_TENSOR * unit**2 + terms * min(unit, FLOAT32) ** 2
        for unit, terms in zip(run.layers, run.terms, strict=True)
    )
    variance += ROUNDINGS_PER_TENSOR * (run.loss**2 + run.batch**2)
    return _factor(variance * (1 + CHAINS_PER_STEP * steps_after))


def update_bound(run: Formats) -> float:
    """Return the relative L2 distance that equal gradients can lead to in one update."""
    unit = max(run.parameters, default=0.0)
    # In bfloat16's own unit the sum alone would explain any update of 2,000 parameters.
    summed = min(unit, FLOAT32)
    # Twice, since both runs may err.
    return 2 * _factor(UPDATE_ROUNDINGS * unit**2 + run.elements * summed**2)


def half_of_digits(*runs: Formats) -> float:
    """Return the root of the relative spacing of the coarsest format that runs compute in.

    It is the bound of the proof of a fast step too: two orders of the same sums agree to more
    than that, and two computations do not.
    """
    return math.sqrt(2 * max(run.coarsest for run in runs))


def movement_bound(*runs: Formats, size: float, moved: float) -> float:
    """Return how far rounding can bring parameters apart, relative to the way they moved.

    Half of the digits of what was computed, since gradients are sums that cancel, or what a forward
    and a backward pass explain in a format of few digits; and what is lost where a small movement
    is added to parameters of a size. Infinite where nothing moved.

    Measured: 1e-8 to 1e-6 with SGD in float32; up to 0.1 where Adam makes a step of what is but
    rounding (of a bias before batch normalisation); 0.002 to 0.7 under bfloat16. A layer whose
    gradients were left out: 0.6.
    """
    if not moved:
        return math.inf
    # Gradients of what was rounded in the format of a batch cancel like others.
    half = max(half_of_digits(*runs), *(math.sqrt(2 * run.batch) for run in runs))
    computed = max(half, sum(error(run, steps_after=1) for run in runs))
    return computed + storing_bound(*runs, size=size) / moved


def storing_bound(*runs: Formats, size: float) -> float:
    """Return how far storing parameters of a size brings them apart; an L2 distance."""
    # Twice, since both runs round.
    return 2 * max((unit for run in runs for unit in run.parameters), default=0.0) * size


def _factor(variance: float) -> float:
    """Return the bound of a relative error from the sum of the squared units."""
    exponent = CONFIDENCE * math.sqrt(variance) + variance
    # expm1: with float64 the exponent is so small that exp(x) - 1 would lose most digits. Of many
    # steps in a low precision it is so large that there is no such number.
    return math.expm1(exponent) if exponent < LARGEST_EXPONENT else math.inf

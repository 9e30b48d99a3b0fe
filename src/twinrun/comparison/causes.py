"""From what differed first between two runs to the class of its cause.

Within a step one quantity causes the next: the weights that it starts with and the state of the
random generators, the batch, the forward pass (random numbers, buffers, loss), the backward pass,
the exchange between workers, the optimizer, the decision that it was the last step. So the first
that differs bears the cause, and the others follow from it. What a class cannot say is which
operation it was: see `locate`.
"""

from twinrun.comparison.pair_records import Cause, Quantity

# Quantities in the order in which one causes the next: the words of `first_difference`, and the
# class of cause when that quantity is the first to differ.
CAUSE_OF_QUANTITY: dict[Quantity, Cause] = {
    "initial parameters": "initial weights",
    "initial buffers": "initial weights",
    "parameters before the step": "between steps",
    "buffers before the step": "between steps",
    "RNG states": "RNG state",
    "order of the batch": "data order",
    "content of the batch": "data content",
    # Before buffers and loss: the random numbers that a step draws, as in dropout, decide both.
    "RNG states after the step": "RNG state",
    "buffers": "forward",
    "loss": "forward",
    "workers' own gradients": "backward",
    "gradients": "backward",
    "optimizer settings": "optimizer",
    # Gradients are fingerprinted before they are clipped: another clipping is found here or in the
    # parameters, not in the gradients.
    "optimizer state": "optimizer",
    "parameters": "optimizer",
    # All steps that both have are equal: not what they were given, but what ends them differs.
    "number of steps": "end of the training",
    # Looked at when all is over, where nothing that is traced differs.
    "weights outside the module": "not held",
}
# Quantities that no rounding explains: the two trainings were not given the same.
GIVEN = {
    quantity
    for quantity, cause in CAUSE_OF_QUANTITY.items()
    if cause in ("initial weights", "between steps", "RNG state", "data order", "data content")
    # Decided between steps, as the data and the weights are.
    or quantity in ("optimizer settings", "number of steps")
}
# dict.fromkeys drops repeats and keeps the order, which a set would not. No quantity stands for
# `collective` alone: it takes several workers.
CAUSES = (
    *dict.fromkeys(CAUSE_OF_QUANTITY.values()),
    *("data order or content", "data not compared", "collective", "not traced"),
)
# Quantities that a step takes over from those before it: where these were not traced, any cause in
# them may be theirs.
TAKEN_OVER: tuple[Quantity, ...] = (
    "parameters before the step",
    "buffers before the step",
    "RNG states",
    "optimizer settings",
    "optimizer state",
)
# Likewise, where the gradients of several steps make an update.
GATHERED: tuple[Quantity, ...] = ("workers' own gradients", "gradients")
# What another batch changes first in its step.
OF_THE_BATCH: tuple[Quantity, ...] = ("RNG states after the step", "buffers", "loss", *GATHERED)


def cause_of(quantity: Quantity, *, workers: int = 1) -> Cause:
    """Return the class of cause, one of CAUSES, of the quantity that differed first.

    Args:
        quantity: one of CAUSE_OF_QUANTITY.
        workers: how many trained together. When their own gradients were equal and the sum of
            them is not, it was the exchange.

    >>> cause_of("gradients"), cause_of("gradients", workers=2)
    ('backward', 'collective')
    """
    if quantity == "gradients" and workers > 1:
        return "collective"
    return CAUSE_OF_QUANTITY[quantity]

"""From what differed first between two runs to the class of its cause.

Within a step one quantity causes the next: the weights that it starts with and the state of the
random generators, the batch, the forward pass (random numbers, buffers, loss), the backward pass,
the exchange between workers, the optimizer. So the first that differs bears the cause, and the
others follow from it. What a class cannot say is which operation it was: see `locating`.
"""

from collections.abc import Mapping
from typing import Any

# Quantities in the order in which one causes the next: the words of `first_difference`, and the
# class of cause when that quantity is the first to differ.
CAUSE_OF_QUANTITY = {
    "initial parameters": "initial weights",
    "initial buffers": "initial weights",
    "parameters before the step": "initial weights",
    "random streams": "random stream",
    "order of the batch": "data order",
    "content of the batch": "data content",
    "random streams after the step": "random stream",
    "buffers": "forward",
    "loss": "forward",
    "workers' own gradients": "backward",
    "gradients": "backward",
    "optimizer state": "optimizer",
    "parameters": "optimizer",
    "number of steps": "data order",
}
CAUSES = (*dict.fromkeys(CAUSE_OF_QUANTITY.values()), "collective")

# What to look at, a clause for each class.
ADVICE = {
    "initial weights": "look for weights that are drawn before or without the seed, or changed "
    "between steps",
    "random stream": "look for whoever draws from or seeds the global random generators (a "
    "callback, a loader, a library), and give it a generator of its own",
    "data order": "look for a shuffle or a sampler that draws from another source than the seed",
    "data content": "look for augmentation, data workers or a set whose result the seed does not "
    "decide",
    "forward": "look for an operation of the forward pass that is not reproducible",
    "backward": "look for an operation of the backward pass that is not reproducible",
    "collective": "look at the exchange of gradients between the workers",
    "optimizer": "look at the optimizer: its state, its settings and its implementation",
}


def cause_of(first_difference: Mapping[str, Any] | None, *, workers: int = 1) -> str | None:
    """Give the class of cause, one of CAUSES; None if nothing differed at any step.

    Args:
        first_difference: of a comparison; its `quantity` is read.
        workers: how many trained together. When their own gradients were equal and the sum of
            them is not, it was the exchange.

    >>> cause_of({"step": 3, "quantity": "gradients", "tensor": "user_factors"})
    'backward'
    >>> cause_of({"step": 3, "quantity": "gradients", "tensor": "user_factors"}, workers=2)
    'collective'
    """
    if first_difference is None:
        return None
    quantity = first_difference["quantity"]
    if quantity == "gradients" and workers > 1:
        return "collective"
    return CAUSE_OF_QUANTITY[quantity]

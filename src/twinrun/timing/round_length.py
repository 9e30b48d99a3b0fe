"""How many steps a round has: as many for every variant.

In a round all variants do the same steps on the same batches. A variant that did more of them than
another would come to other batches, longer sentences for instance, and to other points of the
training, and the ratio would compare these. So the number is decided once for a round, before any
variant is measured in it, by how long a step of each took just before.
"""

import math
from collections.abc import Collection

ENOUGH_SECONDS = 0.1  # of the fastest; what else a machine does for some milliseconds drowns in it
MOST_SECONDS = 0.3  # of the slowest, which may take a hundred times as long: a CPU and a GPU


def steps_of_round(steps: int, seconds_per_step: Collection[float]) -> int:
    """Return how many steps each variant does in a round.

    Args:
        steps: that a round has at least; it has a multiple of them.
        seconds_per_step: of all that is measured in the round.

    >>> steps_of_round(20, [0.001, 0.002])
    100
    >>> steps_of_round(20, [0.001, 0.1])
    20
    """
    # A clock too coarse for a step says 0.
    fastest, slowest = (max(f(seconds_per_step), 1e-9) * steps for f in (min, max))
    enough, most = math.ceil(ENOUGH_SECONDS / fastest), math.floor(MOST_SECONDS / slowest)
    return steps * max(1, min(enough, most))

"""Whether a number is what a clock of this process gave: it is another one in each process."""

import time

from torch.utils._pytree import tree_leaves

# What clocks count from: 1970, the start of the machine.
_CLOCKS = (time.time, time.monotonic, time.perf_counter)
_UNITS = (1, 10**3, 10**9)  # of a second: as `time.time_ns`, or what a user makes of it
_BEGAN = tuple(clock() for clock in _CLOCKS)  # hooks come later


def is_of_clock(value: object) -> bool:
    """Say whether a number, or one in a container, is of a clock and later than this import.

    >>> is_of_clock(time.monotonic()), is_of_clock({"at": [time.time_ns()]}), is_of_clock(0.1)
    (True, True, False)
    """
    return any(_is_moment(leaf) for leaf in tree_leaves(value))


def _is_moment(leaf: object) -> bool:
    return (type(leaf) is int or type(leaf) is float) and any(
        began <= leaf / unit <= clock()
        for clock, began in zip(_CLOCKS, _BEGAN, strict=True)
        for unit in _UNITS
    )

"""Values that belong to the process that made them: texts, paths, moments, numbers of a clock.

A resumed training has its own: another folder, another name of its log, another start of its time.
"""

import datetime
import os
import time
from itertools import islice
from pathlib import PurePath

from torch.utils._pytree import tree_iter

from twinrun.containers import is_really

_FEW, _MANY = 16, 1 << 16  # values in a container
_NAMES = (str, PurePath, datetime.date)
# A moment by the clock that counts from 1970, also one that is to come; and by those that count
# from the start of the machine, none from before this process: it may be any number.
_FAR, _SOON = 10 * 365 * 86400.0, 30 * 86400.0
_UNITS = (1, 10**3, 10**6, 10**9)  # of a second, as `time.time_ns` counts it
_LARGEST = 1e20  # of nanoseconds there are fewer
_COUNTERS = (time.monotonic, time.perf_counter)
_BEGAN = tuple(clock() for clock in _COUNTERS)


def is_of_process(value: object) -> bool:
    """Say whether a value is a text, a path or a moment, or holds a number of a clock.

    >>> is_of_process("run-1"), is_of_process({"at": [time.time_ns()]}), is_of_process([0.1, 300])
    (True, True, False)
    """
    return issubclass(type(value), _NAMES) or is_of_clock(value)


def is_of_clock(value: object) -> bool:
    """Say whether a number, or one in a short container, is a moment: now, before, or a deadline.

    In a long one there are numbers of all sizes.
    """
    found = [*islice(tree_iter(value), _FEW + 1)]
    return len(found) <= _FEW and any(map(_is_moment, found))


def holds_names(value: object) -> bool:
    """Say whether a text, a path or a moment is among the first values in a container."""
    return any(issubclass(type(leaf), _NAMES) for leaf in islice(tree_iter(value), _FEW))


def is_short(value: object) -> bool:
    """Say whether all that a container holds may be looked at each time."""
    return sum(1 for _ in islice(tree_iter(value), _MANY + 1)) <= _MANY


def is_word(value: object) -> bool:
    """Say whether a value is a text, and names no file or folder."""
    return isinstance(value, str) and os.sep not in value


def _is_moment(leaf: object) -> bool:
    is_number = (is_really(leaf, int) or is_really(leaf, float)) and not is_really(leaf, bool)
    if not is_number or not abs(leaf) < _LARGEST:
        return False
    if any(abs(leaf / unit - time.time()) < _FAR for unit in _UNITS):
        return True
    # A whole number of so few seconds may be a count.
    unit = 1 if isinstance(leaf, float) and leaf % 1 else 10**9
    several = zip(_COUNTERS, _BEGAN, strict=True)
    return any(began <= leaf / unit <= clock() + _SOON for clock, began in several)

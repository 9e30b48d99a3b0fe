"""Values that belong to the process that made them: texts, paths, moments, numbers of a clock.

A resumed training has its own: another folder, another name of its log, another start of its time.
"""

import datetime
import os
import time
from pathlib import PurePath

from twinrun.containers import entries, holds_plain, is_container, is_really, size_of

_FEW, _MANY = 32, 1 << 16  # containers and values in a container
_NAMES = (str, PurePath, datetime.date)
# A moment by the clock that counts from 1970, also one of before or to come, but not so far that
# many seeds are one; and by those that count from the start of the machine, none from before this
# process: it may be any number.
_FAR = 30 * 86400.0
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
    if not is_container(value):
        return _is_moment(value)
    found, is_whole = _values_in(value, _FEW)
    return is_whole and any(map(_is_moment, found))


def holds_names(value: object) -> bool:
    """Say whether a text, a path or a moment is among the first values in a container."""
    return any(issubclass(type(leaf), _NAMES) for leaf in _values_in(value, _FEW)[0])


def is_short(value: object) -> bool:
    """Say whether all that a container holds may be looked at each time."""
    return _values_in(value, _MANY)[1]


def _values_in(value: object, most: int) -> tuple[list[object], bool]:
    """Return values in a container and those in it, and whether these are all; some have no end."""
    left, found = [value], list[object]()
    for _ in range(most):
        if not left:
            break
        item = left.pop()
        if not is_container(item):
            found.append(item)
        elif size_of(item) + len(found) > most:
            return found, False
        elif holds_plain(item):  # at once, as there may be many
            found += [each for _, each in entries(item)]
        else:
            left += [each for _, each in entries(item)]
    return found, not left


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
    return any(began <= leaf / unit <= clock() + _FAR for clock, began in several)

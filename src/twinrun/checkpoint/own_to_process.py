"""Values that belong to the process that made them: texts, paths, moments, numbers of a clock.

A resumed training has its own: another folder, another name of its log, another start of its time.
"""

import copy
import datetime
import enum
import os
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, TypeGuard, cast

import numpy as np

from twinrun.checkpoint.of_process import is_temporary
from twinrun.checkpoint.plain_data import NAMESPACES
from twinrun.containers import entries, holds_plain, is_container, is_really, size_of

_FEW, _MANY = 32, 1 << 16  # values in a container, and containers
_FEW_ROWS = 1 << 10
_MOMENTS = (datetime.date, datetime.time, time.struct_time, np.datetime64, uuid.UUID)
_NAMES = (str, PurePath, *_MOMENTS)
# A moment by the clock that counts from 1970, also one of before or to come, but not so far that
# many seeds are one.
_FAR = 30 * 86400.0
_UNITS = (1, 10**3, 10**6, 10**9)  # of a second, as `time.time_ns` counts it
_LEAST_NUMBER = 1000  # of a process: in a container they begin at 1, as counts do
_LARGEST = 1e20  # of nanoseconds there are fewer
# Those that count from the start of the machine: by themselves their numbers may be any.
_COUNTERS = (time.monotonic, time.perf_counter)

# Eight hexadecimal digits, letters among them; a day of this century.
_DRAWN = re.compile(
    r"(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8}|20[0-9]{2}[-_]?[01][0-9][-_]?[0-3][0-9]"
)

Clocks = Sequence[float]
"""How long hooks had taken (s), and what `counted` showed ahead of them; nothing if not known."""


def is_of_process(value: object) -> bool:
    """Say whether a value is a text, a path or a moment, or holds a moment.

    >>> is_of_process("run-1"), is_of_process({"at": [time.time_ns()]}), is_of_process([0.1, 300])
    (True, True, False)
    """
    if not is_container(value):
        return is_name_or_moment(value)
    # In a long one there are numbers of all sizes.
    found, is_whole = _values_in(value, _FEW, _FEW)
    return is_whole and any(map(is_moment, found))


def is_name_or_moment(value: object) -> bool:
    """Say whether a value is itself a text, a path or a moment, or a random name (`uuid`)."""
    is_name = issubclass(type(value), _NAMES) and not isinstance(value, enum.Enum)
    return is_name or is_moment(value)


def is_moment(value: object) -> bool:
    """Say whether a value is a number of the calendar's clock: of now, of before, a deadline."""
    is_near = _is_number(value) and abs(value) < _LARGEST
    return is_near and any(abs(value / unit - time.time()) < _FAR for unit in _UNITS)


def counted() -> list[float]:
    """Return the seconds that the clocks show which count from the start of the machine."""
    return [clock() for clock in _COUNTERS]


def with_own(first: object, own: object, then: Clocks, now: Clocks) -> tuple[object, bool]:
    """Return a value as a first process made it, with what in it belongs to another process.

    In containers of one class that is decided for each value that both have: a moment, a folder
    that was made for a while, a number that has gone on as far as a clock.

    Args:
        first: plain data.
        own: what the other process has made in its place.
        then: the clocks of the first one.
        now: those of the other one.

    Returns:
        It, and whether anything in it is the other process's.
    """
    if type(first) is type(own) and isinstance(first, NAMESPACES):
        held, is_own = with_own(vars(first), vars(own), then, now)
        return (type(first)(**cast(dict[str, Any], held)), True) if is_own else (first, False)
    if type(first) is not type(own) or not (is_container(first) and is_container(own)):
        is_own = _belongs(first, own) or _went_on(first, own, then, now)
        return (own, True) if is_own else (first, False)
    # In a long list there are numbers of all sizes.
    if holds_plain(first) and not isinstance(first, dict) and size_of(first) > _FEW:
        return first, False
    there, here = dict(entries(first)), dict(entries(own))
    found = {key: with_own(there[key], here[key], then, now) for key in there.keys() & here.keys()}
    others = {key: value for key, (value, is_own) in found.items() if is_own}
    if not others:
        return first, False
    if not isinstance(first, dict):
        return type(first)(others.get(key, value) for key, value in there.items()), True
    made = copy.copy(first)  # one of its class, in its order
    for key, value in others.items():
        dict.__setitem__(made, key, value)
    return made, True


def _belongs(first: object, own: object) -> bool:
    """Say whether a value of a process is a moment, its number, or a folder that it has made."""
    is_its_number = type(own) is int and own == os.getpid() >= _LEAST_NUMBER
    if is_its_number or is_moment(own) or issubclass(type(own), _MOMENTS):
        return True
    if not isinstance(own, str | PurePath) or own == first or not _is_path(f"{own}"):
        return False
    # One of data is there for both; a folder that was made for a while may be left of the first.
    is_left = isinstance(first, str | PurePath) and os.path.exists(first)  # noqa: PTH110
    return not is_left or is_temporary(f"{own}")


def _is_path(text: str) -> bool:
    """Say whether a text names a file or a folder; others have a slash too, of data or metrics."""
    folder = os.path.dirname(text)  # noqa: PTH120
    is_in_one = os.path.isabs(text) and len(folder) > 1  # noqa: PTH117
    return os.sep in text and any(
        os.path.exists(each)  # noqa: PTH110
        for each in (text, *([folder] if is_in_one else []))
    )


def is_drawn(text: object) -> bool:
    """Say whether a text looks like a name that is drawn anew, or has a date in it.

    >>> is_drawn("run-3fa85f64"), is_drawn("exp_2026-11-30"), is_drawn("warmup"), is_drawn("conv12")
    (True, True, False, False)
    """
    return isinstance(text, str) and _DRAWN.search(text) is not None


def _went_on(first: object, own: object, then: Clocks, now: Clocks) -> bool:
    """Say whether two numbers are as far from what a clock showed in the process of each."""
    if not (then and now and type(first) is type(own) and _is_number(first) and _is_number(own)):
        return False
    if max(abs(first), abs(own)) > _LARGEST:  # some are no float
        return False
    # A whole number of so few seconds may be a count.
    unit = 1 if isinstance(own, float) and own % 1 else 10**9
    longest = max(then[0], now[0])
    # The first one's is as good a moment, where so little lies between them.
    if abs(own - first) / unit <= 2 * longest:
        return False
    return any(
        first / unit >= before and abs((own / unit - after) - (first / unit - before)) <= longest
        for before, after in zip(then[1:], now[1:], strict=True)
    )


def is_short(value: object) -> bool:
    """Say whether all that a container holds may be looked at each time."""
    return _values_in(value, _MANY, _MANY)[1]


def is_short_table(value: object) -> bool:
    """Say whether it holds a few lists: of many numbers, say, but not of as many texts, or rows."""
    found, is_whole = _values_in(value, _MANY, _FEW_ROWS)
    return is_whole and sum(issubclass(type(leaf), str) for leaf in found) <= _FEW_ROWS


def _values_in(value: object, most: int, times: int) -> tuple[list[object], bool]:
    """Return values in a container and those in it, and whether these are all; some have no end.

    Args:
        value: the container.
        most: values.
        times: that it is looked into one, or at a value beside others that are no plain ones.
    """
    left, found = [value], list[object]()
    for _ in range(times):
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


def _is_number(value: object) -> TypeGuard[int | float]:
    return (is_really(value, int) or is_really(value, float)) and not is_really(value, bool)

"""Values that belong to the process that made them: texts, paths, moments, numbers of a clock.

A resumed training has its own: another folder, another name of its log, another start of its time.
"""

import collections
import contextlib
import copy
import datetime
import enum
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, TypeGuard, cast

import numpy as np
import torch

from twinrun.checkpoint.of_process import is_child, is_drawn
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


def is_text_for_all(value: object) -> bool:
    """Say whether a value is a text, or a path, with nothing in it that this process has drawn."""
    if not (is_really(value, str) or is_really(value, PurePath)) or isinstance(value, enum.Enum):
        return False
    return not (is_drawn(f"{value}") or _is_moments(f"{value}"))


def is_moment(value: object) -> bool:
    """Say whether a value is a number of the calendar's clock: of now, of before, a deadline."""
    is_near = _is_number(value) and abs(value) < _LARGEST
    return is_near and any(abs(value / unit - time.time()) < _FAR for unit in _UNITS)


def is_of_calendar(value: object) -> bool:
    """Say whether a value is a day or a moment near now, a time of a day, or a name drawn here."""
    if issubclass(type(value), uuid.UUID):
        return is_drawn(f"{value}")
    if issubclass(type(value), datetime.time):
        return True
    seconds = None
    with contextlib.suppress(ValueError, OverflowError, OSError, TypeError):
        if issubclass(type(value), datetime.datetime):
            seconds = cast(datetime.datetime, value).timestamp()
        elif issubclass(type(value), datetime.date):
            seconds = time.mktime(cast(datetime.date, value).timetuple())
        elif issubclass(type(value), time.struct_time):
            seconds = time.mktime(cast(time.struct_time, value))
        elif issubclass(type(value), np.datetime64):
            seconds = float(cast(np.datetime64, value).astype("datetime64[s]").astype(np.int64))
    return seconds is not None and is_moment(seconds)


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
    if isinstance(first, collections.deque) and isinstance(own, collections.deque):
        several, is_own = with_own([*first], [*own], then, now)
        made = collections.deque(cast(list[object], several), first.maxlen)
        return (made, True) if is_own else (first, False)
    if type(first) is type(own) and isinstance(first, NAMESPACES):
        held, is_own = with_own(vars(first), vars(own), then, now)
        return (type(first)(**cast(dict[str, Any], held)), True) if is_own else (first, False)
    if type(first) is not type(own) or not (is_container(first) and is_container(own)):
        if isinstance(own, str | PurePath) and type(first) is type(own):
            text = _text_of(f"{first}", f"{own}")
            return (first, False) if text is None else (type(own)(text), True)
        is_own = _belongs(first, own) or _went_on(_number(first), _number(own), then, now)
        return (own, True) if is_own else (first, False)
    there, here = dict(entries(first)), dict(entries(own))
    # In a long list there are numbers of all sizes.
    if holds_plain(first) and not isinstance(first, dict) and size_of(first) > _FEW:
        there = {key: value for key, value in there.items() if isinstance(value, str)}
    new = here.keys() - there.keys()
    if isinstance(first, dict) and new and all(map(_is_key_of_process, new)):
        return own, True
    found = {key: with_own(there[key], here[key], then, now) for key in there.keys() & here.keys()}
    others = {key: value for key, (value, is_own) in found.items() if is_own}
    if not others:
        return first, False
    if not isinstance(first, dict):
        return type(first)(others.get(key, value) for key, value in entries(first)), True
    made = copy.copy(first)  # one of its class, in its order
    for key, value in others.items():
        dict.__setitem__(made, key, value)
    return made, True


def _belongs(first: object, own: object) -> bool:
    """Say whether a value of a process is a moment, or its number, or a child's."""
    if type(own) is not type(first):  # None is no moment that was
        return False
    is_its_number = type(own) is int and own >= _LEAST_NUMBER and own != first and is_child(own)
    return is_its_number or is_moment(own) or is_of_calendar(own)


def _is_key_of_process(key: object) -> bool:
    return is_drawn(key) if isinstance(key, str) else _belongs(0, key)


def _text_of(first: str, own: str) -> str | None:
    """Return a text as this process has it, where it is a moment's, or has a name that was drawn.

    Of a path the folders that were drawn: what lies in them is the first one's. And one of what is
    there now, and what the first one names is not.

    Returns:
        None where nothing of it is this process's.
    """
    if own == first:
        return None
    folders, others = own.split("/"), first.split("/")
    if len(folders) == len(others):
        pairs = zip(others, folders, strict=True)
        merged = "/".join(new if is_drawn(new) else old for old, new in pairs)
        if merged != first:
            return merged
    is_there = os.sep in own and os.path.exists(own)  # noqa: PTH110
    is_other = is_there and not os.path.exists(first)  # noqa: PTH110
    return own if is_other or is_drawn(own) or _is_moments(own) else None


def _is_moments(text: str) -> bool:
    """Say whether a text is that of a moment near now (`isoformat`)."""
    try:
        return is_moment(datetime.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        return False


def _number(value: object) -> object:
    """Return the number of a tensor, or array, of one."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic) and value.ndim == 0:
        return value.item()
    return value


def _went_on(first: object, own: object, then: Clocks, now: Clocks) -> bool:
    """Say whether two numbers are as far from what a clock showed in the process of each."""
    if not (then and now and type(first) is type(own) and _is_number(first) and _is_number(own)):
        return False
    if max(abs(first), abs(own)) > _LARGEST:  # some are no float
        return False
    # A whole number of so few seconds may be a count.
    units = _UNITS if isinstance(own, float) and own % 1 else _UNITS[1:]
    longest = max(then[0], now[0])
    return any(
        # The first one's is as good a moment, where so little lies between them.
        abs(own - first) / unit > 2 * longest
        and first / unit >= before
        and abs((own / unit - after) - (first / unit - before)) <= longest
        for before, after in zip(then[1:], now[1:], strict=True)
        for unit in units
    )


def is_short(value: object) -> bool:
    """Say whether all that a container holds may be looked at each time."""
    return _values_in(value, _MANY, _MANY)[1]


def in_short_table(value: object) -> list[object] | None:
    """Return what lies in a few lists: of many numbers, say; None if of as many texts, or rows."""
    found, is_whole = _values_in(value, _MANY, _FEW_ROWS)
    is_short = is_whole and sum(issubclass(type(leaf), str) for leaf in found) <= _FEW_ROWS
    return found if is_short else None


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


def _is_number(value: object) -> TypeGuard[int | float]:
    return (is_really(value, int) or is_really(value, float)) and not is_really(value, bool)

"""What of a value belongs to the process that made it: another one has another, and trains alike.

A folder that it has made for a while, a moment, its own number, a random name, an address.
"""

import datetime
import functools
import os
import re
import tempfile
import time
import uuid
from pathlib import Path

_SECONDS = (time.time, time.perf_counter, time.monotonic)
_NANOSECONDS = (time.time_ns, time.perf_counter_ns, time.monotonic_ns)
# The workload is read later.
_BEGAN = {clock: clock() for clock in (*_SECONDS, *_NANOSECONDS)}
_RANDOM = r"[^/'\"]*[a-z0-9_]{8}[^/'\"]*"  # as `tempfile` names files and folders
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_KNOWN = "what belongs to the process"


def without_process(text: str) -> str:
    """Leave out of a text the temporary folders that this process has made, and addresses.

    >>> without_process("<object at 0x7f3a00>"), without_process("train")
    ('<object at>', 'train')
    """
    for folder in _folders(tempfile.gettempdir()):
        if folder in text:
            text = re.sub(f"{re.escape(folder)}/{_RANDOM}", _temporary, text)
    return _ADDRESS.sub("at", text) if " at 0x" in text else text


@functools.cache
def _folders(temporary: str) -> set[str]:
    return {temporary, os.path.realpath(temporary)}


def _temporary(found: re.Match[str]) -> str:
    return "<temporary>" if _is_made_here(found[0]) else found[0]


@functools.cache
def _is_made_here(path: str) -> bool:
    """Say whether it was made since this process began, or is gone again."""
    try:
        # Whole seconds: the clock of a file system may be a coarser one.
        return int(Path(path).stat().st_ctime) >= int(_BEGAN[time.time])
    except OSError:
        return True


def content_without_process(value: object, *, is_inside: bool) -> str:
    """Write down a plain value, without what in it belongs to the process.

    Args:
        value: a number, a text, a date or a random name (`uuid`).
        is_inside: of a container, where a random name may be that of a sample.
    """
    is_name = isinstance(value, uuid.UUID) or (isinstance(value, str) and _is_random(value))
    if (is_name and not is_inside) or _is_moment(value):
        return _KNOWN
    if type(value) is int and value == os.getpid():
        return _KNOWN
    return without_process(repr(value))


def _is_random(text: str) -> bool:
    try:
        return uuid.UUID(text).version == 4
    except ValueError:
        return False


def _is_moment(value: object) -> bool:
    """Say whether a clock has shown it since this process began."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return False
    if isinstance(value, datetime.datetime):
        began = _BEGAN[time.time]
        zones = (None, datetime.UTC) if value.tzinfo is None else (value.tzinfo,)
        for zone in zones:
            first = datetime.datetime.fromtimestamp(began, zone).replace(tzinfo=None)
            last = datetime.datetime.now(zone).replace(tzinfo=None)
            if first <= value.replace(tzinfo=None) <= last:
                return True
        return False
    if type(value) is int:
        is_second = int(_BEGAN[time.time]) <= value <= time.time()
        return is_second or any(_BEGAN[clock] <= value <= clock() for clock in _NANOSECONDS)
    # Soon after the machine was started a number that somebody has set is one of seconds, too.
    is_round = type(value) is float and round(value, 3) == value
    is_between = type(value) is float and any(_BEGAN[c] <= value <= c() for c in _SECONDS)
    return is_between and not is_round

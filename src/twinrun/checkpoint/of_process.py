"""What of a value belongs to the process that made it: another one has another, and trains alike.

A folder that it has made for a while, a moment, its own number, a random name, an address.
"""

import datetime
import functools
import os
import random
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import xxhash

_SECONDS = (time.time, time.perf_counter, time.monotonic)
_NANOSECONDS = (time.time_ns, time.perf_counter_ns, time.monotonic_ns)
# The workload is read later.
_BEGAN = {clock: clock() for clock in (*_SECONDS, *_NANOSECONDS)}
_NAMES: set[str] = set()  # which `tempfile` has drawn for files and folders in this process
_LONG = 8  # letters of such a one
_DRAWN: set[str] = set()  # how what the operating system has drawn begins, in hexadecimal digits
_SHORT, _LONGEST_DRAW = 6, 64  # digits, bytes
_FEW_DRAWN, _MOST_DRAWN = 512, 10_000  # of six, and of eight digits
_DIGITS = [re.compile(rf"(?=([0-9a-f]{{{count}}}))") for count in (_SHORT, _LONG)]
_HEX = ("8", "4", "4", "4", "12")
_UUID = re.compile("-?".join(f"[0-9a-f]{{{count}}}" for count in _HEX))
_MOST_READ, _MOST_FILES = 1 << 12, 64  # bytes where a file begins and ends; files of a folder
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_KNOWN = "what belongs to the process"


def _note_draws() -> None:
    """Note what is drawn from the operating system: a `uuid4`, a token, a seed."""
    drawn = os.urandom

    def noted(size: int, /) -> bytes:
        found = drawn(size)
        if len(_DRAWN) < _MOST_DRAWN and size <= _LONGEST_DRAW:
            # Of many draws six digits are those of one by chance.
            digits = _LONG if len(_DRAWN) > _FEW_DRAWN else _SHORT
            _DRAWN.update(found.hex()[:count] for count in {digits, _LONG})
        return found

    os.urandom = random._urandom = noted  # pyrefly: ignore[missing-attribute]


def _note_names() -> None:
    names = tempfile._RandomNameSequence  # pyrefly: ignore[missing-attribute]
    drawn = names.__next__

    def noted(self: Any) -> str:
        name = drawn(self)
        _NAMES.add(name)
        return name

    names.__next__ = noted


_note_names()  # nothing tells later which part of a name was drawn
_note_draws()


def without_process(text: str) -> str:
    """Leave out of a text the temporary folders that this process has made, and addresses.

    What a file that it has made there holds stands in their place: a name is none of a process's
    for lying there, and several that were drawn may have one each.

    >>> without_process("<object at 0x7f3a00>"), without_process("train")
    ('<object at>', 'train')
    """
    for folder in _folders(tempfile.gettempdir()):
        if folder in text:
            text = re.sub(f"({re.escape(folder)}/)([^'\"]*)", _temporary, text)
    return _ADDRESS.sub("at", text) if " at 0x" in text else text


@functools.cache
def _folders(temporary: str) -> set[str]:
    return {temporary, os.path.realpath(temporary)}


def _temporary(found: re.Match[str]) -> str:
    folder, rest = found.groups()
    if not _is_made_here(f"{folder}{rest.partition('/')[0]}"):
        return found[0]
    for name in _drawn_in(rest):
        rest = rest.replace(name, "<drawn>")
    return f"<temporary>/{_UUID.sub('<drawn>', rest)}{_content_of(Path(found[0]))}"


def is_temporary(path: str) -> bool:
    """Say whether `tempfile` has drawn a name in it in this process."""
    return bool(_drawn_in(path))


def is_drawn(text: str) -> bool:
    """Say whether a text has a name, or hexadecimal digits, that this process has drawn.

    >>> is_drawn(f"run-{uuid.uuid4().hex[:8]}"), is_drawn("run-3fa85f64")
    (True, False)
    """
    digits = {found[1] for each in _DIGITS for found in each.finditer(text.replace("-", ""))}
    return is_temporary(text) or not digits.isdisjoint(_DRAWN)


def is_child(number: int) -> bool:
    """Say whether it is the number of this process, or of one that it has started."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it is none, or no Linux
        return number == os.getpid()
    parent = stat.rpartition(")")[2].split()[1]
    return number == os.getpid() or parent == str(os.getpid())


def _drawn_in(text: str) -> set[str]:
    return {text[start:][:_LONG] for start in range(len(text) - _LONG + 1)} & _NAMES


def _content_of(path: Path) -> str:
    """Write down where a file begins and ends; of a folder those of its first files."""
    content = xxhash.xxh3_64()
    try:
        found = _files_in(path) if path.is_dir() else iter([path])
        files = [file for file in islice(found, _MOST_FILES) if file.is_file()]
        for file in files:
            size = file.stat().st_size
            with file.open("rb") as opened:
                content.update(f"{size}".encode() + opened.read(_MOST_READ))
                opened.seek(max(0, size - _MOST_READ))
                content.update(opened.read(_MOST_READ))
    except (OSError, ValueError):  # it is gone again, or no path
        return ""
    return f" {content.hexdigest()}" if files else ""


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder in their order, and then those of folders in it."""
    for inside, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(inside, name) for name in sorted(names))


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

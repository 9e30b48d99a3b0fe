"""Plain values of attributes, and sets of these: as bytes that hold data alone, and put back."""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from twinrun.checkpoint.held_content import Part, held, made_again
from twinrun.checkpoint.held_memory import NOTHING_KNOWN
from twinrun.checkpoint.late_put import put
from twinrun.checkpoint.users_code import attributes_seen, is_plain, is_set

MOST_BYTES = 1 << 24  # of all that are held


class PlainValue(NamedTuple):
    """One of them."""

    called: str
    """Where it lies, by its number and its name."""
    owner: object
    """What has it."""
    name: str
    """Its name there."""
    value: object
    """What it is now."""
    was: object
    """What it was before data were read; of a set its members."""

    @property
    def key(self) -> tuple[int, str]:
        """The identity of its owner, and its name there."""
        return id(self.owner), self.name

    @property
    def kept(self) -> object:
        """What it is now; of a set a list of its members."""
        return [*self.value] if isinstance(self.value, set) else self.value

    @property
    def first(self) -> object:
        """What it was, in the same way."""
        return [*self.was] if isinstance(self.was, frozenset) else self.was

    @property
    def is_changed(self) -> bool:
        """Whether it is another one."""
        if isinstance(self.was, frozenset):
            return self.value != self.was
        return _text(self.value) != _text(self.was)

    def few(self) -> str:
        """Return what it is by now, in a few words; of a set how many it has."""
        value = attributes_seen(self.owner).get(self.name)
        return str(len(value)) if isinstance(value, set) else _text(value)


def bytes_of(values: Mapping[str, object]) -> torch.Tensor | None:
    """Write values down by their names; None if there are none.

    Raises:
        UnheldError: if one belongs to the process, or they are too large.
    """
    if not values:
        return None
    parts = [Part(called, (), value) for called, value in values.items()]
    raw = held(parts, NOTHING_KNOWN, MOST_BYTES)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def made(data: torch.Tensor | None) -> dict[str, object]:
    """Make values again of what `bytes_of` returned."""
    if data is None:
        return {}
    parts = made_again(data.numpy().tobytes(), _nothing_known, lambda *_: None)
    return {part.called: part.value for part in parts}


def _nothing_known(name: str) -> object:
    raise KeyError(name)


def is_like(value: object, was: object) -> bool:
    """Say whether a value is plain as one before was, or a set as that was one."""
    if isinstance(was, frozenset):
        return is_set(value)
    return value is None or is_plain(value)


def put_value(owners: Mapping[str, object], each: PlainValue, value: object) -> None:
    """Have an attribute hold a value, and of a set the members that a list names."""
    own = each.value
    if isinstance(value, list) and type(own) is set:  # others may hold it too
        own.clear()
        own.update(value)
    else:
        put(owners, Part(each.called, (), value))


def is_same(one: object, other: object) -> bool:
    """Say whether two values are the same; of sets there are lists.

    >>> is_same([2, 1], [1, 2]), is_same(True, 1), is_same(float("nan"), float("nan"))
    (True, False, True)
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and {*one} == {*other}
    return _text(one) == _text(other)


def _text(value: object) -> str:
    """Write a value down, as a NaN is not itself, and True is not 1."""
    return f"{type(value).__name__} {value!r}"


def turn_of(called: str) -> int:
    """Return the number by which a name begins.

    >>> turn_of("2 Rows.count")
    2
    """
    return int(called.partition(" ")[0])


def shown(called: str) -> str:
    """Return a name without that."""
    return called.partition(" ")[2]

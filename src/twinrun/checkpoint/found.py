"""What a walk of functions and objects comes to."""

from typing import NamedTuple


class Holder(NamedTuple):
    """A container, an object or a function: it may be exchanged for another one."""

    value: object
    """What it is."""


class Order(NamedTuple):
    """A dictionary's: there may be more entries later."""

    keys: dict[object, None]
    """In their order."""


class Length(NamedTuple):
    """A container's that is too long to be looked at."""

    entries: int
    """How many there are."""


class Found(NamedTuple):
    """A generator, an iterator, a plain value, a tensor or an array, or one of the above."""

    owner: object
    """What holds it."""
    name: str
    """What it is called."""
    value: object
    """What it is."""
    is_of_library: bool = False
    """Whether an object of a library holds it, which keeps what it has computed, say."""

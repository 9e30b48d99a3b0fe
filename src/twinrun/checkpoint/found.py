"""What a walk of functions and objects comes to."""

from typing import NamedTuple

from twinrun.checkpoint.long_containers import Sample


class Holder(NamedTuple):
    """A container, an object or a function: it may be exchanged for another one."""

    value: object
    """What it is."""


class Order(NamedTuple):
    """A dictionary's: there may be more entries later."""

    keys: dict[object, None]
    """In their order."""


class Length(NamedTuple):
    """A container's that is too long to be walked."""

    container: object
    """It."""
    entries: int
    """How many there are."""
    sample: Sample
    """Of them."""

    def is_other(self, now: "Length") -> bool:
        """Say whether there are more or less of them now, or others."""
        return self.entries != now.entries or self.sample.is_other(now.sample)


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

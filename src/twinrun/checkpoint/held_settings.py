"""What objects of libraries that can be called were made with: a layer, a transform.

Numbers of theirs are left out elsewhere, as they may count. One that comes into another one's place
is another one if these differ.
"""

from typing import Any, NamedTuple

from twinrun.checkpoint.users_code import attributes_seen, is_code, is_users
from twinrun.containers import entries, is_container, size_of

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST, _DEEPEST = 64, 4  # entries of a container, and objects inside each other


class Settings(NamedTuple):
    """Of an object, as they are now."""

    value: object
    """It."""
    plain: list[str]
    """Plain values, with the names of their attributes."""
    inside: "list[Settings]"
    """Of others of its kind that lie in it."""

    def is_like(self, other: "Settings") -> bool:
        """Say whether they are those of the same object, or the same."""
        if self.value is other.value:
            return True
        is_one = type(self.value) is type(other.value) and self.plain == other.plain
        return (
            is_one
            and len(self.inside) == len(other.inside)
            and all(mine.is_like(its) for mine, its in zip(self.inside, other.inside, strict=True))
        )


def settings_of(value: object, deeper: int = _DEEPEST) -> Settings | None:
    """Return those of a library's object that can be called, None of any other value."""
    is_one = callable(value) and not is_code(value) and not is_users(type(value).__module__)
    if not is_one or not deeper:
        return None
    found = Settings(value, [], [])
    for name, item in attributes_seen(value).items():
        for each in _entries(item):
            if type(each) in _PLAIN:
                found.plain.append(f"{name} {each!r}")
            elif (inside := settings_of(each, deeper - 1)) is not None:
                found.inside.append(inside)
    return found


def _entries(item: Any) -> list[object]:
    is_short = is_container(item) and size_of(item) <= _MOST
    return [each for _, each in entries(item)] if is_short else [item]

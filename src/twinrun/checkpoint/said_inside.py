"""What a state holds of an attribute, also of what can be called and lies in objects there.

A walk of values passes over that, as over a function.
"""

from collections.abc import Container, Iterator

from twinrun.checkpoint.held_by_called import MOST
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.users_code import attributes_seen, is_called_object, is_users


def said_inside(state: OwnState, name: str, value: object, held: Container[int] = ()) -> list[bool]:
    """Say of each value that lies in an attribute whether a state holds it.

    Args:
        state: of the attribute's owner.
        name: of the attribute.
        value: of it.
        held: the identities of what is held anyway.
    """
    several = [("", value), *_called_inside(value, held)]
    return [
        is_said for path, each in several for *_, is_said in state.seen_in(name, each, path, held)
    ]


def _called_inside(value: object, held: Container[int]) -> Iterator[tuple[str, object]]:
    """Yield what can be called and holds something in attributes of an object, by its path."""
    left, seen = [("", value)], dict[int, object]()
    while left and len(seen) < MOST:
        where, each = left.pop()
        if id(each) in seen or not is_users(type(each).__module__):
            continue
        seen[id(each)] = each
        for name, item in attributes_seen(each).items():
            if id(item) not in held and is_called_object(item):
                left.append((f"{where}.{name}", item))
                yield left[-1]

"""Guards that torch's tracer leaves out, added where it looks at a value.

Of some holders it takes for granted what they held (seen in torch 2.11 to 2.13): that an
`OrderedDict` or a `defaultdict` is empty, where code asks only that; in which order an
`OrderedDict` is, behind `move_to_end`; which names the maps of a `ChainMap` have; what is in a set
of objects. A graph then keeps what was so. With a guard torch compiles anew, as for a list.

The classes whose attributes it reads are noted as well, for `unguarded` to look at.
"""

import collections
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import _get_closure_vars
from torch._dynamo.variables.builder import VariableBuilder

from twinrun.containers import is_really, is_unordered
from twinrun.process.users_code import is_users

Look = Callable[[Any], object]
_NAME = "_wrap"  # not public: makes what stands for a value of the user's in a trace
_classes: dict[type, None] = {}
_numbers = itertools.count()


@contextmanager
def traced_with_guards() -> Iterator[None]:
    """Have torch's tracer guard what such a holder held, and note the classes of what it sees."""
    before = vars(VariableBuilder)[_NAME]

    def wrapped(self: Any, value: Any) -> object:
        _check(value)
        found = before(self, value)
        _note(value if is_really(value, type) else type(value))
        if (look := _look_at(value)) is not None:
            self.install_guards(_guard(look, look(value)))
        return found

    setattr(VariableBuilder, _NAME, wrapped)
    try:
        yield
    finally:
        setattr(VariableBuilder, _NAME, before)


def noted_classes() -> list[type]:
    """Return the user's classes that were looked at since this was last asked."""
    found = list(_classes)
    _classes.clear()
    return found


def _note(kind: type) -> None:
    for each in type.__dict__["__mro__"].__get__(kind):
        if is_users(vars(each).get("__module__")):
            _classes[each] = None


def _check(value: Any) -> None:
    """Leave to Python what torch's tracer gets wrong: it finds by identity what is equal."""
    items: Iterable[object] = ()
    if is_really(value, set):
        items = set.copy(value)
    elif is_really(value, dict):
        items = dict.keys(value)
    if kind := next((type(item) for item in items if _has_own_hash(type(item))), None):
        unimplemented(
            gb_type="items with a hash of their own",
            context=kind.__name__,
            explanation=f"torch's tracer does not find a {kind.__name__} by its own `__hash__`.",
            hints=[],
        )


def _has_own_hash(kind: type) -> bool:
    found = kind.__hash__
    # A frozen dataclass's it knows.
    parameters = getattr(kind, "__dataclass_params__", None)
    is_known = parameters is not None and parameters.frozen
    is_own = isinstance(found, types.FunctionType) and is_users(found.__module__)
    return is_own and not is_known


def _look_at(value: object) -> Look | None:
    """Return what gives the part of a value that torch takes for granted; None for most."""
    if is_really(value, collections.OrderedDict):
        return _order
    if is_really(value, collections.defaultdict):
        return _has_any
    if is_really(value, collections.ChainMap):
        return _names
    if is_really(value, set) and (is_unordered(value) or not set.__len__(value)):
        return _Same
    return None


def _has_any(value: dict[object, object]) -> bool:
    return dict.__len__(value) > 0


def _order(value: collections.OrderedDict[object, object]) -> object:
    """Return if there is anything, and the order of its keys where `move_to_end` has changed it.

    Of the order in which keys came torch has guards of its own.
    """
    moved = _Same(collections.OrderedDict.keys(value))
    return _has_any(value), None if moved == _Same(dict.keys(value)) else moved


def _names(value: collections.ChainMap[object, object]) -> list[frozenset[object]]:
    return [frozenset(each) for each in value.maps]


class _Same:
    """Items that are compared by what they are, whatever their class says of being equal."""

    def __init__(self, items: Any) -> None:
        # Kept, so that no other gets the number of one.
        self._items = set.copy(items) if is_really(items, set) else list(items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        mine, theirs = map(id, self._items), map(id, other._items)
        if isinstance(self._items, set):
            return set(mine) == set(theirs)
        return list(mine) == list(theirs)

    __hash__ = None  # pyrefly: ignore[bad-override]


def _guard(look: Look, known: object) -> Callable[[Any, Any], None]:
    def holds(value: object) -> bool:
        return look(value) == known

    def held(builder: Any, guard: Any) -> None:
        # At the root, for torch's own guards of a dictionary take no further one beside them.
        name = f"___holds_{next(_numbers)}"
        builder.add_python_lambda_leaf_guard_to_root(
            [f"{name}({builder.arg_ref(guard)})"],
            [f"{guard.name} holds what it held"],
            closure_vars={**_get_closure_vars(), name: holds},
        )

    return held

"""What the `state_dict` of an object's own class says of its attributes: it may leave some out.

That there is one is no proof that it says everything: an average is saved, and the count by which
it warms up is not. Said is a value that the state holds under its attribute's own name, or under
another one if the state is not the same without the attribute, or loading sets it.
"""

import copy
import dis
import functools
import inspect
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.looks import UNSEEN, look_at_leaf
from twinrun.checkpoint.plain_data import is_plain
from twinrun.checkpoint.stateful import begins_if_asked
from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users, names_in
from twinrun.containers import set_attribute_of
from twinrun.generators import state_of, times_spawned
from twinrun.hidden_content import Flat
from twinrun.values_inside import values_in

SAID = "said "  # before a value that a state holds
_METHODS = ("state_dict", "load_state_dict")
_ANY = {"__dict__", "vars", "getattr", "setattr"}  # by these code comes to all attributes
# So a walk writes them, and a state has a text, or another container.
_PATH, _EMPTY = "the path ", "empty list"
_KEY = re.compile(r"\['([^']*)'\]|\.([^\W\d]\w*)")
_MANY = ("torch.", "ndarray ", "Flat ")  # which are hardly alike by chance
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict, Counter)
_EMPTIES = frozenset(f"empty {kind.__name__}" for kind in _CONTAINERS)
MAY_GO = frozenset(look_at_leaf(leaf) for leaf in (None, _EMPTY))
"""What may be another thing later: a part of the training, a function."""


class Said(str):
    """The text of a value that a state holds."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return it as what it is."""
        return f"{SAID}{self}"


def is_other(then: str | None, now: str | None) -> bool:
    """Say whether a value is another one, and no state holds what it is now.

    >>> is_other("1", "2"), is_other("1", "said 2"), is_other("said 1", "1"), is_other("1", None)
    (True, False, False, True)
    """
    last = now or then or ""
    return not last.startswith(SAID) and (then or "").removeprefix(SAID) != (now or "")


class OwnState:
    """The state of an object, and which of its attributes that has."""

    def __init__(self, owner: Any) -> None:
        """Ask for it; to save what raises fails by itself.

        Args:
            owner: has a `state_dict`.
        """
        self._owner, self._found = owner, dict[str, str]()
        state = None
        with suppress(Exception):  # of whatever class
            if not begins_if_asked(owner):
                state, self._found = _state_of(owner)
        # Of what loads one there is none yet.
        self.is_nothing = state == {} and not _loads_a_state(owner)
        """Whether it says that nothing is to be kept."""
        self._keys: dict[str, list[set[str]]] = {}  # under which it has a value
        for path, seen in self._found.items():
            self._keys.setdefault(seen, []).append(set(keys_in(path)))
        self._attributes, self._read = {*attributes_seen(owner)}, dict[str, bool]()
        self._set: dict[str, set[tuple[str, str]]] = {}  # by loading it, of an attribute

    def says(self, name: str, seen: str, rest: str = "", times: int = 1) -> bool:
        """Say whether it holds a value of an attribute.

        Most states have a 0, a 1 and a True: they may be those of another attribute.

        Args:
            name: of the attribute.
            seen: the value, as `values_seen` writes it.
            rest: of its path, where it lies inside.
            times: as often as the attribute has it.
        """
        return self.is_nothing or self._holds(name, seen, rest, times)

    def holds_all(self, name: str, value: object) -> bool:
        """Say whether it holds all values of an attribute."""
        found = [*values_seen(value, "")]
        times = Counter(seen for _, seen in found)
        return all(self._holds(name, seen, rest, times[seen]) for rest, seen in found)

    def holds_generator(self, name: str, generator: object) -> bool:
        """Say whether it holds all that a generator in an attribute draws by."""
        state = state_of(generator)
        # How many others it has begun stands beside its state.
        is_all = state is not None and not times_spawned(generator)
        return is_all and self.holds_all(name, state)

    def _holds(self, name: str, seen: str, rest: str, times: int) -> bool:
        there = self._keys.get(seen, [])
        if seen.startswith(_MANY):
            is_there = bool(there) and (any(name in keys for keys in there) or self._reads(name))
            return is_there or (rest, seen) in self._loaded(name)  # a list may be there of it
        called = [name, *keys_in(rest)]
        others = self._attributes - {*called}
        free = [keys for keys in there if keys.isdisjoint(others)]
        # One of an object inside may be called alike.
        if any(called[-1] in keys and keys.issubset(called) for keys in free):
            return True
        # Others are asked last, and as seldom as can be: a `state_dict` may write to a file.
        is_read = len(free) >= times and self._reads(name)
        return is_read or (bool(there) and (rest, seen) in self._loaded(name))

    def _reads(self, name: str) -> bool:
        """Say whether the state is another one without an attribute."""
        if name not in self._read:
            is_own = name in attributes_seen(self._owner)
            # By its code where nothing can be tried, or a clock is in it.
            is_tried = is_own and self._is_steady
            named = names_of_state(self._owner) or ()
            self._read[name] = self._without(name) != self._found if is_tried else name in named
        return self._read[name]

    @functools.cached_property
    def _is_steady(self) -> bool:
        """Whether another one with the same attributes has the same state."""
        return self._without(None) == self._found

    def _without(self, name: str | None) -> dict[str, str] | None:
        """Return the values in the state of another such object; None if it has none."""
        try:
            attributes = attributes_seen(self._owner).items()
            other = self._another({key: value for key, value in attributes if key != name})
            return _state_of(other)[1]
        except Exception:  # of whatever class
            return None

    def _loaded(self, name: str) -> set[tuple[str, str]]:
        """Return the values of an attribute of another one that loads the state.

        It has of the other attributes plain data alone: what is done to it shows nowhere else.
        """
        if name not in self._set:
            self._set[name] = set()
            if begins_if_asked(self._owner):
                return self._set[name]
            with suppress(Exception):  # of whatever class
                own = attributes_seen(self._owner)
                attributes = {k: v for k, v in own.items() if k != name}
                plain = {key: value for key, value in attributes.items() if is_plain(value)}
                other = self._another(copy.deepcopy(plain))
                with isolate_rng():
                    other.load_state_dict(copy.deepcopy(self._owner.state_dict()))
                self._set[name] = {*values_seen(attributes_seen(other)[name], "")}
        return self._set[name]

    def _another(self, attributes: dict[str, object]) -> Any:
        if hasattr(type(self._owner), "__del__"):  # by which it would close what is not its own
            raise TypeError
        other = object.__new__(type(self._owner))
        for name, value in attributes.items():
            set_attribute_of(other, name, value)
        return other


def _loads_a_state(owner: Any) -> bool:
    """Say whether `load_state_dict` reads what it is given: that of Lightning's callbacks does not.

    Of a class that does so an empty state is none that there is not yet: an average begins late.
    """
    code = getattr(inspect.unwrap(getattr(type(owner), "load_state_dict", len)), "__code__", None)
    if code is None:
        return True
    given = {*code.co_varnames[1:], *code.co_cellvars}
    # Newer versions of Python load two at once.
    return any(
        not given.isdisjoint(step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
        if step.opname.startswith("LOAD_")
    )


def _state_of(owner: Any) -> tuple[object, dict[str, str]]:
    with isolate_rng():
        state = owner.state_dict()
    return state, dict(values_seen(state, ""))


def keys_in(path: str) -> list[str]:
    """Return the names in a path.

    >>> keys_in("['ema'].rates[2]['a.b'][0]")
    ['ema', 'rates', 'a.b']
    """
    return [key or name for key, name in _KEY.findall(path)]


def names_of_state(owner: object) -> set[str] | None:
    """Return what the code of an object's state names; None if that may be any attribute."""
    bases = [base for base in type(owner).__mro__ if is_users(base.__module__)]
    functions = functions_behind(bases, _METHODS)
    names = {name for function in functions for name in names_in(function.__code__)}
    # Of the code of a library nothing is read.
    return None if not bases or _ANY & names else names


def functions_behind(bases: Sequence[type], methods: Sequence[str]) -> Iterator[types.FunctionType]:
    """Yield methods of classes, and the methods and functions that these name."""
    seen: set[int] = set()
    left = [member for name in methods for member in _members(bases, name)]
    while left:
        for function in functions_in(left.pop()):
            if isinstance(function, types.FunctionType) and id(function) not in seen:
                seen.add(id(function))
                yield function
                names = set(names_in(function.__code__))
                left += [member for name in names for member in _members(bases, name)]
                known = function.__globals__ if is_users(function.__module__) else {}
                left += [known[name] for name in names & known.keys()]


def _members(bases: Sequence[type], name: str) -> list[object]:
    return [vars(base)[name] for base in bases if name in vars(base)]


def values_seen(
    value: object, path: str, held: Container[int] = (), *, only_users: bool = False
) -> Iterator[tuple[str, str]]:
    """Write down what lies in an attribute, by its path; see `values_in`."""
    for where, leaf in values_in(value, path, held, is_users=is_users, only_users=only_users):
        if not (seen := seen_as(leaf)).startswith(UNSEEN):
            yield where, seen


def seen_as(leaf: object) -> str:
    """Write down what lies in an attribute as a state would have it."""
    return look_at_leaf(_plain(leaf))


def _plain(leaf: object) -> object:
    """Return a leaf as one of another kind would be: a state has a number of a tensor of one."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.dtype.isnative:
        leaf = torch.from_numpy(np.ascontiguousarray(leaf))
    if isinstance(leaf, torch.Tensor | np.generic):
        leaf = leaf.detach() if isinstance(leaf, torch.Tensor) else leaf
        is_one = isinstance(leaf, np.generic) or (not leaf.is_meta and leaf.dim() == 0)
        return leaf.item() if is_one else leaf
    if isinstance(leaf, Flat):
        return replace(leaf, kind="")  # a state has a list of a queue
    if isinstance(leaf, str):
        return _EMPTY if leaf in _EMPTIES else leaf.removeprefix(_PATH)
    return leaf

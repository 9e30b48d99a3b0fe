"""What the `state_dict` of an object's own class says of its attributes: it may leave some out.

That there is one is no proof that it says everything: an average is saved, and the count by which
it warms up is not. Said is a value that the state holds under its attribute's own name, or under
another one if the state is not the same without the attribute, or loading sets it.
"""

import copy
import functools
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.looks import UNSEEN, look_at_leaf
from twinrun.checkpoint.plain_data import is_plain
from twinrun.checkpoint.state_code import loads_a_state, may_say, names_of_state
from twinrun.checkpoint.stateful import begins_if_asked
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import set_attribute_of
from twinrun.generators import state_of, times_spawned
from twinrun.hidden_content import Flat
from twinrun.values_inside import values_in

SAID = "said "  # before a value that a state holds
# So a walk writes them, and a state has a text, or another container.
_PATH, _EMPTY = "the path ", "empty list"
_KEY = re.compile(r"\['([^']*)'\]|\.([^\W\d]\w*)")
_FLAT = "Flat "
_SEVERAL = 16  # values of an attribute that a state may have in one list
_MANY = ("torch.", "ndarray ", _FLAT)  # which are hardly alike by chance
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict, Counter)
_CLASS = re.compile(rf"\b({'|'.join(kind.__name__ for kind in _CONTAINERS)})\.")  # in a path
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
        self._state: object = None
        with suppress(Exception):  # of whatever class
            if not begins_if_asked(owner):
                self._state, self._found = _state_of(owner)
        # Of what loads one there is none yet; an optimizer or a schedule has one.
        trains = callable(getattr(type(owner), "step", None))
        self.is_nothing = self._state == {} and not (trains or loads_a_state(owner))
        """Whether it says that nothing is to be kept."""
        self._keys = _keys_of(self._found)  # under which it has a value
        self._attributes, self._read = {*attributes_seen(owner)}, dict[str, bool]()
        self._set: dict[tuple[str, bool], set[tuple[str, str]]] = {}  # so, of an attribute

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

    def holds_all(self, name: str, value: object, held: Container[int] = ()) -> bool:
        """Say whether it holds all values of an attribute, but for those of what is held anyway."""
        return all(is_said for *_, is_said in self.seen_in(name, value, held=held))

    def seen_in(
        self,
        name: str,
        value: object,
        path: str = "",
        held: Container[int] = (),
        *,
        only_users: bool = False,
    ) -> list[tuple[str, str, bool]]:
        """Write down what lies in an attribute, and whether it holds that; see `values_seen`."""
        found = [*values_seen(value, path, held, only_users=only_users)]
        rests = [where.removeprefix(path) for where, _ in found]
        # So `leaves` names one of many.
        if len(found) > _SEVERAL and any(" " in rest for rest in rests) and self._may_have(name):
            return self._told_singly(name, path, found)
        times = Counter(seen for _, seen in found)
        told = [
            (where, seen, self._holds(name, seen, rest, times[seen]))
            for (where, seen), rest in zip(found, rests, strict=True)
        ]
        is_flat = any(seen.startswith(_FLAT) for _, seen in found)
        is_of_flat = len(found) > _SEVERAL and any(seen.startswith(_FLAT) for seen in self._keys)
        is_left = not all(is_said for *_, is_said in told)
        if not (is_left and (is_flat or is_of_flat) and self._may_have(name)):
            return told
        # A state may have them in another form: each is asked for. Of a list it has to have all,
        # as a part may be its end.
        found = [*values_seen(value, path, held, only_users=only_users, singly=True)]
        singly = self._told_singly(name, path, found)
        return told if is_flat and not all(is_said for *_, is_said in singly) else singly

    def _told_singly(
        self, name: str, path: str, found: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str, bool]]:
        """Ask for each of many values: where loading sets it, else as often as it is there."""
        if there := self._loaded(name, singly=True):
            anywhere = {(_CLASS.sub("", rest), seen) for rest, seen in there}
            spots = [(_CLASS.sub("", where.removeprefix(path)), seen) for where, seen in found]
            said = [spot in anywhere for spot in spots]
        else:
            left = Counter(seen for _, seen in values_seen(self._state, "", singly=True))
            times = Counter(seen for _, seen in found)
            said = [left[seen] >= times[seen] for _, seen in found]
        return [(*each, is_said) for each, is_said in zip(found, said, strict=True)]

    def _may_have(self, name: str) -> bool:
        """Say whether it may have the values of an attribute."""
        named = (keys for several in self._keys.values() for keys in several)
        return any(name in keys for keys in named) or self._reads(name)

    def holds_generator(self, name: str, generator: object) -> bool:
        """Say whether it holds all that a generator in an attribute draws by."""
        state = state_of(generator)
        # How many others it has begun stands beside its state.
        is_all = state is not None and not times_spawned(generator)
        return is_all and self.holds_all(name, state)

    def _holds(self, name: str, seen: str, rest: str, times: int) -> bool:
        is_single = " " in rest  # so `leaves` names one of many
        there = (self._keys_singly if is_single else self._keys).get(seen, [])
        if seen.startswith(_MANY):
            is_there = bool(there) and (any(name in keys for keys in there) or self._reads(name))
            # A list may be there of it.
            return is_there or (rest, seen) in self._loaded(name, singly=is_single)
        called = [name, *keys_in(rest)]
        others = self._attributes - {*called}
        free = [keys for keys in there if keys.isdisjoint(others)]
        # One of an object inside may be called alike, and be another attribute's.
        alike = [keys for keys in free if called[-1] in keys and keys.issubset(called)]
        if any(name in keys for keys in alike) or (alike and self._reads(name)):
            return True
        # Others are asked last, and as seldom as can be: a `state_dict` may write to a file.
        may_be = len(free) >= times and may_say(self._owner, name, called[1:])
        is_read = may_be and self._reads(name)
        return is_read or (bool(there) and (rest, seen) in self._loaded(name, singly=is_single))

    @functools.cached_property
    def _keys_singly(self) -> dict[str, list[set[str]]]:
        """Under which it has each value of many."""
        return _keys_of(dict(values_seen(self._state, "", singly=True)))

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
        """Return what lies in the state of another such object; None if it has none."""
        try:
            attributes = attributes_seen(self._owner).items()
            other = self._another({key: value for key, value in attributes if key != name})
            return _state_of(other)[1]
        except Exception:  # of whatever class
            return None

    def _loaded(self, name: str, *, singly: bool) -> set[tuple[str, str]]:
        """Return the values of an attribute of another one that loads the state.

        It has of the other attributes plain data alone: what is done to it shows nowhere else.
        """
        if (name, singly) not in self._set:
            self._set[name, singly] = set()
            if begins_if_asked(self._owner):
                return self._set[name, singly]
            # One that is filled has to be there.
            for begins_with in ({}, self._emptied(name)):
                with suppress(Exception):  # of whatever class
                    own = attributes_seen(self._owner)
                    attributes = {k: v for k, v in own.items() if k != name and is_plain(v)}
                    other = self._another({**copy.deepcopy(attributes), **begins_with})
                    with isolate_rng():
                        other.load_state_dict(copy.deepcopy(self._owner.state_dict()))
                    found = values_seen(attributes_seen(other)[name], "", singly=singly)
                    self._set[name, singly] = {*found}
                    break
        return self._set[name, singly]

    def _emptied(self, name: str) -> dict[str, object]:
        """Return an attribute that is a container as an empty one."""
        value = attributes_seen(self._owner).get(name)
        is_one = type(value) in (list, dict, set, deque)
        return {name: type(value)()} if is_one else {}

    def _another(self, attributes: dict[str, object]) -> Any:
        if hasattr(type(self._owner), "__del__"):  # by which it would close what is not its own
            raise TypeError
        other = object.__new__(type(self._owner))
        for name, value in attributes.items():
            set_attribute_of(other, name, value)
        return other


def _keys_of(found: Mapping[str, str]) -> dict[str, list[set[str]]]:
    keys: dict[str, list[set[str]]] = {}
    for path, seen in found.items():
        keys.setdefault(seen, []).append(set(keys_in(path)))
    return keys


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


def values_seen(
    value: object,
    path: str,
    held: Container[int] = (),
    *,
    only_users: bool = False,
    singly: bool = False,
) -> Iterator[tuple[str, str]]:
    """Write down what lies in an attribute, by its path; see `values_in`."""
    how = {"only_users": only_users, "singly": singly}
    for where, leaf in values_in(value, path, held, is_users=is_users, **how):
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

"""Walk what is in an attribute: the tensors and plain values in containers, networks and objects.

Of a user's objects all of it is come to, wherever they lie: in long lists, in sets and queues, as
keys. Where there are too many, or they lie too deep, this is said.
"""

import contextvars
import dataclasses
import logging
import types
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from lightning_fabric.loggers.logger import Logger
from torch.optim import Optimizer

from twinrun.batches import LEAVES, leaves
from twinrun.containers import (
    attributes_of,
    entries,
    holds_for_users,
    is_bar,
    is_container,
    is_faceless,
    is_hidden_iterator,
    is_really,
    is_unordered,
    shown,
    size_of,
)
from twinrun.generators import GENERATORS, global_generators, state_in_a_word
from twinrun.hidden_content import KINDS, content_of, flat, is_data, saves_itself, shallow
from twinrun.library_objects import LIBRARIES, as_view, attributes_walked, is_counting
from twinrun.set_attributes import own_attributes, own_of_module, set_by_other_bases

_DEEPEST, _DEEPEST_OF_USERS = 8, 32  # objects and containers inside each other
IN_A_SET = " in order"  # a set, in a path: the number follows from what the object holds
_LONG = 64  # a container whose entries are not walked one by one: most are plain
MOST_OBJECTS = 50_000  # of a user's own in an attribute, and as many of libraries
# What a function does stands in its code.
_CODE = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_CODE += (types.MethodWrapperType,)
_TOO_DEEP = f"more than {_DEEPEST_OF_USERS} objects and containers lie inside each other"


@dataclasses.dataclass(frozen=True)
class Unlooked:
    """Stands for what is not walked any more."""

    why: str
    """In a few words."""


@dataclasses.dataclass(frozen=True)
class _Object:
    """Stands for an object that `leaves` does not look into."""

    value: object
    """It."""


@dataclasses.dataclass
class _Seen:
    """An object that was walked."""

    value: object
    """It, so that no other one gets its number."""
    path: str
    """Where it lay."""
    depth: int
    """How deep."""
    is_whole: bool = False
    """Whether nothing in it lay too deep."""


def values_in(
    value: object,
    path: str,
    held: Container[int] = (),
    *,
    is_users: Callable[[str], bool] | None = None,
    only_users: bool = False,
    singly: bool = False,
) -> Iterator[tuple[str, object]]:
    """Yield what there is in an attribute, by its path: tensors, plain values, hidden iterators.

    Looked into are containers, networks, optimizers and objects of a user's own. What
    `saves_itself` is yielded as it is, and nothing that is among the identities `held`. `Unlooked`
    is yielded where no more is looked at.

    Args:
        value: of the attribute.
        path: of it.
        held: identities of what is not walked.
        is_users: says by the name of a module whether it is a user's own, whose objects must not
            lie too deep; and a long container of nothing but plain values is yielded as `Flat`.
        singly: no container is.
        only_users: yield of an object of another module no more than tensors and arrays, and no
            None or empty container: a bar of progress counts, and a file is opened late.
    """
    walk = _Walk(held, is_users, only_users)
    walk.is_flat = is_users is not None and not singly
    yield from walk.values(value, path, ())
    yield from walk.not_come_to()


def values_of_optimizer(optimizer: Optimizer, held: Container[int]) -> Iterator[tuple[str, object]]:
    """Yield what `values_in` does of its own attributes, and of the state of no parameter."""
    yield from _Walk(held, None, False).optimizer(optimizer, "", ())


class _Walk:
    """One walk: an object that it comes to again is named, and not walked."""

    def __init__(
        self, held: Container[int], is_users: Callable[[str], bool] | None, only_users: bool
    ) -> None:
        self._held, self._only_users = held, only_users
        self._is_users = is_users or (lambda _: False)
        self.is_flat = False  # whether a long container of plain values is yielded as one
        # Each is kept, so that no other gets its number.
        self._seen: dict[int, _Seen] = {}
        self._cut: dict[int, object] = {}  # objects of a user's that lie too deep on some way
        self._times_cut = 0
        self._others = 0  # objects of libraries that the walk is inside of
        # Of the object that the walk is in: whether it is a library's, and one that counts.
        self._in_library = self._in_counting = False
        self._left = {True: MOST_OBJECTS, False: MOST_OBJECTS}  # to see, by whether of a user's

    def not_come_to(self) -> Iterator[tuple[str, object]]:
        """Say whether a user's object lies too deep on each way to it."""
        if any(key not in self._seen for key in self._cut):
            yield "", Unlooked(_TOO_DEEP)

    def optimizer(
        self, optimizer: Optimizer, prefix: str, above: tuple[int, ...]
    ) -> Iterator[tuple[str, object]]:
        """Walk the attributes of an optimizer, and what its state keeps of no parameter."""
        above = (*above, id(optimizer))
        for position, (key, state) in enumerate(optimizer.state.items()):
            if not isinstance(key, torch.Tensor):
                yield from self.values(state, f"{prefix}state[{shown(key, position)}]", above)
        for name, value in own_attributes(optimizer).items():
            yield from self.values(value, f"{prefix}{name}", above)

    def values(
        self, value: object, path: str, above: tuple[int, ...]
    ) -> Iterator[tuple[str, object]]:
        """Walk a value, whatever it is."""
        if is_faceless(value) or is_bar(value):
            return
        # A logger knows all others, and notes which levels it was asked for.
        is_logger = isinstance(value, logging.Logger | logging.Handler)
        is_logger |= self._only_users and isinstance(value, Logger)
        if is_logger or isinstance(value, _CODE) or id(value) in above or id(value) in self._held:
            return
        if type(value) in KINDS:
            yield from self._leaf(path, value)
        elif isinstance(value, types.ModuleType):
            yield from self._leaf(path, f"the module {value.__name__}")
        elif is_hidden_iterator(value) or saves_itself(value):
            if not (self._in_counting or (self._only_users and self._others)):
                yield path, value
        elif isinstance(value, GENERATORS):
            # Those of a user's own objects are found elsewhere.
            if self._in_library and not self._only_users and id(value) not in global_generators():
                yield path, f"a generator {state_in_a_word(value)}"
        elif isinstance(value, PurePath):
            yield from self._leaf(path, f"the path {value}")
        elif isinstance(value, contextvars.ContextVar):
            yield from self.values(value.get(None), path, (*above, id(value)))
        elif isinstance(value, weakref.ref):
            if not self._in_counting:
                yield from self.values(value(), path, (*above, id(value)))
        elif is_unordered(value):
            # In an order of what they hold: that of a set is chance.
            for index, item in enumerate(sorted(value, key=shallow)):
                yield from self.values(item, f"{path}{IN_A_SET}[{index}]", (*above, id(value)))
        elif is_container(value) or isinstance(value, deque):
            yield from self._container(value, path, above)
        elif isinstance(value, LEAVES):
            yield from self._leaves(value, path, above)
        else:
            yield from self._object(value, path, above)

    def _leaf(self, path: str, leaf: object) -> Iterator[tuple[str, object]]:
        is_left = self._in_counting or (self._only_users and (leaf is None or self._others))
        if isinstance(leaf, torch.Tensor | np.ndarray) or not is_left:
            yield path, leaf

    def _leaves(
        self, value: object, path: str, above: tuple[int, ...], followed: Container[str] = ()
    ) -> Iterator[tuple[str, object]]:
        """Yield the leaves of a value, and walk the objects among them."""
        inside = (*above, id(value))
        for where, leaf in leaves(value, _Object, followed):
            inner = f"{path} {where}" if where else path
            if not isinstance(leaf, _Object):
                if id(leaf) not in self._held:
                    seen = as_view(leaf, self._held) if self._in_library else leaf
                    yield from self._leaf(inner, seen)
            elif leaf.value is not value:
                yield from self.values(leaf.value, inner, inside)

    def _container(
        self, value: Any, path: str, above: tuple[int, ...]
    ) -> Iterator[tuple[str, object]]:
        inside, is_deque, as_one = (*above, id(value)), isinstance(value, deque), None
        if not (size := len(value) if is_deque else size_of(value)):
            # An emptied list is not one that was never there.
            if not (self._only_users or self._in_counting):
                yield path, f"empty {type(value).__name__}"
        elif is_deque or size > _LONG or len(above) >= _DEEPEST:
            as_one = flat(value) if self.is_flat and size > _LONG else None
            yield from self._leaf(path, as_one) if as_one else self._leaves(value, path, above)
        else:
            for index, (key, item) in enumerate(entries(value)):
                yield from self.values(item, f"{path}[{shown(key, index)}]", inside)
        # A parameter as a key stands for itself.
        for index, key in enumerate(dict.keys(value)) if is_really(value, dict) else ():
            if not (as_one or type(key) in KINDS or isinstance(key, torch.Tensor)):
                yield from self.values(key, f"{path}, key {index}", inside)
        if not f"{type(value).__module__}.".startswith(LIBRARIES):
            for name, item in attributes_of(value).items():
                if is_data(item, self._is_users):
                    yield from self.values(item, f"{path}.{name}", inside)

    def _object(
        self, value: object, path: str, above: tuple[int, ...]
    ) -> Iterator[tuple[str, object]]:
        kind, depth, is_net = type(value), len(above), is_really(value, torch.nn.Module | Optimizer)
        is_users = self._is_users(kind.__module__)
        own = {} if is_net else attributes_walked(value, attributes_of(value))
        if depth > (_DEEPEST_OF_USERS if is_users else _DEEPEST):
            self._times_cut += 1
            if is_users and (own or is_net):
                self._cut[id(value)] = value
            elif not own and (content := content_of(value)) is not None:
                yield from self._leaf(path, content)
        elif not own and not is_net:
            if (content := content_of(value)) is not None:
                yield from self._leaf(path, content)
            yield from self._leaves(value, path, above)
        elif (known := self._seen.get(id(value))) and (known.is_whole or known.depth <= depth):
            yield from self._leaf(path, f"the same as {known.path}")
        elif known is None and not self._left[is_users]:
            if is_users:
                yield path, Unlooked(f"more than {MOST_OBJECTS:,} objects lie in it")
        else:
            self._left[is_users] -= known is None
            seen = self._seen[id(value)] = _Seen(value, path, depth)
            times_cut, before = self._times_cut, (self._others, self._in_library, self._in_counting)
            self._others = self._others_inside(value, is_users)
            if not is_net:
                self._in_library = not is_users
                self._in_counting = not is_users and is_counting(kind, is_around=before[2])
            yield from self._inside(value, path, above, own)
            self._others, self._in_library, self._in_counting = before
            seen.is_whole = self._times_cut == times_cut

    def _inside(
        self, value: object, path: str, above: tuple[int, ...], own: dict[str, object]
    ) -> Iterator[tuple[str, object]]:
        inside = (*above, id(value))
        if is_really(value, Optimizer):
            yield from self.optimizer(value, f"{path}.", above)
            for index, state in enumerate(value.state.values()):
                yield from self.values(state, f"{path}.state[{index}]", inside)
            return
        if is_really(value, torch.nn.Module):
            yield from self.values([*value.parameters(), *value.buffers()], path, inside)
            # The states of a metric are attributes, and whatever somebody has put on a layer.
            for name, part in value.named_modules():
                for key, item in {**own_of_module(part), "training": part.training}.items():
                    if is_data(item, self._is_users):
                        yield from self.values(item, f"{path}.{name}.{key}", inside)
            return
        followed = {f"<attribute {name}>" for name in own}
        # What holds tensors, and has no items, is no emptied container.
        is_sized = is_really(value, Mapping | Sequence | Set)
        for where, leaf in self._leaves(value, path, above, followed):
            if is_sized or where != path or not isinstance(leaf, str):
                yield where, leaf
        # A thread of a user's class has what Python's has set, too.
        is_mixed = self._only_users and not self._others
        theirs = set_by_other_bases(type(value), self._is_users) if is_mixed else ()
        for name, item in own.items():
            if is_data(item, self._is_users) and name not in theirs:
                yield from self.values(item, f"{path}.{name}", inside)

    def _others_inside(self, value: object, is_users: bool) -> int:
        """Return how many objects of libraries are around what this one holds."""
        if is_users or is_really(value, torch.nn.Module | Optimizer):
            return 0
        return self._others + (not holds_for_users(value))

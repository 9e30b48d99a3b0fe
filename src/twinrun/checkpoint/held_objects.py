"""The containers, objects and functions that makers of batches and steps reach, by who holds them.

One may be exchanged for another one: of a global tuple there is no other way to change it. Another
one with the same content is none; of functions their code is compared.
"""

import functools
import types
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeAlias

from twinrun.checkpoint.found import Found, Holder
from twinrun.checkpoint.held_settings import Settings, settings_of
from twinrun.checkpoint.same_code import code_of
from twinrun.checkpoint.users_code import is_computed_once
from twinrun.containers import is_container

Key: TypeAlias = tuple[int, str]
"""The identity of what holds something, and what this is called."""

_CALLED = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial, type)


class HeldObjects:
    """A look at them."""

    def __init__(self) -> None:
        # Owners and values are kept, so that no others get their numbers.
        self.held: dict[Key, tuple[object, object]] = {}
        self._inside: dict[int, dict[str, object]] = defaultdict(dict)
        self._contents: dict[int, dict[str, str]] = defaultdict(dict)
        self._settings: dict[int, Settings] = {}
        self._late: set[Key] = set()
        self._of_classes: dict[int, object] = {}
        self.of_classes: set[str] = set()
        """Names of what data reach in classes and globals."""

    def note(self, found: Found) -> None:
        """Note it if a class or a file has it, or a container that one of these has."""
        owner = found.owner
        is_file = type(owner) is dict and "__builtins__" in owner
        if isinstance(owner, type) or is_file or id(owner) in self._of_classes:
            self.of_classes.add(found.name)
            if isinstance(found.value, Holder) and is_container(found.value.value):
                self._of_classes[id(found.value.value)] = found.value.value

    def add(self, found: Found, *, may_come_late: bool = False, is_of_data: bool = False) -> None:
        """Take in what holds others.

        Args:
            found: it.
            may_come_late: it is a cache where there was nothing.
            is_of_data: data hold it; a layer of the module is looked at elsewhere.
        """
        if isinstance(found.value, Holder):
            key = id(found.owner), found.name
            if is_of_data and (settings := settings_of(found.value.value)) is not None:
                self._settings[id(found.value.value)] = settings
            if may_come_late:
                self._late.add(key)
            self.held[key] = found.owner, found.value.value
            self._inside[id(found.owner)][found.name] = found.value.value

    def know(self, *contents: Mapping[Key, tuple[object, object]]) -> None:
        """Take in the plain values, tensors and arrays that lie in them."""
        for content in contents:
            for (owner, name), (_, value) in content.items():
                self._contents[owner][name] = repr(value)

    def exchanged(self, now: "HeldObjects", seen: Container[int]) -> Iterator[str]:
        """Name what is another one now, with another content.

        Args:
            now: a later look.
            seen: the identities of all that this one came to.
        """
        for key, (owner, value) in now.held.items():
            if key in self.held:
                is_other = not self._is_like(self.held[key][1], now, value, set())
            elif key in now._late or is_computed_once(owner, key[1]):
                is_other = False
            elif key[1] in self._contents.get(key[0], ()):
                is_other = True  # a plain value before
            else:
                # What an object has only now it was given under way. Hooks: see `structure`.
                is_data = not isinstance(value, _CALLED) and bool(now._contents.get(id(value)))
                is_other = is_data and key[0] in seen
            if is_other:
                yield key[1]

    def _is_like(
        self, value: object, now: "HeldObjects", other: Any, seen: set[tuple[int, int]]
    ) -> bool:
        pair = id(value), id(other)
        if value is other or pair in seen:
            return True
        seen.add(pair)
        if type(value) is not type(other):
            return False
        mine, its = self._settings.get(pair[0]), now._settings.get(pair[1])
        if mine is not None and its is not None and not mine.is_like(its):
            return False
        if isinstance(value, _CALLED) and code_of(value) != code_of(other):
            return False
        if isinstance(value, types.FunctionType):
            cells = zip(value.__closure__ or (), other.__closure__ or (), strict=False)
            if not all(self._is_like(cell, now, others, seen) for cell, others in cells):
                return False
        if self._contents.get(pair[0], {}) != now._contents.get(pair[1], {}):
            return False
        inside, others = self._inside.get(pair[0], {}), now._inside.get(pair[1], {})
        return inside.keys() == others.keys() and all(
            self._is_like(inside[name], now, others[name], seen) for name in inside
        )

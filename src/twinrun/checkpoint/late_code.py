"""What the functions of a class set, and into what they put something: called from each other.

A value is told by the attributes that it lies in (see `late_frames`).
"""

import types
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from twinrun.checkpoint.late_frames import Frame, Inside
from twinrun.checkpoint.late_puts import BY_A_KEY, FILLS, LIES_IN, LIKE, PUTS, SETS
from twinrun.checkpoint.late_values import (
    ATTRIBUTES,
    NOTHING,
    Member,
    Value,
    arguments,
    either,
    known_as,
    of_name,
)
from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users
from twinrun.containers import is_faceless

DEEPEST = 5  # functions that call each other
SET, ANY, ITSELF = "=", "*", "[]"
"""That an attribute is set; a key that no code names; an object that puts something into itself."""


class Filling:
    """Finds what functions of a class fill."""

    def __init__(self, bases: Sequence[type]) -> None:
        """Have found nothing.

        Args:
            bases: whose methods are called by their names.
        """
        self.filled: dict[str, set[str]] = defaultdict(set)
        """Keys by which something is put into attributes."""
        self.asked = set[str]()
        """Attributes that are asked for what lies in them."""
        self.sets_any = False
        """Whether an attribute is set whose name is computed."""
        self.loaded = set[str]()
        """Attributes that the object is asked for."""
        self.bases = bases
        self._returned: dict[object, Value] = {}
        self._members: dict[int, Member] = {}

    def read(self, function: types.FunctionType, given: Sequence[Value] = ()) -> None:
        """Look at a function, whatever else it is called with.

        Args:
            function: it.
            given: its first arguments.
        """
        with suppress(Exception):  # instructions of another version, say
            others = arguments(function.__code__)[len(given) :]
            self.call(function, [*given, *map(of_name, others)], DEEPEST)

    def call(self, function: types.FunctionType, given: Sequence[Value], deeper: int) -> Value:
        """Look at a function that is given these; return what it returns."""
        names = dict(zip(arguments(function.__code__), given, strict=False))
        return self._call(function, names, deeper)

    def _call(self, function: types.FunctionType, names: dict[str, Value], deeper: int) -> Value:
        code = function.__code__
        # A decorator's function knows what it decorates, and names, from around it.
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # not set yet
                names.setdefault(name, Value(what=known_as(cell.cell_contents)))
        return self.run(code, function.__globals__, names, deeper)

    def run(
        self,
        code: types.CodeType,
        known: dict[str, object],
        names: dict[str, Value],
        deeper: int,
    ) -> Value:
        """Look at code; return what it returns.

        Args:
            code: of a function.
            known: its globals.
            names: its arguments, and the variables of what is around it.
            deeper: how many more functions may be called.
        """
        key = code, tuple(sorted(names.items(), key=lambda pair: pair[0]))
        try:
            hash(key)
        except TypeError:  # a constant that is a list, say
            return NOTHING
        if not deeper or key in self._returned:
            return self._returned.get(key, NOTHING)
        self._returned[key] = NOTHING  # until it is known
        frame = Frame(self, code, known, {**names}, deeper)
        for _ in range(2):  # in a loop what comes later is known then
            frame.go()
        self._returned[key] = frame.returned
        return frame.returned

    def put(self, container: Value, key: object) -> None:
        """Note that something is put into a container."""
        known = key if isinstance(key, str) else ANY
        for name in container.roots:
            self.filled[name].add(known)
        if container.what is ATTRIBUTES:
            self._set(key)
        if container.is_self:
            self.filled[ITSELF].add(known)

    def set(self, owner: Value, name: object) -> None:
        """Note that an attribute is set."""
        if isinstance(name, str) or owner.is_self:
            self._set(name)
        if isinstance(name, str):
            self.put(owner._replace(is_self=False), f".{name}")

    def _set(self, name: object) -> None:
        if isinstance(name, str):
            self.filled[name].add(SET)
        else:
            self.sets_any = True

    def ask(self, container: Value, key: Value) -> Value:
        """Return what lies in a container."""
        if container.what is ATTRIBUTES:
            return Value(frozenset({key.what})) if isinstance(key.what, str) else NOTHING
        self.asked |= container.roots
        return Value(container.roots)

    def attribute(self, owner: Value, name: str, deeper: int) -> Value:
        """Return an attribute."""
        what, roots = owner.what, owner.roots | {name}
        if isinstance(what, Member):
            return Value(what=known_as(what.attributes.get(name)))
        if isinstance(what, types.ModuleType):
            return Value(what=known_as(vars(what).get(name)))
        if isinstance(what, types.FunctionType) and name == "__name__":
            return Value(what=what.__name__)
        if owner.is_self and name == "__dict__":
            return Value(what=ATTRIBUTES)
        if not owner.is_self:
            return Value(roots, name, is_method=True) if name in FILLS else Value(roots)
        self.loaded.add(name)
        found = NOTHING
        for member in self.members(name):
            if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
                found = either(found, self.call(member.fget, [owner], deeper - 1))
            elif isinstance(member, str):  # of the class
                found = either(found, Value(what=member))
            elif get := method_of(member, "__get__"):
                given = [Value(what=self.member(member)), owner, NOTHING]
                found = either(found, self.call(get, given, deeper - 1))
        return Value(roots | found.roots, found.what if isinstance(found.what, str) else None)

    def members(self, name: str) -> list[object]:
        """List what the classes have by a name, and can be asked of which class it is."""
        found = [vars(base)[name] for base in self.bases if name in vars(base)]
        return [each for each in found if not is_faceless(each)]

    def member(self, held: object) -> Member:
        """Return an object in a class as what is known of it."""
        if id(held) not in self._members:
            self._members[id(held)] = Member(held, attributes_seen(held))
        return self._members[id(held)]

    def method(self, name: str, given: Sequence[Value], deeper: int) -> Value:
        """Look at methods of the object."""
        found = NOTHING
        for member in self.members(name):
            for function in functions_in(member):
                if isinstance(function, types.FunctionType):
                    own = given[1:] if isinstance(member, staticmethod) else given
                    found = either(found, self.call(function, own, deeper))
        return found

    def called(
        self,
        pair: tuple[Value, Value],
        given: Sequence[Value],
        words: Sequence[str],
        inside: Inside,
        deeper: int,
    ) -> Value:
        """Look at what is called; return what it returns.

        Args:
            pair: the function and the object of a method, as they lie on the stack.
            given: arguments.
            words: the names of the last of these.
            inside: looks at a function inside of the one that calls.
            deeper: how many more functions may be called.
        """
        first, second = pair
        if first.is_method and isinstance(second.what, types.ModuleType):
            held = vars(second.what).get(str(first.what))
            first, second = Value(what=known_as(held)), NOTHING
        if first.is_method:
            return self._called_by_name(first, second, given, deeper)
        # Before version 3.13 what is called may lie behind nothing, or before an argument.
        called, own = (first, second) if first.what is not None else (second, NOTHING)
        given = [own, *given] if own != NOTHING else given
        what = called.what
        if called.is_method:
            return self._called_by_name(called, NOTHING, given, deeper)
        if what is super:
            return Value(is_self=True)
        if what is vars and given and given[0].is_self:
            return Value(what=ATTRIBUTES)
        if what is getattr and len(given) > 1 and isinstance(given[1].what, str):
            return self.attribute(given[0], given[1].what, deeper)
        if isinstance(what, type | types.BuiltinFunctionType):
            self._give(what, given)
            roots = frozenset[str]().union(*(each.roots for each in given))
            return Value(roots) if what in LIKE else NOTHING
        if isinstance(what, types.CodeType):
            return inside(called, given)
        if isinstance(what, types.FunctionType) and is_users(what.__module__):
            split = len(given) - len(words)
            names = dict(zip(arguments(what.__code__), given[:split], strict=False))
            names |= dict(zip(words, given[split:], strict=False))
            return self._call(what, names, deeper - 1)
        return NOTHING

    def _called_by_name(
        self, method: Value, owner: Value, given: Sequence[Value], deeper: int
    ) -> Value:
        name, what = str(method.what), owner.what
        if owner == NOTHING:  # one that was taken from its object before
            owner = Value(method.roots - {name})
        if isinstance(what, Member):
            held = known_as(what.attributes.get(name))
            if isinstance(held, types.FunctionType):
                return self.call(held, given, deeper - 1)
            own = method_of(what, name)
            return self.call(own, [owner, *given], deeper - 1) if own else NOTHING
        if isinstance(what, type) and given:  # of a class, which is given the object
            owner, *given = given
        if name == "__setattr__" and given:
            self.set(owner, given[0].what)
        if owner.is_self:
            if name in FILLS and not self.members(name):
                self.put(owner, None)
            return self.method(name, [owner, *given], deeper - 1)
        if name in FILLS:
            self.put(owner, given[0].what if name in BY_A_KEY and given else None)
        if owner.what is ATTRIBUTES or name == "__getitem__":
            found = self.ask(owner, given[0] if given else NOTHING)
            return found if name in LIES_IN else NOTHING
        return Value(owner.roots) if name in LIES_IN else NOTHING

    def _give(self, what: object, given: Sequence[Value]) -> None:
        """Note what a function of a library puts into what it is given, or may."""
        if what in PUTS and given:
            key = given[1].what if what in BY_A_KEY and len(given) > 1 else None
            self.put(given[0], key)
        if what in SETS and len(given) > 1:
            self.set(given[0], given[1].what)
        for each in given:
            if each.is_method and each.what in FILLS:
                self.put(Value(each.roots - {str(each.what)}), None)


def method_of(held: object, name: str) -> types.FunctionType | None:
    """Return a method of an object's class that is written in Python, by its name."""
    kind = held.kind if isinstance(held, Member) else type(held)
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return found if isinstance(found, types.FunctionType) else None

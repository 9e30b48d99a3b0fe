"""Members of classes and of `builtins` that torch's tracer reads without a guard.

It guards an attribute where it has found it: not a method of a plain class, and not that a class
in between has none of that name. So a method that is exchanged, or an attribute that is set on the
derived class while the graph has the base's, would stay unseen.
"""

import builtins
from collections.abc import Iterable, Mapping, Set
from operator import itemgetter

from twinrun.errors import TwinrunError

_OWN_OF_PYTHON = frozenset(vars(builtins))


class Members:
    """What one namespace has of names that matter; looked at as fast as can be."""

    def __init__(
        self,
        whose: str,
        space: Mapping[str, object],
        names: Iterable[str],
        *,
        holds_methods: bool,
    ) -> None:
        """Note what is there.

        Args:
            whose: whose namespace it is, in words.
            space: the namespace itself.
            names: those that must neither come nor go.
            holds_methods: whether methods must stay the same, or what has one of the names.
        """
        self._whose, self._space, self._names = whose, space, frozenset(names)
        self._holds_methods = holds_methods
        self.key = id(space), self._names
        self._note()

    def _note(self) -> None:
        space = self._space
        self._there = space.keys() & self._names
        held = {n for n in space if _is_method(space[n])} if self._holds_methods else self._there
        self._held = list(held)
        # Of two names or more it returns a tuple.
        self._get = itemgetter(*self._held, self._held[0]) if held else _nothing
        self._known, self._size = self._get(space), len(space)

    def change(self) -> str | None:
        """Name what has come, gone or been exchanged since this was last asked, or None.

        Raises:
            TwinrunError: if it is a user's name in `builtins`, which torch does not trace anew.
        """
        space = self._space
        # Compared by identity first, so that no object is asked where nothing has changed; a name
        # that has gone, or whatever a user's object raises, is a change.
        try:
            is_same = len(space) == self._size and self._get(space) == self._known
        except Exception:
            is_same = False
        if is_same:
            return None
        there, before = self._there, dict(zip(self._held, self._known, strict=False))
        self._note()
        come = self._there - there
        gone = {name for name in {*before, *there} if name not in space}
        other = {n for n, value in before.items() if n not in gone and space[n] is not value}
        if not (changed := come or gone or other):
            return None
        how = "has now a" if come else "no longer has a" if gone else "has another"
        change = f"{self._whose} {how} {min(changed)}"
        if space is vars(builtins):
            raise TwinrunError(
                f"compile: {change}, which torch's compiler takes for a constant of Python's; "
                f"keep it in a module of your own"
            )
        return change


def of_class(kind: type, asked: Set[str]) -> Members:
    """Return the members of a class that matter: its methods, and what would hide a base's.

    Args:
        kind: the class.
        asked: names that code asks for though they may not be there.
    """
    inherited = {name for base in kind.__mro__[1:] for name in vars(base)}
    whose = f"the class {kind.__name__}"
    return Members(whose, vars(kind), inherited | asked, holds_methods=True)


def of_builtins(used: Set[str]) -> Members:
    """Return what matters of `builtins` for code that uses these names: what is not Python's."""
    names = used - _OWN_OF_PYTHON
    return Members("the module builtins", vars(builtins), names, holds_methods=False)


def of_module(whose: str, space: Mapping[str, object], used: Set[str]) -> Members:
    """Return what matters of a module's globals for such code: what would hide a builtin."""
    hidden = {name for name in used & _OWN_OF_PYTHON if name not in space}
    return Members(whose, space, hidden, holds_methods=False)


def _is_method(value: object) -> bool:
    return hasattr(type(value), "__get__")


def _nothing(_space: Mapping[str, object]) -> tuple[object, ...]:
    return ()

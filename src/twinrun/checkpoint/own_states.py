"""What the `state_dict` of an object's own class says of its attributes: it may leave some out.

That there is one is no proof that it says everything: an average is saved, and the count by which
it warms up is not. Said is what the code of `state_dict` or `load_state_dict` names, and of which
the state holds each value.
"""

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.looks import UNSEEN, look_at_leaf
from twinrun.checkpoint.users_code import functions_in, is_users, names_in
from twinrun.values_inside import values_in

SAID = "said "  # before a value that a state holds
_METHODS = ("state_dict", "load_state_dict")
_ANY = {"__dict__", "vars", "getattr", "setattr"}  # by these code comes to all attributes
# So a walk writes them, and a state has a text, or another container.
_PATH, _EMPTY = "the path ", "empty list"
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
    """The state of an object, and what its code names."""

    def __init__(self, owner: Any) -> None:
        """Ask for it; to save what raises fails by itself.

        Args:
            owner: has a `state_dict`.
        """
        state, self._held = None, frozenset[str]()
        try:
            with isolate_rng():
                state = owner.state_dict()
            self._held = frozenset(seen for _, seen in values_seen(state, ""))
        except Exception:  # noqa: S110  of whatever class
            pass
        self.is_nothing = state == {}
        """Whether it says that nothing is to be kept."""
        self._names = names_of_state(owner)

    def says(self, name: str, seen: str) -> bool:
        """Say whether it holds a value of an attribute, as `values_seen` writes that."""
        return self.is_nothing or self._holds(name, seen)

    def holds_all(self, name: str, value: object) -> bool:
        """Say whether it holds all values of an attribute."""
        return all(self._holds(name, seen) for _, seen in values_seen(value, name))

    def _holds(self, name: str, seen: str) -> bool:
        return seen in self._held and (self._names is None or name in self._names)


def names_of_state(owner: object) -> set[str] | None:
    """Return what the code of an object's state names; None if that may be any attribute."""
    bases = [base for base in type(owner).__mro__ if is_users(base.__module__)]
    names = set(_named_by(bases))
    # Of the code of a library nothing is read.
    return None if not bases or _ANY & names else names


def _named_by(bases: Sequence[type]) -> Iterator[str]:
    """Yield what the code of a state names, and that of methods and functions behind it."""
    seen: set[int] = set()
    left = [member for name in _METHODS for member in _members(bases, name)]
    while left:
        for function in functions_in(left.pop()):
            if isinstance(function, types.FunctionType) and id(function) not in seen:
                seen.add(id(function))
                names = set(names_in(function.__code__))
                yield from names
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
    if isinstance(leaf, str):
        return _EMPTY if leaf in _EMPTIES else leaf.removeprefix(_PATH)
    return leaf

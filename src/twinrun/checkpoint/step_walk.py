"""Walk what makes the steps: the functions of its parts, and of the helpers that these hold."""

import collections
import types
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.found import Found
from twinrun.checkpoint.own_states import OwnState, Said, seen_as
from twinrun.checkpoint.unsaved_state import says_itself
from twinrun.checkpoint.users_code import attributes_seen, is_called_object, is_users
from twinrun.checkpoint.walk import DEEPEST, Walk, is_ours
from twinrun.containers import entries, holds_plain, is_container, is_really, shown
from twinrun.generators import GENERATORS, state_in_a_word
from twinrun.hidden_content import KINDS, PLAIN, UNORDERED


class StepWalk(Walk):
    """Walks parts whose own numbers are another one's matter: module, optimizers, callbacks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Begin one: see `Walk`."""
        super().__init__(*arguments, **options)
        self._helpers: dict[int, object] = {}  # walked already; kept, as `seen`
        self._saying: tuple[OwnState, str, set[str | None]] | None = None  # of an attribute

    def functions_of(self, part: object) -> Iterator[Found]:
        """Walk the class of a part, its hooks, and the functions among its attributes."""
        if is_ours(part):
            return
        says = isinstance(part, pl.Callback) and says_itself(type(part))
        state = OwnState(part) if says else None
        drawn_by: set[str | None] = set()
        hooks = {"_backward_hooks": part._backward_hooks} if isinstance(part, torch.Tensor) else {}
        for name, value in {**attributes_seen(part), **hooks}.items():
            called = f"{type(part).__name__}.{name}"
            if name.endswith("_hooks") and isinstance(value, dict):
                # Each in its turn: one that is registered anew has another number.
                for turn, hook in enumerate(value.values()):
                    yield from self.value(part, hook, f"{called}[{turn}]", DEEPEST)
            elif name.endswith("_lambdas"):  # of a schedule: they may be exchanged
                for found in self.value(part, value, called, DEEPEST):
                    yield from _beside_saved(part, found)
            else:
                before, self._saying = self._saying, (state, name, drawn_by) if state else None
                if state is not None and is_called_object(value):  # the state is asked for it
                    yield from self._helper(value, DEEPEST)
                else:
                    yield from self._helpers_in(part, value, called, DEEPEST)
                self._saying = before
        if state is None:
            yield from self.class_of(type(part), DEEPEST)
        elif not state.is_nothing:
            for found in self.class_of(type(part), DEEPEST, is_asked=True):
                name, bracket, rest = found.name.rpartition(".")[2].partition("[")
                is_value = isinstance(found.value, (*PLAIN, torch.Tensor, np.ndarray))
                if not is_value or not state.says(name, seen_as(found.value), f"{bracket}{rest}"):
                    yield found
                elif isinstance(found.value, PLAIN):  # as it may be like another one by chance
                    yield found._replace(value=Said(repr(found.value)))

    def _helpers_in(
        self, owner: object, value: object, called: str, deeper: int
    ) -> Iterator[Found]:
        """Walk what an attribute of a part may do in a step: its numbers are looked at as such."""
        if isinstance(value, types.ModuleType):
            yield from self.variables_of(value)
        if isinstance(value, (*self.never, *PLAIN, torch.Tensor, np.ndarray)) or not deeper:
            return
        if id(value) in self._helpers:
            return
        if is_container(value) or isinstance(value, (*UNORDERED, collections.deque)):
            self._helpers[id(value)] = value
            for key, item in _entries(value):
                if type(item) not in KINDS:
                    yield from self._helpers_in(value, item, f"{called}[{key}]", deeper - 1)
        elif is_really(value, torch.nn.Module):  # one that is registered is a part itself
            if id(value) not in self.seen:
                for part in value.modules():
                    if self.is_new(part):
                        yield from self.functions_of(part)
        elif isinstance(value, GENERATORS):
            if not self._is_said(value):
                yield Found(owner, called, value)
        elif callable(value):
            yield from self.value(owner, value, called, DEEPEST)
        elif is_users(type(value).__module__):
            yield from self._helper(value, deeper)

    def _helper(self, value: object, deeper: int) -> Iterator[Found]:
        """Walk a user's own object: its class, and what may do something in its attributes."""
        if self.is_cut_short or id(value) in self._helpers:
            return
        self._helpers[id(value)] = value
        self._most_seen -= 1
        yield from self.class_of(type(value), deeper)
        for name, item in attributes_seen(value).items():
            yield from self._helpers_in(value, item, f"{type(value).__name__}.{name}", deeper - 1)

    def _is_said(self, generator: object) -> bool:
        """Say whether a callback's own state holds that of a generator in one of its attributes."""
        if self._saying is None:
            return False
        state, name, others = self._saying
        seen = state_in_a_word(generator)
        # A state may hold but one of two that are alike so far.
        is_twin = seen in others
        others.add(seen)
        return not is_twin and state.holds_generator(name, generator)


def _beside_saved(schedule: Any, found: Found) -> Iterator[Found]:
    """Yield what torch's state of a schedule does not hold of the objects that give its rates.

    It has their own attributes (`LambdaLR.state_dict`).
    """
    is_saved = type(schedule).state_dict.__module__.startswith("torch.")
    is_one = any(found.owner is each and is_called_object(each) for each in schedule.lr_lambdas)
    is_own = is_saved and is_one and found.name.rpartition(".")[2] in _saved_of(found.owner)
    if not (is_own and isinstance(found.value, (*PLAIN, torch.Tensor, np.ndarray))):
        yield found
    elif isinstance(found.value, PLAIN):
        yield found._replace(value=Said(repr(found.value)))


def _saved_of(value: object) -> Container[str]:
    """Name the attributes that `LambdaLR.state_dict` has of an object: none in slots."""
    return getattr(value, "__dict__", ())


def _entries(value: Any) -> Iterator[tuple[str, object]]:
    """Yield the entries of a container, and the keys of a dictionary; nothing of plain values."""
    if holds_plain(value):
        return
    found = entries(value) if is_container(value) else enumerate(value)
    for position, (key, item) in enumerate(found):
        called = shown(key, position)
        yield called, item
        if isinstance(value, dict):
            yield f"key {called}", key

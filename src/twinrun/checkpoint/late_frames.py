"""Follow what lies in attributes through the instructions of functions: into what is something put.

Each instruction once more or less in turn, whatever is jumped over: a value is told by the
attributes that it lies in. What is not known here is nothing that is filled.
"""

import builtins
import dis
import sys
import types
from collections.abc import Callable, Sequence
from typing import Protocol

from twinrun.checkpoint.late_values import (
    NOTHING,
    Value,
    arguments,
    either,
    known_as,
    merged,
    texts,
)

_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"}
_ENDS |= {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_LEAVES_TOP = ("POP", "STORE", "DELETE", "END", "JUMP", "LIST", "SET", "MAP", "DICT")
_IS_NULL_BEHIND = sys.version_info >= (3, 13)
_NULL = 2  # places of a call for the function, and for the object of a method
Inside = Callable[[Value, Sequence[Value]], Value]
"""Looks at a function inside of another one, which is given values."""


class Follows(Protocol):
    """What a frame asks where it comes to another function, or to an attribute."""

    def put(self, container: Value, key: object) -> None:
        """Note that something is put into a container."""

    def set(self, owner: Value, name: object) -> None:
        """Note that an attribute is set."""

    def ask(self, container: Value, key: Value) -> Value:
        """Return what lies in a container."""

    def attribute(self, owner: Value, name: str, deeper: int) -> Value:
        """Return an attribute."""

    def called(
        self,
        pair: tuple[Value, Value],
        given: Sequence[Value],
        words: Sequence[str],
        inside: Inside,
        deeper: int,
    ) -> Value:
        """Return what a function or a method returns."""

    def run(
        self,
        code: types.CodeType,
        known: dict[str, object],
        names: dict[str, Value],
        deeper: int,
    ) -> Value:
        """Return what code returns."""


class Frame:
    """The instructions of one function, from the first to the last."""

    def __init__(
        self,
        filling: Follows,
        code: types.CodeType,
        known: dict[str, object],
        names: dict[str, Value],
        deeper: int,
    ) -> None:
        """Be at the beginning.

        Args:
            filling: what is asked.
            code: of a function.
            known: its globals.
            names: its arguments, and the variables of what is around it.
            deeper: how many more functions may be called.
        """
        self._filling, self._code, self._known = filling, code, known
        self._names, self._deeper = names, deeper
        self._stack: list[Value] = []
        self._at: dict[int, list[Value]] = {}  # stacks that are jumped with
        self._words: tuple[str, ...] = ()
        self.returned = NOTHING
        """What it returns or yields."""

    def go(self) -> None:
        """Follow all instructions."""
        is_reached = True
        self._stack, self._at = [], {}
        for step in dis.get_instructions(self._code):
            if (came := self._at.get(step.offset)) is not None:
                self._stack = merged(self._stack, came) if is_reached else came
                is_reached = True
            elif not is_reached:  # of an exception
                self._stack, is_reached = [], True
            if step.opcode in _JUMPS:
                more = dis.stack_effect(step.opcode, step.arg, jump=True)
                stack = self._stack[: len(self._stack) + min(more, 0)] + [NOTHING] * max(more, 0)
                self._at[step.argval] = stack
            self._step(step)
            is_reached = step.opname not in _ENDS

    def _pop(self, count: int = 1) -> list[Value]:
        found = [self._stack.pop() if self._stack else NOTHING for _ in range(count)]
        return found[::-1]

    def _step(self, step: dis.Instruction) -> None:
        name, stack = step.opname, self._stack
        handler = getattr(self, f"_{name.lower()}", None)
        if handler is not None:
            handler(step)
        elif name.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE")):
            stack += [self._names.get(each, NOTHING) for each in texts(step.argval)]
        elif name.startswith(("STORE_FAST", "STORE_DEREF")):
            first, *others = texts(step.argval)
            self._names[first] = either(self._names.get(first, NOTHING), *self._pop())
            for each in others:
                if "LOAD" in name:
                    stack.append(self._names.get(each, NOTHING))
                else:
                    self._names[each] = either(self._names.get(each, NOTHING), *self._pop())
        elif name in ("GET_ITER", "GET_YIELD_FROM_ITER", "CACHE", "PRECALL", "RESUME"):
            return
        elif name in ("BUILD_TUPLE", "BUILD_LIST"):
            found = self._pop(step.arg or 0)
            stack.append(Value(frozenset().union(*(each.roots for each in found))))
        elif name == "RETURN_VALUE":
            self.returned = either(self.returned, *self._pop())
        elif name == "YIELD_VALUE":
            self.returned = either(self.returned, *stack[-1:] or [NOTHING])
        else:
            change = dis.stack_effect(step.opcode, step.arg, jump=False)
            self._pop(max(-change, 0))
            if change < 0 and self._stack and not name.startswith(_LEAVES_TOP):
                self._stack[-1] = NOTHING
            stack += [NOTHING] * change

    def _load_const(self, step: dis.Instruction) -> None:
        self._stack.append(Value(what=step.argval))

    def _load_global(self, step: dis.Instruction) -> None:
        held = self._known.get(step.argval, getattr(builtins, step.argval, None))
        found = Value(what=known_as(held))
        is_called = dis.stack_effect(step.opcode, step.arg, jump=False) == _NULL
        pair = [found, NOTHING] if _IS_NULL_BEHIND else [NOTHING, found]
        self._stack += pair if is_called else [found]

    def _load_attr(self, step: dis.Instruction) -> None:
        (owner,) = self._pop()
        name = str(step.argval)
        if step.opname == "LOAD_METHOD" or dis.stack_effect(step.opcode, step.arg, jump=False) == 1:
            self._stack += [Value(owner.roots | {name}, name, is_method=True), owner]
        else:
            self._stack.append(self._filling.attribute(owner, name, self._deeper))

    _load_method = _load_attr

    def _load_super_attr(self, step: dis.Instruction) -> None:
        *_, owner = self._pop(3)
        is_called = dis.stack_effect(step.opcode, step.arg, jump=False) == -1
        method = Value(what=str(step.argval), is_method=True)
        self._stack += [method, owner] if is_called else [NOTHING]

    def _store_attr(self, step: dis.Instruction) -> None:
        _, owner = self._pop(2)
        self._filling.set(owner, step.argval)

    def _store_subscr(self, step: dis.Instruction) -> None:
        _, container, key = self._pop(3)
        self._filling.put(container, key.what)

    def _store_slice(self, step: dis.Instruction) -> None:
        _, container, *_ = self._pop(4)
        self._filling.put(container, None)

    def _binary_subscr(self, step: dis.Instruction) -> None:
        self._stack.append(self._filling.ask(*self._pop(2)))

    def _binary_slice(self, step: dis.Instruction) -> None:
        container, *_ = self._pop(3)
        self._stack.append(Value(container.roots))

    def _for_iter(self, step: dis.Instruction) -> None:
        self._stack.append(Value(self._stack[-1].roots if self._stack else frozenset()))

    def _unpack_sequence(self, step: dis.Instruction) -> None:
        (found,) = self._pop()
        self._stack += [Value(found.roots)] * (step.arg or 0)

    def _copy(self, step: dis.Instruction) -> None:
        depth = step.arg or 1
        self._stack.append(self._stack[-depth] if depth <= len(self._stack) else NOTHING)

    def _swap(self, step: dis.Instruction) -> None:
        depth, stack = step.arg or 1, self._stack
        if depth <= len(stack):
            stack[-1], stack[-depth] = stack[-depth], stack[-1]

    def _make_function(self, step: dis.Instruction) -> None:
        inner = self._pop(1 - dis.stack_effect(step.opcode, step.arg, jump=False))[-1]
        self._stack.append(inner)
        self._run_inside(inner, [])

    def _set_function_attribute(self, step: dis.Instruction) -> None:
        *_, inner = self._pop(2)
        self._stack.append(inner)

    def _kw_names(self, step: dis.Instruction) -> None:
        self._words = tuple(map(str, self._code.co_consts[step.arg or 0]))

    def _call_kw(self, step: dis.Instruction) -> None:
        (words,) = self._pop()
        self._words = words.what if isinstance(words.what, tuple) else ()
        self._call(step)

    def _call(self, step: dis.Instruction) -> None:
        first, second, *given = self._pop(_NULL + (step.arg or 0))
        words, self._words = self._words, ()
        found = self._filling.called((first, second), given, words, self._run_inside, self._deeper)
        self._stack.append(found)

    def _run_inside(self, inner: Value, given: Sequence[Value]) -> Value:
        """Look at a function inside of this one, which has its variables."""
        if not isinstance(inner.what, types.CodeType):
            return NOTHING
        free = {each: self._names.get(each, NOTHING) for each in inner.what.co_freevars}
        names = free | dict(zip(arguments(inner.what), given, strict=False))
        return self._filling.run(inner.what, self._known, names, self._deeper - 1)

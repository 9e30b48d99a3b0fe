"""Follow what lies in attributes through the instructions of functions: into what is something put.

Each instruction once more or less in turn, whatever is jumped over: a value is told by the
attributes that it lies in. What is not known here is nothing that is filled.
"""

import builtins
import dis
import types
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from twinrun.checkpoint.late_values import NOTHING, Value, arguments, either, merged, of_name, texts
from twinrun.checkpoint.users_code import functions_in, is_users

DEEPEST = 5  # functions that call each other
_FILLS = {"setdefault", "append", "add", "update", "extend", "insert", "put", "__setitem__"}
_BY_A_KEY = {"setdefault", "__setitem__"}
_LIES_IN = {"get", "setdefault", "pop", "values", "items", "__getitem__"}
# As what they are given.
_LIKE = (enumerate, zip, iter, next, reversed, sorted, list, tuple, filter)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"}
_ENDS |= {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_LEAVES_TOP = ("POP", "STORE", "DELETE", "END", "JUMP", "LIST", "SET", "MAP", "DICT")
_KNOWN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_NULL = 2  # places of a call for the function, and for the object of a method


class Filling:
    """Finds what functions of a class fill."""

    def __init__(self, bases: Sequence[type]) -> None:
        """Have found nothing.

        Args:
            bases: whose methods are called by their names.
        """
        self.filled: dict[str, set[str]] = defaultdict(set)
        self._bases = bases
        self._returned: dict[object, Value] = {}

    def read(self, function: types.FunctionType) -> None:
        """Look at a function, whatever it is called with."""
        with suppress(Exception):  # instructions of another version, say
            self.call(function, [of_name(name) for name in arguments(function.__code__)], DEEPEST)

    def call(self, function: types.FunctionType, given: Sequence[Value], deeper: int) -> Value:
        """Look at a function that is given these; return what it returns."""
        code = function.__code__
        return self.run(
            code, function.__globals__, dict(zip(arguments(code), given, strict=False)), deeper
        )

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
        frame = _Frame(self, code, known, {**names}, deeper)
        for _ in range(2):  # in a loop what comes later is known then
            frame.go()
        self._returned[key] = frame.returned
        return frame.returned

    def put(self, roots: frozenset[str], key: object) -> None:
        """Note that something is put into what lies in attributes."""
        for name in roots:
            self.filled[name].add(key if isinstance(key, str) else "*")

    def method(self, name: str, given: Sequence[Value], deeper: int) -> Value:
        """Look at methods of the object."""
        found = NOTHING
        for base in self._bases:
            for function in functions_in(vars(base).get(name)):
                if isinstance(function, types.FunctionType):
                    is_static = isinstance(vars(base)[name], staticmethod)
                    own = given[1:] if is_static else given
                    found = either(found, self.call(function, own, deeper))
        return found


class _Frame:
    """The instructions of one function, from the first to the last."""

    def __init__(
        self,
        filling: Filling,
        code: types.CodeType,
        known: dict[str, object],
        names: dict[str, Value],
        deeper: int,
    ) -> None:
        self._filling, self._code, self._known = filling, code, known
        self._names, self._deeper = names, deeper
        self._stack: list[Value] = []
        self._at: dict[int, list[Value]] = {}  # stacks that are jumped with
        self._words: tuple[str, ...] = ()
        self.returned = NOTHING

    def go(self) -> None:
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
        found = Value(what=held if isinstance(held, _KNOWN) else None)
        is_called = dis.stack_effect(step.opcode, step.arg, jump=False) == _NULL
        self._stack += [found, NOTHING] if is_called else [found]

    def _load_attr(self, step: dis.Instruction) -> None:
        (owner,) = self._pop()
        name = str(step.argval)
        if step.opname == "LOAD_METHOD" or dis.stack_effect(step.opcode, step.arg, jump=False) == 1:
            self._stack += [Value(owner.roots | {name}, name, is_method=True), owner]
        else:
            self._stack.append(Value(owner.roots | {name}))

    _load_method = _load_attr

    def _load_super_attr(self, step: dis.Instruction) -> None:
        *_, owner = self._pop(3)
        is_called = dis.stack_effect(step.opcode, step.arg, jump=False) == -1
        method = Value(what=str(step.argval), is_method=True)
        self._stack += [method, owner] if is_called else [NOTHING]

    def _store_attr(self, step: dis.Instruction) -> None:
        _, owner = self._pop(2)
        self._filling.filled[str(step.argval)].add("=")
        self._filling.put(owner.roots, f".{step.argval}")

    def _store_subscr(self, step: dis.Instruction) -> None:
        _, container, key = self._pop(3)
        self._filling.put(container.roots, key.what)

    def _store_slice(self, step: dis.Instruction) -> None:
        _, container, *_ = self._pop(4)
        self._filling.put(container.roots, None)

    def _binary_subscr(self, step: dis.Instruction) -> None:
        container, _ = self._pop(2)
        self._stack.append(Value(container.roots))

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
        self._stack.append(self._called(first, second, given, words))

    def _called(
        self, first: Value, second: Value, given: list[Value], words: tuple[str, ...]
    ) -> Value:
        filling = self._filling
        if first.is_method and isinstance(second.what, types.ModuleType):
            held = vars(second.what).get(str(first.what))
            first, second = Value(what=held if isinstance(held, _KNOWN) else None), NOTHING
        if first.is_method:
            name = str(first.what)
            if second.is_self:
                return filling.method(name, [second, *given], self._deeper - 1)
            if name in _FILLS:
                key = given[0].what if name in _BY_A_KEY and given else None
                filling.put(second.roots, key)
            return Value(second.roots) if name in _LIES_IN else NOTHING
        # Before version 3.13 what is called may lie behind nothing, or before an argument.
        called, own = (first, second) if first.what is not None else (second, NOTHING)
        given = [own, *given] if own != NOTHING else given
        what = called.what
        if what is super:
            return Value(is_self=True)
        if what is getattr and len(given) > 1 and isinstance(given[1].what, str):
            return Value(given[0].roots | {given[1].what})
        if isinstance(what, type | types.BuiltinFunctionType):
            roots = frozenset().union(*(each.roots for each in given))
            return Value(roots) if what in _LIKE else NOTHING
        if isinstance(what, types.CodeType):
            return self._run_inside(called, given)
        if isinstance(what, types.FunctionType) and is_users(what.__module__):
            split = len(given) - len(words)
            names = dict(zip(arguments(what.__code__), given[:split], strict=False))
            names |= dict(zip(words, given[split:], strict=False))
            return filling.run(what.__code__, what.__globals__, names, self._deeper - 1)
        return NOTHING

    def _run_inside(self, inner: Value, given: Sequence[Value]) -> Value:
        """Look at a function inside of this one, which has its variables."""
        if not isinstance(inner.what, types.CodeType):
            return NOTHING
        free = {each: self._names.get(each, NOTHING) for each in inner.what.co_freevars}
        names = free | dict(zip(arguments(inner.what), given, strict=False))
        return self._filling.run(inner.what, self._known, names, self._deeper - 1)

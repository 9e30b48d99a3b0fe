"""Which attributes of an object the code sets or fills that reads data."""

import dis
import functools
import inspect
import types
from collections.abc import Iterator

from twinrun.checkpoint.own_states import functions_behind
from twinrun.checkpoint.users_code import names_in

FOR_SUM = 2  # values over the one that is added to: `self.x[...] += 1`
_BY_NAME = {"setattr", "__setattr__", "__dict__", "vars"}
_FILLS = {"setdefault", "append", "add", "update", "extend", "insert", "put", "__setitem__"}


@functools.cache
def filled_by(kind: type, methods: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Name the attributes that methods of a class set or fill, and all that their code names.

    Args:
        kind: the class; methods that these call by a name count too.
        methods: names of those that read.
    """
    bases = [base for base in kind.__mro__ if base is not object]
    filled, named = set[str](), set[str]()
    for function in functions_behind(bases, tuple(sorted(methods))):
        code = inspect.unwrap(function).__code__
        names = set(names_in(code))
        named |= names
        filled |= names if _BY_NAME & names else set(_filled_in(code))
    return frozenset(filled), frozenset(named)


def _filled_in(code: types.CodeType) -> Iterator[str]:
    """Name what code sets (`self.x = ...`) or fills (`self.x[...] = ...`, `self.x.append(...)`)."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    for turn, step in enumerate(steps):
        if step.opname == "STORE_ATTR" or (
            step.opname == "LOAD_ATTR" and _is_filled(steps[turn + 1 :])
        ):
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _filled_in(constant)


def _is_filled(steps: list[dis.Instruction]) -> bool:
    """Say whether the value on top of the stack is one into which something is put next."""
    if steps and steps[0].opname in ("LOAD_METHOD", "LOAD_ATTR"):
        return steps[0].argval in _FILLS
    before = None
    above = 0  # values on the stack over it: of a key
    for turn, step in enumerate(steps, 1):
        if step.opname == "STORE_SUBSCR":
            is_added_to = above == FOR_SUM and before is not None and before.opname == "SWAP"
            return above == 1 or is_added_to
        if above == 1 and step.opname == "BINARY_SUBSCR":  # what lies in it may be filled
            return _is_filled(steps[turn:])
        before = step
        above += dis.stack_effect(step.opcode, step.arg, jump=False)
        if above <= 0:  # it has been taken
            return False
    return False

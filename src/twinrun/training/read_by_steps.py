"""What the code of a training step reads that a replay of it would not see.

By names: what `training_step` and `forward` name, and the functions that they name. Of the number
of a batch, an argument that most steps have and do not use, the statements are gone through.
"""

import ast
import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.users_code import is_users
from twinrun.parallel.reached_code import ReachedCode
from twinrun.parallel.set_before_read import parsed

COUNTED = (
    *("current_epoch", "global_step", "epoch_progress", "batch_progress", "total_batch_idx"),
    *("_batches_that_stepped", "is_last_batch"),
)
"""Numbers that Lightning counts up."""
_STEPS = {"training_step", "forward"}
_HOOKS = {name for name in dir(pl.Callback) if name.startswith("on_")}


class ReadBySteps:
    """The names in the code of a step."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Read all code that the training may come to."""
        reached = ReachedCode(trainer, module)
        self.is_cut_short = reached.is_cut_short
        """Whether there is more code than was read."""
        self._kind = type(module)
        functions = [(owner, *each) for owner, of in reached.names.items() for each in of.items()]
        called, size = {*_STEPS}, -1
        while len(called) > size:
            size = len(called)
            called |= {name for _, own, names in functions if own in called for name in names}
            called -= _HOOKS
        self._functions = [each for each in functions if each[1] in called]
        self.names = {name for *_, names in self._functions for name in names}
        """All of them."""

    def counted(self) -> Iterator[str]:
        """Say which code reads a number that changes by itself: `Net.training_step reads ...`."""
        for owner, function, names in self._functions:
            if read := [name for name in COUNTED if name in names]:
                whose = owner if owner == function else f"{owner}.{function}"
                yield f"{whose} reads {' and '.join(read)}"
        step = inspect.unwrap(self._kind.training_step)
        argument = _argument(step, 2, "batch_idx")
        if argument is not None and (reader := _reader(self._kind, step, argument, set())):
            yield f"{reader} reads the number of the batch"


def _argument(function: Any, position: int, name: str | None) -> str | None:
    """Return how a function calls an argument that it is given; None where it takes none such."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    count = code.co_argcount
    named = code.co_varnames[: count + code.co_kwonlyargcount]
    if name in named:
        return name
    if 0 <= position < count:
        return code.co_varnames[position]
    is_any = code.co_flags & inspect.CO_VARARGS
    return code.co_varnames[count + code.co_kwonlyargcount] if is_any else None


def _reader(kind: type, function: Any, argument: str, seen: set[object]) -> str | None:
    """Name the function that reads an argument, or what it is handed on to; None if none does."""
    if (function, argument) in seen:
        return None
    seen.add((function, argument))
    name = function.__qualname__
    if (definition := parsed(function)) is None:
        return name if _is_loaded(function.__code__, argument) else None
    above = {
        id(inner): each for each in ast.walk(definition) for inner in ast.iter_child_nodes(each)
    }
    for node in ast.walk(definition):
        match node:
            case ast.Name(id=found, ctx=ast.Load()) if found == argument:
                given = _given_to(kind, function, definition, node, above)
                if given is None or (reader := _reader(kind, *given, seen)) is not None:
                    return name if given is None else reader
    return None


def _given_to(
    kind: type, function: Any, definition: ast.FunctionDef, node: ast.AST, above: dict[int, ast.AST]
) -> tuple[Any, str] | None:
    """Return the user's function that is handed an argument, and how it calls it."""
    keyword, call = None, above[id(node)]
    if isinstance(call, ast.keyword):
        keyword, node, call = call.arg, call, above[id(call)]
    if not isinstance(call, ast.Call) or any(isinstance(x, ast.Starred) for x in call.args):
        return None
    position = call.args.index(node) if node in call.args else -1
    own = definition.args.args[0].arg if definition.args.args else None
    bases = list(kind.__mro__)
    match call.func:
        case ast.Attribute(value=ast.Name(id=name), attr=called) if name == own:
            pass
        case ast.Name(id=name) if name == own:
            called = "forward"
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=called):
            holders = [base for base in bases if function in map(_bare, vars(base).values())]
            bases = bases[bases.index(holders[0]) + 1 :] if holders else []
        case ast.Name(id=name):
            called, bases = name, []
        case _:
            return None
    base = next((base for base in bases if called in vars(base)), None)
    found = vars(base)[called] if base else function.__globals__.get(called)
    is_method = base is not None and not isinstance(found, staticmethod)
    found = _bare(found)
    if not isinstance(found, types.FunctionType) or not is_users(found.__module__):
        return None
    argument = _argument(found, position + is_method if position >= 0 else -1, keyword)
    return None if argument is None else (found, argument)


def _bare(member: Any) -> Any:
    """Return the function of a member of a class."""
    return inspect.unwrap(getattr(member, "__func__", member))


def _is_loaded(code: types.CodeType, name: str) -> bool:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return any(_is_loaded(each, name) for each in inner) or any(
        step.opname.startswith("LOAD_")
        and (name in step.argval if isinstance(step.argval, tuple) else name == step.argval)
        for step in dis.get_instructions(code)
    )

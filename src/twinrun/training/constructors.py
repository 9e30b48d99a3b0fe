"""What makes an object of a user's, and the arguments that it takes."""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

Built = TypeVar("Built")
Constructor: TypeAlias = Callable[..., Built]
"""A class, or a function that returns an object of it; also one with some arguments given."""
Parameters = Mapping[str, inspect.Parameter]

# Where a constructor's own arguments end and Lightning's or torch's begin.
FOREIGN = {"pytorch_lightning", "lightning", "torch"}
ABOVE = re.compile(r"super\(.*\)\.__init__")


def arguments_of(constructed: Constructor[object]) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters, following `**kwargs` up to the base class before torch.

    What a class gives to the constructor above by itself is none of them.

    The class's own `**kwargs` are among them: what it does with others is its own affair, and its
    constructor's failure is told. Annotations are evaluated where they can be; else they are texts.
    """
    if isinstance(constructed, functools.partial):
        return _of_partial(constructed)
    if not inspect.isclass(constructed):
        given = _signature(constructed).parameters
        return {name: p for name, p in given.items() if p.kind is not p.VAR_POSITIONAL}
    found: dict[str, inspect.Parameter] = {}
    rest = None
    for _, parameters in _inherited(constructed):
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        found.update({p.name: p for p in named if p.name not in found})
        rest = rest or next((p for p in parameters if p.kind is p.VAR_KEYWORD), None)
    return {**found, rest.name: rest} if rest is not None else found


def given_otherwise(constructed: Constructor[object]) -> set[str]:
    """Name the arguments of classes above whose defaults one below may replace.

    It does more with its `**kwargs` than to hand them on: `kwargs.setdefault("width", 64)`.
    """
    if isinstance(constructed, functools.partial):
        return given_otherwise(constructed.func) - constructed.keywords.keys()
    if not inspect.isclass(constructed):
        return set()
    found, own, is_otherwise = set[str](), set[str](), False
    for init, parameters in _inherited(constructed):
        names = {p.name for p in parameters} - own
        found |= names if is_otherwise else set()
        own |= names
        more = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        is_otherwise = is_otherwise or (more is not None and not _hands_on(init, more))
    return found


def _inherited(
    constructed: type,
) -> Iterator[tuple[Callable[..., object], list[inspect.Parameter]]]:
    """Yield a class's constructor and those above that it hands `**kwargs` on to.

    Each with the arguments that no constructor below gives by itself.
    """
    given, num_given = set[str](), 0
    for base in constructed.__mro__:
        if base.__module__.split(".")[0] in FOREIGN:
            break
        # Inherited: a base class further up has it.
        if "__init__" not in vars(base):
            continue
        init = vars(base)["__init__"]
        parameters = list(_signature(init).parameters.values())[1 + num_given :]
        yield init, [p for p in parameters if p.name not in given]
        # Without **kwargs nothing gets through to the constructors above.
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
        num_given, names = _given_above(init)
        given |= names


def _hands_on(init: Callable[..., object], rest: str) -> bool:
    """Say whether a constructor but gives its `**kwargs` to the one above."""
    tree = _tree_of(init)
    handed = {
        id(word.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ABOVE.fullmatch(ast.unparse(call.func))
        for word in call.keywords
        if word.arg is None
    }
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == rest]
    return bool(handed) and all(id(name) in handed for name in names)


def _given_above(init: Callable[..., object]) -> tuple[int, set[str]]:
    """Return how many arguments a constructor gives to the one above by position, and the names."""
    for call in ast.walk(_tree_of(init)):
        if isinstance(call, ast.Call) and ABOVE.fullmatch(ast.unparse(call.func)):
            by_position = [a for a in call.args if not isinstance(a, ast.Starred)]
            return len(by_position), {word.arg for word in call.keywords if word.arg is not None}
    return 0, set()


def _tree_of(init: Callable[..., object]) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(init)))
    except (OSError, TypeError, SyntaxError):  # of code without a file
        return ast.Module([], [])


def _of_partial(constructed: functools.partial[object]) -> dict[str, inspect.Parameter]:
    """Return the arguments that are left, with what is given by name as their defaults."""
    found = dict(list(arguments_of(constructed.func).items())[len(constructed.args) :])
    given = inspect.Parameter.KEYWORD_ONLY
    for name, value in constructed.keywords.items():
        parameter = found.get(name, inspect.Parameter(name, given))
        found[name] = parameter.replace(default=value, kind=given)
    return found


def call(constructed: Constructor[Built], given: Mapping[str, Any]) -> Built:
    """Call a constructor with arguments by name, some of which it may take by position alone.

    >>> call(lambda width, depth=1, /, rate=0.1: (width, depth, rate), {"rate": 1, "width": 8})
    (8, 1, 1)
    """
    named, by_position = dict(given), []
    for name, parameter in arguments_of(constructed).items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            by_position.append(named.pop(name, parameter.default))
    return constructed(*by_position, **named)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        found = inspect.signature(function, eval_str=True)
    except Exception:  # an annotation may name what is only imported for type checkers
        found = inspect.signature(function)
    # What is still a text was one in quotation marks, too, or could not be evaluated with others.
    parameters = [_evaluated(p, function) for p in found.parameters.values()]
    return found.replace(parameters=parameters)


def _evaluated(parameter: inspect.Parameter, function: Callable[..., object]) -> inspect.Parameter:
    """Return a parameter with its annotation evaluated, or as it is where that cannot be."""

    def alone() -> None: ...

    alone.__annotations__ = {"it": parameter.annotation}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        found = inspect.get_annotations(alone, globals=names, eval_str=True)["it"]
    except Exception:
        return parameter
    return parameter.replace(annotation=found)


def takes_any(parameters: Parameters) -> bool:
    """Say whether a constructor takes arguments that it does not name."""
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())

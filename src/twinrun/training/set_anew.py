"""What is as it was at a training's first step, whatever a sanity check has left in it.

Metrics of torchmetrics that a hook resets as the training starts, or that validation leaves reset;
attributes that a hook sets by a statement that is always come to (see `set_before`).
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytorch_lightning as pl
from torchmetrics import Metric

from twinrun.set_attributes import set_by

IN_VALIDATION = ("on_validation_start", "on_validation_epoch_start")
"""Hooks with which a validation begins, in their order."""


class MetricResets:
    """Records which metrics of the process are reset before anybody asks for what they hold.

    Who computes one, or asks whether it was updated, may go by what the check has left there.
    """

    def __init__(self) -> None:
        """Record nothing yet."""
        self._original, self._updated = Metric.reset, vars(Metric)["update_called"]
        # Kept, so that no other gets its number.
        self._seen: dict[int, Metric] = {}
        self._asked: dict[int, Metric] = {}

    def begin(self) -> None:
        """Record from now on."""
        original, updated, seen, asked = self._original, self._updated, self._seen, self._asked

        def reset(self: Metric) -> None:
            if id(self) not in asked:
                seen[id(self)] = self
            original(self)

        def update_called(self: Metric) -> bool:
            asked[id(self)] = self
            return updated.fget(self)

        Metric.reset, Metric.update_called = reset, property(update_called)  # pyrefly: ignore[bad-assignment]

    def end(self) -> None:
        """Record no more."""
        Metric.reset, Metric.update_called = self._original, self._updated

    def __contains__(self, metric: Metric) -> bool:
        return id(metric) in self._seen


def metric_of(module: pl.LightningModule, name: str) -> Metric | None:
    """Return the metric of a module that puts back by `reset` what has a name; None if none does.

    A class of a user's may keep more than its states there.
    """
    for path, part in module.named_modules():
        if isinstance(part, Metric) and name.startswith(f"{path}."):
            attribute = re.split(r"[.\[]", name.removeprefix(f"{path}."))[0]
            if attribute in part._defaults or attribute in set_by(Metric, ("torchmetrics.",)):
                return part
    return None


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of a method."""

    node: ast.stmt
    """As it was parsed."""
    own: str
    """The name of the object there; `self` as a rule."""
    others: Sequence[str]
    """The names of the other arguments."""
    is_certain: bool
    """Whether it is always come to."""


def set_anew(holder: object, hook: str) -> set[str]:
    """Name the attributes that a hook of a module or callback sets as a validation begins.

    By a statement that is always come to, also in a method that such a one calls. Its value may go
    by the object: what reads the attribute is known to the caller.

    Args:
        holder: the module or callback.
        hook: its name.
    """
    found = statements_of(type(holder), hook)
    return {name for statement in found for name, _ in set_in(statement)}


def statements_of(kind: type, name: str, deeper: int = 2) -> Iterator[Statement]:
    """Yield the statements of a method in their order.

    The statements of a method that one calls come ahead of it.
    """
    try:
        function = inspect.getattr_static(kind, name)
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except Exception:  # it is made by another function, say
        return
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list or not tree.args.args:
        return
    own, *others = [argument.arg for argument in tree.args.args]
    is_certain = True
    for node in tree.body:
        is_certain &= not any(isinstance(of, ast.Return | ast.Try) for of in ast.walk(node))
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(called_on), called)) as call) if deeper:
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                if called_on == own and not any(reads(of, own) for of in given):
                    for found in statements_of(kind, called, deeper - 1):
                        yield replace(found, is_certain=found.is_certain and is_certain)
        yield Statement(node=node, own=own, others=others, is_certain=is_certain)


def set_in(statement: Statement) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a statement sets for certain of its own object, and the values."""
    match statement.node if statement.is_certain else None:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return
    for target in targets:
        match target:
            case ast.Attribute(value=ast.Name(name), attr=attribute) if name == statement.own:
                yield attribute, value


def reads(value: ast.expr, *names: str) -> bool:
    """Say whether an expression goes by a variable of any of some names."""
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(value))

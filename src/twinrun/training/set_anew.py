"""What is as it was at a training's first step, whatever a sanity check has left in it.

Metrics of torchmetrics that a hook resets as the training starts, or that validation leaves reset;
attributes that a hook sets by a statement of its own that does not read the object.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import pytorch_lightning as pl
import torch
from torchmetrics import Metric

from twinrun.set_attributes import set_by

# Behind a sanity check, ahead of the first step.
_HOOKS = ("on_train_start", "on_train_epoch_start")
IN_VALIDATION = ("on_validation_start", "on_validation_epoch_start")
"""Hooks with which a validation begins, in their order."""


class MetricResets:
    """Records which metrics are reset, of all in the process."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._original = Metric.reset
        self._seen: dict[int, Metric] = {}  # kept, so that no other gets its number

    def begin(self) -> None:
        """Record from now on."""
        original, seen = self._original, self._seen

        def reset(self: Metric) -> None:
            seen[id(self)] = self
            original(self)

        Metric.reset = reset

    def end(self) -> None:
        """Record no more."""
        Metric.reset = self._original

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


def set_anew(holder: object, hooks: Sequence[str] = _HOOKS) -> set[str]:
    """Name the attributes that a hook of a module or callback sets.

    By a statement that is always come to, also in a method that such a one calls, and whose value
    does not go by the object.

    Args:
        holder: the module or callback.
        hooks: as a training starts, or as others start.
    """
    is_module = isinstance(holder, torch.nn.Module)
    parameters = [*inspect.signature(pl.Callback.on_train_start).parameters][1:]
    # A backup of the weights goes by them, as they are there.
    others = () if is_module or hooks is not _HOOKS else parameters
    return {
        attribute
        for hook in hooks
        for holder_name, statement in _statements(type(holder), hook)
        for attribute in _set_in(statement, holder_name, others)
    }


def _statements(kind: type, name: str, deeper: int = 2) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of a method that are always come to, also of those it calls.

    Each with the name that the object has there, `self` as a rule.
    """
    try:
        function = inspect.getattr_static(kind, name)
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except Exception:  # it is made by another function, say
        return
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list or not tree.args.args:
        return
    own = tree.args.args[0].arg
    for statement in tree.body:
        if any(isinstance(node, ast.Return | ast.Try) for node in ast.walk(statement)):
            return
        yield own, statement
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(called_on), called))) if deeper:
                if called_on == own:
                    yield from _statements(kind, called, deeper - 1)


def _set_in(statement: ast.stmt, own: str, others: Iterable[str]) -> set[str]:
    """Name what a statement sets of its own object, unless by that or by others."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return set()
    read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    if not read.isdisjoint({own, *others}):
        return set()
    return {
        target.attr
        for target in targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == own
    }

"""What is as it was at a training's first step, whatever a sanity check has left in it.

Metrics of torchmetrics that a hook resets as the training starts, or that validation leaves reset;
attributes that a hook sets by a statement of its own that does not read the object.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator

import pytorch_lightning as pl
import torch
from torchmetrics import Metric

from twinrun.set_attributes import set_by

# Behind a sanity check, ahead of the first step.
_HOOKS = ("on_train_start", "on_train_epoch_start")


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


def set_anew(holder: object) -> set[str]:
    """Name the attributes that a hook of a module or callback sets as a training starts.

    By a statement that is always come to, and whose value does not go by the object.
    """
    is_module = isinstance(holder, torch.nn.Module)
    parameters = [*inspect.signature(pl.Callback.on_train_start).parameters][1:]
    found: set[str] = set()
    for hook in _HOOKS:
        for statement in _statements(getattr(type(holder), hook, None)):
            others = () if is_module else parameters
            found |= _set_in(statement, ("self", *others))
    return found


def _statements(hook: object) -> Iterator[ast.stmt]:
    """Yield the statements of a function that are always come to."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(hook))).body  # pyrefly: ignore[bad-argument-type]
    except Exception:  # it is made by another function, say
        return
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
        return
    for statement in tree.body:
        if any(isinstance(node, ast.Return | ast.Try) for node in ast.walk(statement)):
            return
        yield statement


def _set_in(statement: ast.stmt, holders: Iterable[str]) -> set[str]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return set()
    read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    if not read.isdisjoint(holders):
        return set()
    return {
        target.attr
        for target in targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }

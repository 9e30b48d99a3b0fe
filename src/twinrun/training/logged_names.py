"""Whether a module may come to log a metric, by what its code says.

A rehearsal sees one step and the end of one epoch. A metric may be logged later, from the second
epoch on, say. That nothing logs it can be known only where every call of `log` in the user's code
writes out its name, or the beginning or end of it, and none can be this one.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytorch_lightning as pl

from twinrun.process.import_record import is_outside

LIBRARIES = ("torch", "pytorch_lightning", "lightning", "lightning_fabric", "builtins", "twinrun")
# Modules and loggers with a function `log` of their own.
OTHERS = ("math", "cmath", "np", "numpy", "torch", "F", "logging", "logger", "log", "_logger")
SUFFIXES = ("", "_step", "_epoch")  # Lightning's, of what is logged on steps and on epochs
ANYTHING = ".*"


def may_be_logged(metric: str, module: pl.LightningModule, files: Iterable[str]) -> bool:
    """Say whether code may log a metric of this name; in doubt, yes.

    Args:
        metric: its name.
        module: that is trained.
        files: the user's Python files that were imported.
    """
    # Asking for `trainer` raises where there is none.
    watched = [module, *getattr(module._trainer, "callbacks", [])]
    for kind in {kind for each in watched for kind in type(each).__mro__}:
        if kind.__module__.split(".")[0] in LIBRARIES:
            continue
        file = inspect.getsourcefile(kind)
        # An installed package that logs by itself is not read.
        if file is None or not is_outside(file):
            return True
    try:
        trees = [ast.parse(Path(file).read_bytes()) for file in files if file.endswith(".py")]
    except (OSError, SyntaxError, ValueError):
        return True
    patterns = [pattern for tree in trees for pattern in _names(tree)]
    # By hand, and from several loaders: `name/dataloader_idx_1`.
    ends = "|".join(SUFFIXES)
    return any(re.fullmatch(f"(?:{p})(?:{ends})(?:/dataloader_idx_.*)?", metric) for p in patterns)


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield a regular expression for each name that a file may log."""
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_log(node.func):
            called.add(node.func)
            options = {option.arg: option.value for option in node.keywords}
            first = node.args[0] if node.args else options.get("name", options.get("dictionary"))
            yield from _names_in(first)
    # `log = self.log`, or handed on to somebody.
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_log(node) and node not in called:
            yield ANYTHING


def _is_log(function: ast.AST) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in ("log", "log_dict"):
        return False
    owner = function.value
    return not (isinstance(owner, ast.Name) and owner.id in OTHERS)


def _names_in(value: ast.AST | None) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.JoinedStr(values=parts):
            texts = [p.value for p in parts if isinstance(p, ast.Constant)]
            yield (
                "".join(
                    re.escape(str(p.value)) if isinstance(p, ast.Constant) else ANYTHING
                    for p in parts
                )
                if texts
                else ANYTHING
            )
        case ast.Dict(keys=keys):
            for key in keys:
                yield from _names_in(key)
        case _:
            yield ANYTHING

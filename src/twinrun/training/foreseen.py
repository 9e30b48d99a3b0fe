"""What a training comes to hold in later steps than the rehearsed one: jobs ask for it, too.

Frozen parameters that are trained later have gradients and states of the optimizer then. Whether
that comes is not known: a callback for it says so, or code that thaws behind the first step. Else a
large network with a small adapter would ask for what it never holds.
"""

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import BaseFinetuning
from torch.utils._pytree import tree_leaves

from twinrun.batches import num_bytes
from twinrun.checkpoint.own_memory import id_of_memory
from twinrun.config.memory import Foreseen
from twinrun.process.imported_code import imported_files

# What these do has been done when the first step is over.
BEFORE = (
    *("__init__", "__post_init__", "setup", "prepare_data", "configure_model"),
    *("configure_optimizers", "on_fit_start", "on_train_start"),
)
UNKNOWN = 2  # states of a parameter, as Adam has; where no parameter has shown any


def foreseen_of(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    states: int,
    precision: str,
    base: int,
    files: Iterable[str] | None = None,
) -> Foreseen:
    """Return what a training may hold otherwise than the first step has shown.

    Args:
        trainer: that has taken it.
        module: that is trained.
        states: bytes of the optimizers' state.
        precision: of the variant that was rehearsed.
        base: the most memory before data and module were made, in MiB.
        files: the user's Python files; those that were imported by default.
    """
    if files is None:
        files = [entry["file"] for entry in imported_files().values()]
    numbers = [p for p in module.parameters() if p.is_floating_point() or p.is_complex()]
    trained = sum(p.nbytes for p in numbers if p.requires_grad)
    frozen = sum(p.nbytes for p in numbers if not p.requires_grad)
    gradients = frozen if frozen and may_thaw(trainer, files) else 0
    each = states / trained if trained else UNKNOWN
    return {
        "precision": precision,
        "base_memory_mb": base,
        "gradients_bytes": gradients,
        "optimizer_bytes": round(gradients * each) + sum(map(_more_history, trainer.optimizers)),
        "callbacks_bytes": _held_by_callbacks(trainer, module),
    }


def _held_by_callbacks(trainer: pl.Trainer, module: pl.LightningModule) -> int:
    """Return the bytes of the tensors in attributes of callbacks, without the module's own."""
    tensors: dict[object, int]
    tensors = {id_of_memory(tensor): 0 for tensor in (*module.parameters(), *module.buffers())}
    callbacks = vars(trainer)["callbacks"]
    values = [list(vars(each).values()) for each in callbacks if not _is_of_rehearsal(each)]
    for value in tree_leaves(values):
        is_module = isinstance(value, torch.nn.Module)
        inside = [*value.parameters(), *value.buffers()] if is_module else [value]
        for found in inside:
            if isinstance(found, torch.Tensor):
                with suppress(Exception):  # of a user's class, or of a kind of its own
                    # What is not strided lies in parts, which some kinds make when asked.
                    where = id_of_memory(found) or ("in parts", id(found))
                    tensors.setdefault(where, num_bytes(found))
    return sum(tensors.values())


def _is_of_rehearsal(callback: pl.Callback) -> bool:
    return type(callback).__module__.startswith("twinrun.")


def _more_history(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes that the history of an optimizer is still going to take."""
    if not isinstance(optimizer, torch.optim.LBFGS):
        return 0
    (group,) = optimizer.param_groups  # it allows no more
    size = sum(p.nbytes for p in group["params"] if p.requires_grad)
    filled = max((len(state.get("old_dirs", ())) for state in optimizer.state.values()), default=0)
    return 2 * max(group["history_size"] - filled, 0) * size  # a direction and a step of each


def may_thaw(trainer: pl.Trainer, files: Iterable[str]) -> bool:
    """Say whether frozen parameters may be trained later."""
    if any(isinstance(callback, BaseFinetuning) for callback in vars(trainer)["callbacks"]):
        return True
    return any(thaws(tree) for tree in _trees(files))


def _trees(files: Iterable[str]) -> Iterator[ast.AST]:
    for file in files:
        try:
            yield ast.parse(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError):  # gone, or no Python
            continue


def thaws(tree: ast.AST) -> bool:
    """Say whether code has words that thaw parameters, where they act behind the first step."""
    if isinstance(tree, ast.FunctionDef) and tree.name in BEFORE:
        return False
    if _is_thawing(tree):
        return True
    return any(thaws(node) for node in ast.iter_child_nodes(tree))


def _is_thawing(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            values = [*node.args, *(option.value for option in node.keywords)]
            is_true = not values or not _is_false(values[0])
            return "unfreeze" in name or (name == "requires_grad_" and is_true)
        case ast.Assign(targets=targets, value=value):
            attributes = [t.attr for t in targets if isinstance(t, ast.Attribute)]
            return "requires_grad" in attributes and not _is_false(value)
    return False


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False

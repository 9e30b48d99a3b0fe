"""What stands between a step's forward pass, its backward pass and the update of the weights.

Lightning calls hooks there, of the module and of callbacks; torch calls those of optimizers and
parameters; and the Trainer may clip, scale or accumulate. A step in one piece (compiled whole, or
captured) has no room for them. Where anything stands between, the step is done in parts, so that
everything is called as always.

Order of calls: https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import (
    DoublePrecision,
    HalfPrecision,
    MixedPrecision,
    Precision,
)
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.optim import optimizer as torch_optimizer

# `configure_gradient_clipping` calls `clip_gradients` by default; a module may override either.
OF_MODULE = (
    "optimizer_step",
    "optimizer_zero_grad",
    "on_before_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "configure_gradient_clipping",
    "clip_gradients",
)
# Callbacks have hooks around the passes, but no `backward` and no clipping of their own.
OF_CALLBACK = (
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
)
# A callback with this attribute set to True reads gradients in `on_before_optimizer_step` and
# nothing else: it may be called when the update is done.
READS_GRADIENTS_ONLY = "reads_gradients_only"
# Exact types, since a subclass may do anything around the backward pass and the update.
PRECISIONS = (Precision, DoublePrecision, HalfPrecision, MixedPrecision)
# Of torch's optimizers those whose compiled update is the plain one (tests hold each to it).
# Others, and classes of a user's own, are called as they are.
OPTIMIZERS = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.Rprop,
)


def of_module(module: pl.LightningModule) -> list[str]:
    """List the hooks between the passes that a module overrides."""
    return [name for name in OF_MODULE if is_overridden(name, module, pl.LightningModule)]


def of_class(module_class: type[pl.LightningModule]) -> list[object]:
    """List the hooks between the passes that a class has, its own or Lightning's."""
    return [getattr(module_class, name) for name in OF_MODULE]


def exchanged(before: Sequence[object], module_class: type[pl.LightningModule]) -> Iterator[str]:
    """List the hooks that a class has others of than before: a patch, or another class."""
    for name, hook in zip(OF_MODULE, before, strict=True):
        if getattr(module_class, name) is not hook:
            yield name


def of_unheld(module: torch.nn.Module, parameters: Sequence[torch.nn.Parameter]) -> Iterator[str]:
    """Say where `backward` would fill gradients that no update reads."""
    held = {id(parameter) for parameter in parameters}
    # `torch.autograd.grad` takes the optimizer's only, and does less.
    if any(p.requires_grad and id(p) not in held for p in module.parameters()):
        yield "a parameter that the optimizer does not hold"


def of_trainer(trainer: pl.Trainer) -> Iterator[str]:
    """Say what the Trainer, its plugins and its callbacks do between the passes."""
    # Lightning clips in `Precision._after_closure`, between the backward pass and the update.
    if trainer.gradient_clip_val:
        yield f"Trainer(gradient_clip_val={trainer.gradient_clip_val})"
    # Lightning's closure then zeroes gradients at every k-th batch only; updates are as rare.
    if trainer.accumulate_grad_batches > 1:
        yield f"Trainer(accumulate_grad_batches={trainer.accumulate_grad_batches})"
    if not isinstance(trainer.strategy, SingleDeviceStrategy):
        yield f"the strategy {type(trainer.strategy).__name__}"
    plugin = trainer.precision_plugin
    # MixedPrecision has a GradScaler with 16-mixed only; bf16-mixed scales nothing.
    if type(plugin) not in PRECISIONS or getattr(plugin, "scaler", None) is not None:
        yield f"the precision {plugin.precision}, which scales gradients"
    for callback in trainer.callbacks:  # pyrefly: ignore[missing-attribute]
        if not getattr(callback, READS_GRADIENTS_ONLY, False):
            for name in OF_CALLBACK:
                if is_overridden(name, callback, pl.Callback):
                    yield f"{name} of {type(callback).__name__}"


def of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """Say what an optimizer does at its step besides torch's own update."""
    name = type(optimizer).__name__
    if type(optimizer) not in OPTIMIZERS:
        yield f"the update of {name}"
    # A scheduler wraps `step` to see that it was called, and that is all it does:
    # https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/lr_scheduler.py
    own_step = vars(optimizer).get("step")
    if own_step is not None and not hasattr(own_step, "_wrapped_by_lr_sched"):
        yield f"a replaced step of {name}"
    # What `step` calls, or Lightning beside it: `_init_group` may clip, `zero_grad` keep gradients.
    for own, value in vars(optimizer).items():
        if own != "step" and callable(value) and callable(getattr(type(optimizer), own, None)):
            yield f"a replaced {own} of {name}"
    # torch calls these in its wrapper of `step`, which a step in one piece goes around.
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        yield f"a step hook of {name}"
    if torch_optimizer._global_optimizer_pre_hooks or torch_optimizer._global_optimizer_post_hooks:
        yield "a step hook of all optimizers"
    if any(group.get("fused") for group in optimizer.param_groups):
        yield f"the fused update of {name}"
    for group in optimizer.param_groups:
        odd = [key for key, value in group.items() if key != "params" and _is_tensor(value)]
        if odd:
            yield f"{odd[0]} of {name}, which is a tensor"


def of_parameters(parameters: Sequence[torch.Tensor]) -> Iterator[str]:
    """Say whether parameters have hooks that their gradients pass through."""
    for parameter in parameters:
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            yield "a hook of a parameter"
            return


def _is_tensor(value: object) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(found, torch.Tensor) for found in values)


@contextmanager
def uncaptured(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[None]:
    """Leave `capturable` in an optimizer's groups as it is.

    Where a compiled function writes to a group, as to set a rate, torch's compiler writes back with
    it that the optimizer is capturable, also to groups that have no such key:
    https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_dynamo/variables/optimizer.py
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    before = [group.get("capturable") for group in groups]
    try:
        yield
    finally:
        for group, held in zip(groups, before, strict=True):
            if group.get("capturable") is not held:
                group["capturable"] = held
                if held is None:
                    del group["capturable"]

"""Training and prediction steps, as fast as a variant makes them.

The plain step is what Lightning's automatic optimization does: the module's own `training_step`,
the backward pass, its own optimizer. A variant's settings make it faster without changing what it
computes, but for the rounding of sums taken in another order:

compile: module     compiles `training_step` and `predict_step`: what a user would write first
compile: step       compiles forward, backward and optimizer into one graph and fuses what lies
                    between convolutions and matrix products. Helps wherever a step compiles
optimizer: fused    updates all parameters in one call. Helps plain steps of many parameters
optimizer: foreach  updates them in a few calls. Helps where there is no fused form
cuda_graph: true    replays a step as one launch. Helps where a GPU waits for Python

Layouts are in `acceleration.placement`; they help most in a compiled step.
"""

import inspect
from collections.abc import Callable, Iterator
from itertools import chain
from typing import cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.signature_utils import is_param_in_hook_signature

from twinrun.acceleration import between
from twinrun.acceleration.compilation import CAN_COMPILE_BACKWARD, Compiled
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.fast_step import FastStep
from twinrun.acceleration.whole_step import Step, compiled, returned_loss, updated_by
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.run_records import CompilationCounts


class TrainingStep:
    """Does a step with a batch and its index, and returns the loss from before the step."""

    def __init__(
        self,
        training_step: Step,
        optimizer: torch.optim.Optimizer,
        variant: Variant,
        module: pl.LightningModule,
    ) -> None:
        """Make it ready; it compiles when it is called.

        Args:
            training_step: the module's, with what the precision puts around it.
            optimizer: over parameters that are on their device already.
            variant: its settings.
            module: hooks between the passes that it overrides are not called by this loop, but are
                left the room that they have in a training.

        Raises:
            TwinrunError: if the settings contradict each other, the device or the optimizer.
        """
        # Before `set_up`, which changes the optimizer.
        check(variant)
        set_up(optimizer, variant)
        self._training_step, self._optimizer = training_step, optimizer
        self._overridden, self._module = between.of_module(module), module
        self._fast: FastStep | None = None
        if variant.compile != "none" or variant.cuda_graph:
            self._fast = FastStep(training_step, variant, module)

    def __call__(self, batch: object, index: int) -> torch.Tensor | None:
        """Do a step; a batch that the module skips has no loss."""
        if self._fast is None:
            return plain_step(self._training_step, self._optimizer, batch, index)
        # Lazy, since `form` reads it at every step, and only up to the first reason.
        form = self._fast.form(self._optimizer, self._between())
        if form == "whole":
            with between.uncaptured([self._optimizer]):
                is_done, result = self._fast.whole(batch, index)
            if is_done:
                return returned_loss(result)
        step = self._training_step if form == "plain" else self._part
        loss = plain_step(step, self._optimizer, batch, index)
        if form == "plain":
            self._fast.note_plain(self._optimizer)
        return loss

    def _part(self, batch: object, index: int) -> object:
        assert self._fast is not None  # noqa: S101  asked for by a fast step
        with between.uncaptured([self._optimizer]):
            return self._fast.part(batch, index)

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for a step that compiles nothing."""
        return self._fast.counts() if self._fast is not None else None

    @property
    def in_parts(self) -> str | None:
        """Why the step is not done in one piece, where it was to be."""
        return self._fast.in_parts if self._fast is not None else None

    def _between(self) -> Iterator[str]:
        return chain(
            self._overridden,
            between.of_optimizer(self._optimizer),
            between.of_parameters(updated_by(self._optimizer)),
            between.of_unheld(self._module, updated_by(self._optimizer)),
        )


class Prediction:
    """Predicts a batch."""

    def __init__(self, predict_step: Step, variant: Variant) -> None:
        """Make it ready; it compiles when it is called."""
        self.compiled: Compiled | None = None
        """The compiled function, with its counts; None if there is none."""
        self._predict = predict_step
        if variant.compile != "none":

            def predict(batch: object, index: int) -> object:
                return predict_step(batch, index)

            self._predict = self.compiled = compiled(predict, variant)

    def __call__(self, batch: object, index: int) -> object:
        """Return what `predict_step` returns."""
        # As the Trainer predicts, whose `inference_mode` is on by default.
        with torch.inference_mode():
            return self._predict(batch, index)

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for a prediction in eager mode."""
        return None if self.compiled is None else self.compiled.counts()


def plain_step(
    training_step: Step, optimizer: torch.optim.Optimizer, batch: object, index: int
) -> torch.Tensor | None:
    """Do the step that a plain loop does, and return its loss."""
    # The order of Lightning's closure: `training_step`, `zero_grad`, `backward`.
    loss = returned_loss(training_step(batch, index))
    optimizer.zero_grad()
    if loss is None:
        return None
    loss.backward()
    optimizer.step()
    return loss.detach()


def with_index(step: Callable[..., object]) -> Step:
    """Let a step that takes no `batch_idx` be called with one, as the Trainer lets it.

    Raises:
        TwinrunError: if it takes the loader's iterator in place of a batch.
    """
    parameters = inspect.signature(step).parameters
    if "dataloader_iter" in parameters:
        raise TwinrunError(
            "training_step takes the argument dataloader_iter: a step that is fast, or outside of "
            "the Trainer's loop, needs a batch; leave compile, layout, optimizer and cuda_graph out"
        )
    # `batch_idx` is optional in Lightning's `training_step`, which asks in this way.
    if is_param_in_hook_signature(step, "batch_idx", min_args=2):
        return step
    return lambda batch, index: step(batch)


def calls_to_warm_up(variant: Variant) -> int:
    """Say how many training steps compile, allocate or capture something."""
    captured = CudaGraph.CALLS_TO_WARM_UP if variant.cuda_graph else 0
    return 1 + (variant.compile == "step") + captured


def set_up(optimizer: torch.optim.Optimizer, variant: Variant) -> None:
    """Set an optimizer, before its first step, to what a variant asks for.

    Raises:
        TwinrunError: if it cannot.
    """
    form = variant.optimizer
    if form == "default":
        return
    if form not in optimizer.defaults:
        raise TwinrunError(f"optimizer: {type(optimizer).__name__} has no {form} form")
    if form == "fused":
        _check_fused(optimizer)
    for group in optimizer.param_groups:
        # Both keys, since the module may have asked for the other form.
        group["fused"], group["foreach"] = form == "fused", form == "foreach"
    # Of an optimizer that was made fused, which alone takes the scale of `16-mixed` by itself.
    if form == "foreach" and getattr(optimizer, "_step_supports_amp_scaling", False):
        vars(optimizer)["_step_supports_amp_scaling"] = False


def _check_fused(optimizer: torch.optim.Optimizer) -> None:
    """Refuse parameters whose device or dtype the fused form does not take, as torch knows them.

    Raises:
        TwinrunError: naming them.
    """
    ancestors = type(optimizer).__mro__
    ours = ancestors[: ancestors.index(torch.optim.Optimizer)]
    of_torch = [kind for kind in ours if kind.__module__.startswith("torch.optim.")]
    if not of_torch:  # an optimizer of somebody else's, which asks by itself
        return
    made = cast("Callable[..., torch.optim.Optimizer]", of_torch[0])
    kinds = {(p.device, p.dtype) for group in optimizer.param_groups for p in group["params"]}
    for device, dtype in kinds:
        # Only a step asks: one that moves nothing of the module's, without the hooks of all
        # optimizers, which would take it for an update.
        tried = torch.zeros(1, device=device, dtype=dtype, requires_grad=True)
        tried.grad = torch.zeros_like(tried)
        try:
            with torch.no_grad():
                inspect.unwrap(of_torch[0].step)(made([tried], fused=True))
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # which say nothing of the form
            raise
        except RuntimeError:
            name = type(optimizer).__name__
            raise TwinrunError(
                f"optimizer: {name} has no fused form for parameters of {dtype} on {device.type}"
            ) from None


def is_fast(variant: Variant) -> bool:
    """Say whether a variant has any setting that is to make steps faster."""
    names = ("compile", "layout", "optimizer")
    return variant.cuda_graph or any(
        getattr(variant, name) not in ("none", "default") for name in names
    )


def check(variant: Variant) -> None:
    """Refuse settings that contradict each other, the device or this torch.

    Raises:
        TwinrunError: naming the setting.
    """
    is_on_cpu = variant.accelerator == "cpu"
    if variant.compile == "step" and not CAN_COMPILE_BACKWARD:
        raise TwinrunError(f"compile: torch {torch.__version__} cannot compile a backward pass")
    if variant.layout == "features_first" and (variant.compile == "none" or not is_on_cpu):
        raise TwinrunError("layout: features_first works on code compiled for the CPU only")
    if variant.optimizer != "default" and variant.compile == "step":
        raise TwinrunError("optimizer: a compiled step fuses it by itself, leave the key out")
    if variant.cuda_graph and not captures_on(variant):
        raise TwinrunError("cuda_graph: needs a CUDA device, and the variant has none here")


def captures_on(variant: Variant) -> bool:
    """Say whether steps can be captured on a variant's device."""
    return variant.accelerator != "cpu" and torch.cuda.is_available()

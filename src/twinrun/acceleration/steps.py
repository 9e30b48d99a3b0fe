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
from collections.abc import Callable, Mapping
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.acceleration.compilation import CAN_COMPILE_BACKWARD, Compiled
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

Step = Callable[[Any, int], Any]


class TrainingStep:
    """Does a step with a batch and its index, and gives the loss from before the step."""

    def __init__(
        self, training_step: Step, optimizer: torch.optim.Optimizer, variant: Variant
    ) -> None:
        """Make it ready; it compiles when it is called.

        Args:
            training_step: the module's.
            optimizer: over parameters that are on their device already.
            variant: its settings.

        Raises:
            TwinrunError: if the settings contradict each other, the device or the optimizer.
        """
        check(variant)
        set_up(optimizer, variant)
        self.compiled: Compiled | None = None
        """The compiled function, with its counts; None while there is none."""

        def loss_of(batch: Any, index: int) -> torch.Tensor:
            result = training_step(batch, index)
            return result["loss"] if isinstance(result, Mapping) else result

        if variant.compile == "step":
            self._step = self._first_of_whole(loss_of, optimizer, variant)
        elif variant.compile == "module":
            self.compiled = compiled(loss_of, variant)
            self._step = plain_step(self.compiled, optimizer)
        else:
            self._step = plain_step(loss_of, optimizer)
        self._captured: CudaGraph | None = None
        if variant.cuda_graph:
            self._captured = CudaGraph(lambda batch, index: self._step(batch, index))

    def __call__(self, batch: Any, index: int) -> torch.Tensor:
        """Do a step."""
        return (self._captured or self._step)(batch, index)

    def _first_of_whole(
        self, loss_of: Step, optimizer: torch.optim.Optimizer, variant: Variant
    ) -> Step:
        """Give a plain step that is followed by compiled ones.

        It shows which parameters get gradients, and fills the optimizer's state. The gradients'
        tensors are kept for good: the Trainer takes them away when a fit begins.
        """

        def first(batch: Any, index: int) -> torch.Tensor:
            loss = plain_step(loss_of, optimizer)(batch, index)
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            kept = [(p, p.grad) for p in parameters if p.grad is not None]
            whole = self.compiled = compiled(whole_step(loss_of, optimizer), variant)

            def step(batch: Any, index: int) -> torch.Tensor:
                for parameter, gradient in kept:
                    if parameter.grad is not gradient:
                        parameter.grad = gradient
                return whole(batch, index)

            self._step = step
            return loss

        return first


class Prediction:
    """Predicts a batch."""

    def __init__(self, predict_step: Step, variant: Variant) -> None:
        """Make it ready; it compiles when it is called."""
        self.compiled: Compiled | None = None
        """The compiled function, with its counts; None if there is none."""
        self._predict = predict_step
        if variant.compile != "none":

            def predict(batch: Any, index: int) -> Any:
                return predict_step(batch, index)

            self._predict = self.compiled = compiled(predict, variant)

    def __call__(self, batch: Any, index: int) -> Any:
        """Give what `predict_step` gives."""
        with torch.inference_mode():
            return self._predict(batch, index)


def compiled(function: Step, variant: Variant) -> Compiled:
    """Compile a plain function as a variant's settings ask for."""
    is_whole = variant.compile == "step"
    if variant.layout == "features_first":
        from twinrun.acceleration.features_first import backend  # imports the whole compiler

        return Compiled(function, backend=backend, fullgraph=is_whole)
    return Compiled(function, fullgraph=is_whole)


def plain_step(loss_of: Step, optimizer: torch.optim.Optimizer) -> Step:
    """Give the step that a plain loop does."""

    def step(batch: Any, index: int) -> torch.Tensor:
        loss = loss_of(batch, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def whole_step(loss_of: Step, optimizer: torch.optim.Optimizer) -> Step:
    """Give the same step as a function that compiles into one graph, after a plain one.

    Gradients are copied into tensors that stay, and the optimizer's `step` is called without the
    wrapper that torch gives it: both would break the graph. The gradients can be seen afterwards,
    as after a plain step.
    """
    update = inspect.unwrap(type(optimizer).step)
    groups = optimizer.param_groups
    parameters = [p for group in groups for p in group["params"] if p.grad is not None]

    def step(batch: Any, index: int) -> torch.Tensor:
        loss = loss_of(batch, index)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad.copy_(gradient)
            update(optimizer)
        return loss.detach()

    return step


def with_index(step: Callable[..., Any]) -> Step:
    """Let a step that takes no `batch_idx` be called with one, as the Trainer lets it."""
    if len(inspect.signature(step).parameters) > 1:
        return step
    return lambda batch, index: step(batch)


def calls_to_warm_up(variant: Variant) -> int:
    """Say how many training steps compile, allocate or capture something."""
    captured = CudaGraph.CALLS_TO_WARM_UP if variant.cuda_graph else 0
    return 1 + (variant.compile == "step") + captured


def optimizer_of(module: pl.LightningModule) -> torch.optim.Optimizer:
    """Give the only optimizer that `configure_optimizers` names, in whatever form.

    Raises:
        TwinrunError: if there are none or several, or the module optimizes manually.
    """
    name = type(module).__name__
    if not module.automatic_optimization:
        raise TwinrunError(f"{name} optimizes manually, which needs the Trainer")
    found = optimizers_in(module.configure_optimizers())
    if len(found) != 1:
        raise TwinrunError(
            f"{name}.configure_optimizers gives {len(found)} optimizers, where automatic "
            f"optimization needs exactly one"
        )
    return found[0]


def optimizers_in(configured: Any) -> list[torch.optim.Optimizer]:
    """List the optimizers in whatever form `configure_optimizers` returns."""
    if isinstance(configured, tuple) and len(configured) == 2 and isinstance(configured[0], list):
        configured = configured[0]  # ([optimizers], [schedulers])
    several = list(configured) if isinstance(configured, list | tuple) else [configured]
    several = [entry["optimizer"] if isinstance(entry, Mapping) else entry for entry in several]
    return [entry for entry in several if isinstance(entry, torch.optim.Optimizer)]


def set_up(optimizer: torch.optim.Optimizer, variant: Variant) -> None:
    """Set an optimizer, before its first step, to what a variant asks for.

    Raises:
        TwinrunError: if it cannot.
    """
    form = variant.optimizer
    if form != "default" and form not in optimizer.defaults:
        raise TwinrunError(f"optimizer: {type(optimizer).__name__} has no {form} form")
    stays_on_device = variant.cuda_graph or variant.compile == "step"
    for group in optimizer.param_groups:
        if form != "default":
            group["fused"], group["foreach"] = form == "fused", form == "foreach"
        if stays_on_device and "capturable" in group and group["params"][0].is_cuda:
            group["capturable"] = True


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
    if variant.cuda_graph and (is_on_cpu or not torch.cuda.is_available()):
        raise TwinrunError("cuda_graph: needs a CUDA device, and the variant has none here")

"""Put a variant's fast steps under Lightning's Trainer.

The Trainer fetches, moves, counts, logs, validates and calls hooks as always. In a step that is
done in one piece (see `fast_step`) its own `zero_grad`, backward pass and optimizer step are
left out: that step has done them, and nothing else stands between them. A run predicts once, which
no compilation would pay for: `predict_step` stays the module's own. What a compiled or captured
`training_step` logs is collected inside and logged after it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.trainer import call
from torch.utils._pytree import tree_map_only

from twinrun.acceleration import between
from twinrun.acceleration.fast_step import FastStep, Form, FormState
from twinrun.acceleration.late_changes import too_late
from twinrun.acceleration.placement import lay_out, lay_out_batch
from twinrun.acceleration.steps import check, set_up, with_index
from twinrun.acceleration.whole_step import Logged, updated_by
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.run_records import CompilationCounts

Arguments = TypeVar("Arguments", tuple[object, ...], dict[str, object])
# Hooks of the module that are ours while its steps are fast.
REPLACED = ("optimizer_step", "backward", "optimizer_zero_grad")


class Speed(pl.Callback):
    """Does one module's steps as a variant asks; one of the Trainer's callbacks."""

    def __init__(self, module: pl.LightningModule, variant: Variant) -> None:
        """Replace steps in the module itself; its class, and so other modules, stay as they are.

        Args:
            module: its layers may be made later, in `setup` or `configure_model`.
            variant: its settings; what they cannot do is raised when the fit begins.
        """
        self._module, self._variant = module, variant
        self._fast: FastStep | None = None
        self._logged: Logged = []
        self._form: Form = "parts"
        if variant.compile != "none" or variant.cuda_graph or variant.layout != "default":
            # Not of a plain variant, for which a module may take the loader's iterator.
            self._own_step = with_index(module.training_step)
            self._class_step = type(module).training_step
        # Read before any of them is replaced below.
        self._overridden = between.of_module(module)
        self._class_hooks = between.of_class(type(module))
        self._zero_grad, self._backward = module.optimizer_zero_grad, module.backward
        self._optimizer_step = module.optimizer_step
        # Instance attributes, which Lightning finds before the class's methods.
        if variant.compile != "none" or variant.cuda_graph:
            self._fast = FastStep(self._own_step, variant, module)
            self._logged = self._fast.logged
            vars(module)["training_step"] = self._training_step
        elif variant.layout != "default":
            vars(module)["training_step"] = self._plain
        if variant.compile == "step" or variant.cuda_graph:
            vars(module).update(
                optimizer_step=self._step,
                backward=self._unless_whole(self._backward),
                optimizer_zero_grad=self._unless_whole(self._zero_grad),
            )

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for a training that compiles nothing."""
        return None if self._fast is None else self._fast.counts()

    def unproven(self, steps: int) -> list[str]:
        """Say for what values code was compiled that no step of a proof of so many has run."""
        compiled = [] if self._fast is None else self._fast.compiled
        found = [reason for each in compiled for reason in each.of_values_after(steps)]
        return [
            f"from a later step on than those of its proof, code is compiled anew ({reason})"
            for reason in found[:1]
        ]

    @property
    def recordings(self) -> list[object]:
        """What is replayed, an object for each recorded step."""
        return [] if self._fast is None else self._fast.recordings

    @property
    def in_parts(self) -> str | None:
        """Why steps are not done in one piece, where they were to be."""
        return None if self._fast is None else self._fast.in_parts

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set up what must be there first: the layers, and the optimizers.

        Raises:
            TwinrunError: if the variant's settings contradict each other, the device, the module
                or the optimizer.
        """
        check(self._variant)
        lay_out(self._module, self._variant.layout)
        # The Trainer's `strategy.setup` has made them just before this hook.
        for optimizer in trainer.optimizers:
            set_up(optimizer, self._variant)
        if self._variant.compile != "step" and not self._variant.cuda_graph:
            return
        # In manual optimization Lightning never calls the module's `optimizer_step`.
        if not pl_module.automatic_optimization:
            key = "compile: step" if self._variant.compile == "step" else "cuda_graph: true"
            raise TwinrunError(
                f"{key}: {type(pl_module).__name__} optimizes manually, so that its updates "
                f"may be anywhere in a step; say compile: module, or leave the key out"
            )

    def hindrance(self) -> str | None:
        """Say why a checkpoint would not lead to the same bits; `Resumable` asks."""
        if self._fast is None or not self._fast.depends_on_history:
            return None
        return (
            "compiled code depends on what came first (batches of many shapes, or Python numbers "
            "that changed)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what decides how further steps are done, for a checkpoint."""
        return {} if self._fast is None else {**self._fast.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of the training that is resumed."""
        if self._fast is not None and state_dict:
            self._fast.load_state_dict(cast(FormState, state_dict))

    def _check_class(self) -> None:
        """Refuse a further step where the class no longer has the one that is fast.

        Raises:
            TwinrunError: if the module, or its class, was given another one under way.
        """
        found = type(self._module)
        if found.training_step is not self._class_step:
            raise TwinrunError(
                f"training_step of {found.__name__} is not the one that the training began with; "
                f"a fast step would still be that one: leave compile, layout and cuda_graph out"
            )

    def _plain(self, batch: object, batch_idx: int) -> object:
        self._check_class()
        return self._own_step(lay_out_batch(batch, self._variant.layout), batch_idx)

    def _training_step(self, batch: object, batch_idx: int) -> object:
        """Stand for the module's `training_step`."""
        assert self._fast is not None  # noqa: S101  set where this is put in place
        if self._form == "plain":
            return self._plain(batch, batch_idx)
        self._check_class()
        # Also of a training that is resumed, the number in the whole one.
        self._fast.step = self._module.trainer.fit_loop.epoch_loop.total_batch_idx + 1
        # Outside of the compiled function, which keeps a graph for each set of strides.
        batch = lay_out_batch(batch, self._variant.layout)
        with self._collected(), between.uncaptured(self._module.trainer.optimizers):
            is_done, result = False, None
            if self._form == "whole":
                is_done, result = self._fast.whole(batch, batch_idx)
                if is_done and self._fast.is_new():
                    # Hooks that the step has just added were not called in it.
                    for late in self._between(self._module.trainer.optimizers[0]):
                        raise too_late(late, self._variant)
            if not is_done:
                self._form = "parts"
                result = self._fast.part(batch, batch_idx)
        for method, arguments, options in self._logged:
            getattr(self._module, method)(*_with_numbers(arguments), **_with_numbers(options))
        self._logged.clear()
        return result

    def _step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], object] | None = None,
    ) -> None:
        """Stand for the module's `optimizer_step`, around which Lightning builds a whole step."""
        assert self._fast is not None  # noqa: S101
        torchs = optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        # At every step: a hook may freeze a layer or add a group of parameters at any time.
        self._form = self._fast.form(torchs, self._between(torchs))
        before = self._form
        try:
            if self._form == "whole":
                self._do_whole(torchs, optimizer, epoch, batch_idx, optimizer_closure)
            else:
                self._optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        finally:
            # Outside of a step `backward` and `optimizer_zero_grad` are the module's own.
            self._form = "parts"
        if before == "plain":
            self._fast.note_plain(torchs)

    def _between(self, optimizer: torch.optim.Optimizer) -> Iterator[str]:
        parameters = updated_by(optimizer)
        own = vars(self._module)
        is_replaced = own.get("training_step") != self._training_step
        # What the module puts in place of a hook under way; three of them are ours.
        late = (name for name in own if name in between.OF_MODULE and name not in REPLACED)
        patched = between.exchanged(self._class_hooks, type(self._module))
        names = chain(self._overridden, ["training_step"] * is_replaced, late, patched)
        return chain(
            (f"{name} of {type(self._module).__name__}" for name in names),
            between.of_trainer(self._module.trainer),
            between.of_optimizer(optimizer),
            between.of_parameters(parameters),
            between.of_unheld(self._module, parameters),
        )

    def _do_whole(
        self,
        torchs: torch.optim.Optimizer,
        optimizer: torch.optim.Optimizer | LightningOptimizer,
        epoch: int,
        batch_idx: int,
        closure: Callable[[], object] | None,
    ) -> None:
        """Have Lightning's closure do a step in one piece, or in parts where that is impossible."""
        assert closure is not None  # noqa: S101  Lightning always gives one
        # Called here it misses `Precision._wrap_closure`, which calls hooks and clips after it.
        loss = closure()
        if self._form == "whole":
            # Of callbacks that only read gradients; with any other, nothing is done in one piece.
            trainer = self._module.trainer
            call._call_callback_hooks(trainer, "on_before_optimizer_step", torchs)
        else:
            # Both passes are done: the optimizer must not have the closure do them again.
            self._optimizer_step(epoch, batch_idx, optimizer, lambda: loss)

    def _unless_whole(self, method: Callable[..., object]) -> Callable[..., object]:
        """Return a method that does nothing in a step that has been done in one piece."""

        def replaced(*arguments: object, **options: object) -> object:
            return None if self._form == "whole" else method(*arguments, **options)

        return replaced

    @contextmanager
    def _collected(self) -> Iterator[None]:
        module = self._module
        before = {name: vars(module)[name] for name in ("log", "log_dict") if name in vars(module)}
        module.log, module.log_dict = self._collect_log, self._collect_log_dict
        try:
            yield
        finally:
            del module.log, module.log_dict
            vars(module).update(before)  # several workers put their own in place

    def _collect_log(self, *arguments: object, **options: object) -> None:
        # A log keeps no graph unless `enable_graph` is set; and it is of now: the step may change
        # the buffer, and the update the parameter, before Lightning is handed it.
        self._logged.append(("log", _as_of_now(arguments), _as_of_now(options)))

    def _collect_log_dict(self, *arguments: object, **options: object) -> None:
        self._logged.append(("log_dict", _as_of_now(arguments), _as_of_now(options)))


def _as_of_now(arguments: Arguments) -> Arguments:
    now = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), arguments)
    return tree_map_only(np.ndarray, lambda array: array.copy(), now)


def _with_numbers(arguments: Arguments) -> Arguments:
    """Return numbers of NumPy as these: what is traced makes arrays without a dimension of them."""
    return tree_map_only(np.ndarray, lambda array: array[()], arguments)

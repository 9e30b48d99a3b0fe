"""Put a variant's fast steps under Lightning's Trainer.

A compiled or captured step comprises the backward pass and the optimizer, so the Trainer's own are
switched off for that module: it still fetches, moves, counts, logs, validates and calls callbacks.
A run predicts once, which no compilation would pay for: `predict_step` stays the module's own.
What a compiled `training_step` logs is collected inside and logged after it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer import call
from torch.utils._pytree import tree_map_only

from twinrun.acceleration.compilation import Compiled
from twinrun.acceleration.placement import lay_out, lay_out_batch
from twinrun.acceleration.steps import (
    Step,
    TrainingStep,
    compiled,
    optimizers_in,
    set_up,
    with_index,
)
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError


class Speed:
    """Replaces the steps of one module and keeps the counts of what was compiled."""

    def __init__(self, module: pl.LightningModule, variant: Variant) -> None:
        """Replace them in the module itself; its class, and so other modules, stay as they are.

        What a variant cannot do is raised by the first step.
        """
        self._variant = variant
        self._module = lay_out(module, variant.layout)
        self._logged: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._step: TrainingStep | None = None
        self._module_step: Compiled | None = None
        own = with_index(module.training_step)
        takes_over = variant.compile == "step" or variant.cuda_graph
        if variant.optimizer != "default" and not takes_over:
            self._set_up(module.configure_optimizers)
        if takes_over:
            self._take_over(own)
        elif variant.compile == "module":
            self._module_step = compiled(lambda batch, index: own(batch, index), variant)
            module.training_step = self._collecting(self._module_step)
        elif variant.layout != "default":
            module.training_step = lambda batch, batch_idx: own(self._laid_out(batch), batch_idx)

    @property
    def compiled(self) -> Compiled | None:
        """The compiled training step, with its counts; None while there is none."""
        if self._module_step is not None:
            return self._module_step
        return None if self._step is None else self._step.compiled

    def _take_over(self, own: Step) -> None:
        module, variant = self._module, self._variant

        def whole(batch: Any, batch_idx: int) -> torch.Tensor:
            if self._step is None:  # only now the Trainer has the optimizer
                if not module.automatic_optimization:
                    raise TwinrunError(f"{type(module).__name__} optimizes its own way")
                optimizer = module.optimizers(use_pl_optimizer=False)
                self._step = TrainingStep(own, optimizer, variant)
            return self._step(batch, batch_idx)

        def optimizer_step(
            epoch: int, batch_index: int, optimizer: torch.optim.Optimizer, closure: Any = None
        ) -> None:
            closure()  # calls `whole`
            for hook in (call._call_callback_hooks, call._call_lightning_module_hook):
                hook(module.trainer, "on_before_optimizer_step", optimizer)

        module.training_step = self._collecting(whole)
        module.backward = module.optimizer_zero_grad = _do_nothing
        module.optimizer_step = optimizer_step

    def _collecting(self, step: Step) -> Step:
        """Give the step with what it logs collected, and logged when it is done."""

        def training_step(batch: Any, batch_idx: int) -> Any:
            with self._collected():
                result = step(self._laid_out(batch), batch_idx)
            for method, arguments, options in self._logged:
                getattr(self._module, method)(*arguments, **options)
            self._logged.clear()
            return result

        return training_step

    @contextmanager
    def _collected(self) -> Iterator[None]:
        module = self._module
        module.log, module.log_dict = self._collect_log, self._collect_log_dict
        try:
            yield
        finally:
            del module.log, module.log_dict

    def _collect_log(self, *arguments: Any, **options: Any) -> None:
        self._logged.append(("log", _detached(arguments), options))

    def _collect_log_dict(self, *arguments: Any, **options: Any) -> None:
        self._logged.append(("log_dict", _detached(arguments), options))

    def _laid_out(self, batch: Any) -> Any:
        return lay_out_batch(batch, self._variant.layout)

    def _set_up(self, configure: Any) -> None:
        def configure_optimizers() -> Any:
            found = configure()
            for optimizer in optimizers_in(found):
                set_up(optimizer, self._variant)
            return found

        self._module.configure_optimizers = configure_optimizers


def _detached(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tree_map_only(torch.Tensor, torch.Tensor.detach, arguments)


def _do_nothing(*arguments: Any, **options: Any) -> None:
    pass

"""A callback that fingerprints every step of a training.

Per step: the parameters, buffers and RNG states that it starts with, the batch (with and without
the order of its samples), the RNG states and the buffers that it leaves, the loss, each
gradient, the optimizer's settings and state, and each parameter. Where one fingerprint is of
several tensors or generators, `arrays` holds each; which these are is asked at every step (see
`columns`). Beside them a fixed, evenly spaced sample of parameter elements is kept (see
`parameter_sample`). Tracing reads only: it draws no random number and changes no tensor. On a GPU
every fingerprinted tensor is copied to the host.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from twinrun.config.traced_steps import TracedSteps
from twinrun.parameters import parameters_of, tensors_of_module, with_unheld
from twinrun.run_records import PER_STEP
from twinrun.trace.between_steps import BetweenSteps
from twinrun.trace.columns import fingerprints_of
from twinrun.trace.fingerprints import (
    fingerprint,
    fingerprint_batch,
    fingerprint_rng_states,
    fingerprint_states,
    fingerprints_beside,
    join,
)
from twinrun.trace.loss import Now, loss_of, value_of
from twinrun.trace.parameter_sample import ParameterSample
from twinrun.trace.samples import fingerprint_samples
from twinrun.trace.step_row import StepRow
from twinrun.trace.step_tables import StepTables

if TYPE_CHECKING:  # a run imports it when it writes its tables
    import pandas as pd


class Tracer(pl.Callback):
    """Fingerprints every step; `table` and `arrays` are the tables of it (see `step_tables`).

    Costs a pass over the batch, the gradients, the buffers, the optimizer's state and the
    parameters; over these a second one where somebody may write them between steps.
    """

    reads_gradients_only = True  # before the update; a step in one piece calls it afterwards

    def __init__(self) -> None:
        self.traced = TracedSteps()
        """The steps that are traced; of the others nothing is looked at but the loss."""
        self._loss: torch.Tensor | None = None
        self._epoch = 0
        self.own_gradients = 0
        """Of the workers' gradients before they were summed; of one worker, 0."""
        self.not_fingerprinted: set[str] = set()
        """Classes of what batches hold and nobody could look into."""
        self.resumed_at: list[int] = []
        """The steps done at each resumption of the training."""
        self._sampled = ParameterSample({})
        self._batch = 0
        self._samples = np.empty(0, dtype=np.uint64)
        self._start: dict[str, int] = {}
        self._rng_states: dict[str, int] = {}
        self._gradients: dict[str, int] = {}
        self._folder: Path | None = None
        self._tables = StepTables()
        self._traces_cuda = False
        self._is_noted = False
        self._hook: RemovableHandle | None = None
        self._between: BetweenSteps | None = None
        self._parameters: dict[str, int] = {}

    def keep_in(self, folder: Path) -> None:
        """Have the tables in a folder of their own, in which a resumed training finds them.

        Args:
            folder: inside of the one with the checkpoints; it is made with the first step.
        """
        self._folder, self._tables = folder, StepTables(folder)

    def close(self) -> None:
        """Close the tables, and remove them if no checkpoint needs them."""
        self._tables.close()
        if self._folder is not None and not any(self._folder.parent.glob("*.ckpt")):
            shutil.rmtree(self._folder, ignore_errors=True)
            with suppress(OSError):  # it is not empty, or not there
                self._folder.parent.rmdir()

    @property
    def steps(self) -> int:
        """How many steps were done, traced or not."""
        return len(self._tables)

    @property
    def now(self) -> Now | None:
        """Where the training is; None before the first step of this process."""
        if not self._epoch:
            return None
        # Read only now: on a GPU it waits for the step.
        return Now(self.steps, self._epoch, value_of(self._loss))

    @property
    def _is_traced(self) -> bool:
        """Whether the step under way is traced."""
        return self.steps + 1 in self.traced

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the fingerprints of the initial values; choose the elements that are sampled."""
        parameters = parameters_of(pl_module, trainer.optimizers)
        self._sampled = ParameterSample(parameters)
        # Asking for the state of a GPU's generator would start CUDA where it is not used.
        self._traces_cuda = torch.cuda.is_initialized()
        # A resumed training has them from its checkpoint.
        if not self.resumed_at:
            buffers = dict(pl_module.named_buffers())
            self._tables.set_initial(
                initial=fingerprints_of(parameters), initial_buffers=fingerprints_of(buffers)
            )
        self._tables.begin(most=self.traced.per_tensor, of_step=_details_of(parameters, pl_module))
        self._between = BetweenSteps(trainer, pl_module)
        # A module that optimizes manually may have torch's own optimizer step, around Lightning's
        # hooks. In automatic optimization a hook would have compiled steps done in parts.
        if not pl_module.automatic_optimization:
            self._hook = register_optimizer_step_post_hook(
                lambda optimizer, *_: self.end_update(trainer, pl_module, optimizer)
            )

    def on_train_epoch_start(self, *_: object, **__: object) -> None:
        """Trust nothing that was seen in the epoch before."""
        self._forget_end()

    def on_validation_start(self, *_: object, **__: object) -> None:
        """Trust nothing that was seen before a validation: a callback may exchange the weights."""
        self._forget_end()

    def _forget_end(self) -> None:
        if self._between is not None:
            self._between.interrupt()

    def on_train_end(self, *_: object, **__: object) -> None:
        """Take the hook of optimizers away."""
        if self._hook is not None:
            self._hook.remove()

    def on_exception(self, *_: object, **__: object) -> None:
        """Take the hook of optimizers away, also where the training breaks off."""
        self.on_train_end()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Take the fingerprints of what the step starts with."""
        if not self._is_traced:
            self._forget_end()
            self._start = {"before": 0}  # it has begun
            return
        self._rng_states = fingerprint_rng_states(cuda=self._traces_cuda)
        held, buffers = tensors_of_module(pl_module)
        parameters = with_unheld(held, trainer.optimizers)
        whole, opaque = fingerprint_batch(batch)
        self.not_fingerprinted.update(opaque)
        if whole != self._batch:  # full-batch training has the same one in every step
            self._batch, self._samples = whole, fingerprint_samples(batch)
        self._gradients = {}
        if self._between is None or not self._between.are_untouched(parameters):
            self._parameters = fingerprints_of(parameters)
        self._start = {
            "before": join(self._tables.row("names", self._parameters)),
            "buffers_before": join([*fingerprints_of(buffers).values()]),
            "random": join(list(self._rng_states.values())),
            "batch": whole,
            # A sum knows no order, and may wrap around.
            "samples": int(self._samples.sum(dtype=np.uint64)),
        }

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take the fingerprints of the gradients, before clipping, and of the settings in use."""
        # Lightning clips after the hooks of callbacks, in `Precision._after_closure`.
        self._note_update(trainer, pl_module, optimizer)
        self._is_noted = True

    def end_update(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take them where Lightning did not announce the update: gradients outlast it."""
        if not self._is_noted:
            self._note_update(trainer, pl_module, optimizer)
        self._is_noted = False

    def _note_accumulated(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the gradients of a step that leaves them for a later one's update."""
        is_one = trainer.accumulate_grad_batches == 1 or not pl_module.automatic_optimization
        if is_one or self._gradients:
            return
        parameters = parameters_of(pl_module, trainer.optimizers)
        self._gradients = {name: fingerprint(p.grad) for name, p in parameters.items()}

    def _note_update(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        if not self._is_traced:
            return
        self._tables.settings.note(trainer.optimizers, optimizer)
        parameters = parameters_of(pl_module, trainer.optimizers)
        found = {name: fingerprint(p.grad) for name, p in parameters.items()}
        # Several optimizers may step in one batch: each adds to what the step has seen.
        if earlier := self._gradients:
            found = {name: join([earlier.get(name, 0), of]) for name, of in found.items()}
        self._gradients = found

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Add the step's row."""
        loss = loss_of(outputs)
        self._loss = None if loss is None else loss.detach()
        self._epoch = trainer.current_epoch + 1
        if not self._is_traced:
            self._tables.skip()
            return
        self._note_accumulated(trainer, pl_module)
        held, buffers = tensors_of_module(pl_module)
        parameters = with_unheld(held, trainer.optimizers)
        # Their settings are noted before the step: here Lightning has moved the schedulers already.
        states = fingerprint_states(trainer.optimizers, list(parameters.values()))
        self._parameters = fingerprints_of(parameters)
        if self._between is not None:
            self._between.end_step(parameters)
        values = {
            # A batch that a hook skips has a start and no end: both are kept here.
            "random": self._rng_states,
            "random_after": fingerprint_rng_states(cuda=self._traces_cuda),
            "buffers": fingerprints_of(buffers),
            "gradients": self._gradients,
            "optimizer": dict(zip(parameters, states, strict=True)),
            "parameters": self._parameters,
        }
        found = {key: self._tables.row(PER_STEP[key], of) for key, of in values.items()}
        step, start = self.steps + 1, self._start
        self._tables.add_details(step, found)
        if self._tables.has_sample():
            self._tables.add_sample(step, self._sampled.of(parameters))
        self._tables.add_samples(self._samples)
        beside = fingerprints_beside(trainer.optimizers, [*parameters.values(), *buffers.values()])
        self._tables.add(
            (
                *(step, self._epoch, value_of(loss)),
                *(start[key] for key in ("before", "buffers_before", "random", "batch", "samples")),
                fingerprint(loss),
                self.own_gradients,
                self._tables.settings.end_step(step - 1, trainer.optimizers),
                join(found["random_after"]),
                join(found["buffers"]),
                join(found["gradients"]),
                join([*found["optimizer"], *beside]),
                join(found["parameters"]),
            )
        )

    def last_row(self) -> StepRow:
        """Return the row of the last step."""
        return self._tables.last()

    def table(self) -> "Iterator[pd.DataFrame]":
        """Yield steps.csv, in parts."""
        yield from self._tables.table()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what fingerprints.npz holds."""
        return self._tables.arrays()

    def state_dict(self) -> dict[str, Any]:
        """Return the tables so far, for a checkpoint: tensors and plain values."""
        return {"tables": self._tables.state(), "resumed_at": self.resumed_at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the tables of a checkpoint."""
        self._tables.load(state_dict["tables"])
        self.resumed_at = [*state_dict["resumed_at"], self.steps]


def _details_of(parameters: Mapping[str, torch.Tensor], module: pl.LightningModule) -> int:
    """Count the fingerprints of single tensors and generators that a step has."""
    # Of the generators of GPUs it knows nothing: the runs of a pair must keep the same steps.
    return 3 * len(parameters) + len(list(module.buffers())) + 6

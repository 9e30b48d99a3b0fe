"""A callback that fingerprints every step of a training.

Per step: the parameters, buffers and RNG states that it starts with, the batch (with and without
the order of its samples), the RNG states and the buffers that it leaves, the loss, each
gradient, the optimizer's settings and state, and each parameter. Where one fingerprint is of
several tensors or generators, `arrays` holds each; which these are is asked at every step (see
`columns`). Beside them a fixed, evenly spaced sample of parameter elements is kept (see
`parameter_sample`). Tracing reads only: it draws no random number and changes no tensor.

On a GPU it waits once for each step, at its end, and 8 bytes of each tensor and sample are copied
then (see `step_fingerprints`, which names the one step that is copied whole).
"""

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.config.traced_steps import TracedSteps
from twinrun.parameters import parameters_of, tensors_of_module, with_unheld
from twinrun.returned_loss import loss_of
from twinrun.run_records import PER_STEP
from twinrun.trace.batch_prints import BatchPrints
from twinrun.trace.between_steps import BetweenSteps
from twinrun.trace.columns import fingerprints_of
from twinrun.trace.fingerprints import Print, fingerprint_rng_states, joined
from twinrun.trace.loss import Losses, Now
from twinrun.trace.parameter_sample import ParameterSample
from twinrun.trace.step_fingerprints import StepFingerprints, number_of
from twinrun.trace.step_record import StepRecord
from twinrun.trace.step_row import StepRow
from twinrun.trace.step_tables import StepTables
from twinrun.trace.updates import Updates

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
        self.losses = Losses()
        """Of all steps, traced or not."""
        self.own_gradients = 0
        """Of the workers' gradients before they were summed; of one worker, 0."""
        self.not_fingerprinted: set[str] = set()
        """Classes of what batches hold and nobody could look into."""
        self.resumed_at: list[int] = []
        """The steps done at each resumption of the training."""
        self._identity = uuid.uuid4().hex
        self.host_step: int | None = None
        """The step that is fingerprinted on the host; None for the first one that is traced."""
        self.own_kind = 0
        """By which hash `own_gradients` was taken."""
        self._taken, self._batch = StepFingerprints(), BatchPrints()
        self._sampled = ParameterSample({})
        self._start: dict[str, Print] = {}
        self._rng_states: dict[str, Print] = {}
        self._gradients: dict[str, Print] = {}
        self._folder: Path | None = None
        self._tables = StepTables()
        self._traces_cuda = self._is_noted = False
        self._updates: Updates | None = None
        self._between: BetweenSteps | None = None
        self._parameters: dict[str, Print] = {}

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
        """Where the training is; None before the first step. On a GPU it waits for the step."""
        if not self.losses.epoch:
            return None
        return Now(self.steps, self.losses.epoch, self.losses.last())

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
        if not self.resumed_at:  # a resumed training has them from its checkpoint
            buffers = dict(pl_module.named_buffers())
            self._tables.set_initial(
                initial=fingerprints_of(parameters), initial_buffers=fingerprints_of(buffers)
            )
        self._tables.begin(most=self.traced.per_tensor)
        self._between = BetweenSteps(trainer, pl_module)
        self._updates = Updates(
            trainer,
            before=lambda optimizer: self._note_settings(trainer, optimizer),
            after=lambda optimizer: self.end_update(trainer, pl_module, optimizer),
        )

    def on_train_epoch_start(self, *_: object, **__: object) -> None:
        """Trust nothing that was seen before: a callback may exchange the weights."""
        self._forget_end()

    on_validation_start = on_train_epoch_start

    def _forget_end(self) -> None:
        if self._between is not None:
            self._between.interrupt()

    def on_train_end(self, *_: object, **__: object) -> None:
        """Take the hooks of updates away."""
        if self._updates is not None:
            self._updates.remove()

    def on_exception(self, *_: object, **__: object) -> None:
        """Take them away also where the training breaks off."""
        self.on_train_end()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Take the fingerprints of what the step starts with."""
        if not self._is_traced:
            self._forget_end()
            self._start = {"before": 0}  # it has begun
            return
        self._taken.on_host = self.steps + 1 == (self.host_step or self.traced.start)
        self._rng_states = {**fingerprint_rng_states(cuda=self._traces_cuda)}
        self._gradients = {}
        held, buffers = tensors_of_module(pl_module)
        parameters = with_unheld(held, trainer.optimizers)
        is_known = self._between is not None and self._between.are_untouched(parameters)
        with self._taken.at_its_end():
            self.not_fingerprinted.update(self._batch.look_at(batch, self._taken))
            # What an earlier step has left may be known by another hash than this one takes.
            if not is_known or self._taken.on_host:
                self._parameters = self._taken.tensors(parameters)
            self._start = {
                "before": joined(self._tables.row("names", self._parameters)),
                "buffers_before": joined(self._taken.tensors(buffers).values()),
                "random": joined(self._rng_states.values()),
            }

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take the fingerprints of the gradients, before clipping; the settings in use follow."""
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
        self._gradients = self._taken.tensors({name: p.grad for name, p in parameters.items()})

    def _note_update(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        if not self._is_traced:
            return
        if self._updates is None or not self._updates.is_announced:
            self._tables.settings.note(trainer.optimizers, optimizer)
        parameters = parameters_of(pl_module, trainer.optimizers)
        found = self._taken.tensors({name: p.grad for name, p in parameters.items()})
        # Several optimizers may step in one batch: each adds to what the step has seen.
        if earlier := self._gradients:
            found = {n: joined([earlier.get(n, 0), of]) for n, of in found.items()}
        self._gradients = found

    def _note_settings(self, trainer: pl.Trainer, optimizer: object) -> None:
        if self._is_noted and self._is_traced:  # of several workers the first one notes
            self._tables.settings.note(trainer.optimizers, optimizer)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Add the step's row, unless Lightning passes over it: then no step has begun."""
        if batch is None:
            return
        loss = loss_of(outputs)
        self.losses.note(trainer.current_epoch + 1, loss)
        if not self._is_traced:
            self._tables.skip()
            return
        self._note_accumulated(trainer, pl_module)
        held, buffers = tensors_of_module(pl_module)
        parameters = with_unheld(held, trainer.optimizers)
        if self._between is not None:
            self._between.end_step(parameters)
        with self._taken.at_its_end():
            self._parameters = self._taken.tensors(parameters)
            values: dict[str, Mapping[str, Print]] = {
                # A batch that a hook skips has a start and no end: both are kept here.
                "random": self._rng_states,
                "random_after": {**fingerprint_rng_states(cuda=self._traces_cuda)},
                "buffers": self._taken.tensors(buffers),
                "gradients": self._gradients,
                "optimizer": self._taken.states(trainer.optimizers, parameters),
                "parameters": self._parameters,
            }
            beside = self._taken.beside(trainer.optimizers, [*{**parameters, **buffers}.values()])
            rows = {key: self._tables.row(PER_STEP[key], of) for key, of in values.items()}
            # Their settings were noted before: here Lightning has moved the schedulers already.
            prints = {
                **self._start,
                **{key: joined(of) for key, of in rows.items() if key != "random"},
                "optimizer": joined([*rows["optimizer"], *beside]),
                "loss_fingerprint": self._taken.tensors({"loss": loss})["loss"],
            }
        StepRecord(
            prints=prints,
            rows=rows,
            batch=self._batch,
            loss=number_of(loss),
            elements=self._sampled.of(parameters) if self._tables.has_sample() else None,
            own_gradients=(self.own_gradients, self.own_kind),
        ).add_to(self._tables, trainer.optimizers, epoch=self.losses.epoch)
        if self._taken.has_copied:
            # The other steps take another hash of what this one left.
            self._forget_end()
            self._taken.has_copied = False

    def trained_otherwise(self) -> str | None:
        """Say how the last step is not what a killed process had trained."""
        return self._tables.trained_otherwise()

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
        state = {"tables": self._tables.state(), "losses": self.losses.state()}
        return {**state, "resumed_at": self.resumed_at, "saved_by": self._identity}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the tables of a checkpoint."""
        self._tables.load(state_dict["tables"])
        self.losses.load(state_dict["losses"])
        # A training that goes back to where it was, as LearningRateFinder does, is not resumed.
        at = [] if state_dict["saved_by"] == self._identity else [self.steps]
        self.resumed_at = [*state_dict["resumed_at"], *at]

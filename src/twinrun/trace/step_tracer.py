"""A callback that fingerprints every step of a training.

Per step: the parameters, buffers and RNG states that it starts with, the batch (with and without
the order of its samples), the RNG states and the buffers that it leaves, the loss, each
gradient, the optimizer's settings and state, and each parameter. Where one fingerprint is of
several tensors or generators, `arrays` holds each; which these are is asked at every step (see
`columns`). Beside them a fixed, evenly spaced sample of parameter elements is kept (see
`parameter_sample`). Tracing reads only: it draws no random number and changes no tensor. On a GPU
every fingerprinted tensor is copied to the host.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from twinrun.parameters import parameters_of
from twinrun.run_records import PER_STEP
from twinrun.trace.between_steps import BetweenSteps
from twinrun.trace.columns import Columns, fingerprints_of
from twinrun.trace.fingerprints import (
    fingerprint,
    fingerprint_batch,
    fingerprint_rng_states,
    fingerprint_states,
    fingerprints_beside,
    hexadecimal,
    join,
)
from twinrun.trace.optimizer_settings import SettingsTrace
from twinrun.trace.parameter_sample import ParameterSample
from twinrun.trace.samples import fingerprint_samples
from twinrun.trace.step_row import StepRow

MOST_SAMPLES = 2**20  # samples of batches whose fingerprints are kept one by one: 8 MiB
_NO_SAMPLES = np.empty(0, dtype=np.uint64)
INITIAL = {"initial": "names", "initial_buffers": "buffer_names"}  # and the names of their columns


class Tracer(pl.Callback):
    """Fingerprints every step; `rows` and `arrays` are the tables of it.

    Costs a pass over the batch, the gradients, the buffers, the optimizer's state and the
    parameters; over these a second one where somebody may write them between steps.
    """

    reads_gradients_only = True  # before the update; a step in one piece calls it afterwards

    def __init__(self) -> None:
        self.rows: list[StepRow] = []
        self.own_gradients = 0
        """Of the workers' gradients before they were summed; of one worker, 0."""
        self.not_fingerprinted: set[str] = set()
        """Classes of what batches hold and nobody could look into."""
        self.resumed_at: list[int] = []
        """The steps done at each resumption of the training."""
        self._columns = {of: Columns() for of in dict.fromkeys(PER_STEP.values())}
        self._sampled = ParameterSample({})
        self._initial: dict[str, list[int]] = {"initial": [], "initial_buffers": []}
        self._per_step: dict[str, list[list[int]]] = {key: [] for key in PER_STEP}
        self._elements: list[np.ndarray] = []
        self._batch = 0
        self._samples = np.empty(0, dtype=np.uint64)
        self._kept_samples: list[np.ndarray] = []
        self._room = MOST_SAMPLES
        self._start: dict[str, int] = {}
        self._rng_states: dict[str, int] = {}
        self._gradients: dict[str, int] = {}
        self._settings = SettingsTrace()
        self._traces_cuda = False
        self._is_noted = False
        self._hook: RemovableHandle | None = None
        self._between: BetweenSteps | None = None
        self._parameters: dict[str, int] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the fingerprints of the initial values; choose the elements that are sampled."""
        parameters = parameters_of(pl_module, trainer.optimizers)
        self._sampled = ParameterSample(parameters)
        # Asking for the state of a GPU's generator would start CUDA where it is not used.
        self._traces_cuda = torch.cuda.is_initialized()
        # A resumed training has them from its checkpoint.
        if not self.resumed_at:
            buffers = dict(pl_module.named_buffers())
            self._initial = {
                "initial": self._row("names", fingerprints_of(parameters)),
                "initial_buffers": self._row("buffer_names", fingerprints_of(buffers)),
            }
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
        self._rng_states = fingerprint_rng_states(cuda=self._traces_cuda)
        parameters = parameters_of(pl_module, trainer.optimizers)
        whole, opaque = fingerprint_batch(batch)
        self.not_fingerprinted.update(opaque)
        if whole != self._batch:  # full-batch training has the same one in every step
            self._batch, self._samples = whole, fingerprint_samples(batch)
        self._gradients = {}
        if self._between is None or not self._between.are_untouched(parameters):
            self._parameters = fingerprints_of(parameters)
        self._start = {
            "before": join(self._row("names", self._parameters)),
            "buffers_before": join([*fingerprints_of(dict(pl_module.named_buffers())).values()]),
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
        self._settings.note(trainer.optimizers, optimizer)
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
        self._note_accumulated(trainer, pl_module)
        parameters = parameters_of(pl_module, trainer.optimizers)
        # Their settings are noted before the step: here Lightning has moved the schedulers already.
        states = fingerprint_states(trainer.optimizers, list(parameters.values()))
        self._parameters = fingerprints_of(parameters)
        if self._between is not None:
            self._between.end_step(parameters)
        values = {
            # A batch that a hook skips has a start and no end: both are kept here.
            "random": self._rng_states,
            "random_after": fingerprint_rng_states(cuda=self._traces_cuda),
            "buffers": fingerprints_of(dict(pl_module.named_buffers())),
            "gradients": self._gradients,
            "optimizer": dict(zip(parameters, states, strict=True)),
            "parameters": self._parameters,
        }
        found = {key: self._row(PER_STEP[key], of) for key, of in values.items()}
        for key, row in found.items():
            self._per_step[key].append(row)
        elements = self._sampled.of(parameters)
        if self._elements and len(elements) != len(self._elements[0]):
            # Resumed with other parameters than it began with.
            elements = np.full_like(self._elements[0], np.nan)
        self._elements.append(elements)
        # A step keeps all of its samples or none, so that their number tells.
        samples = self._samples if len(self._samples) <= self._room else _NO_SAMPLES
        self._kept_samples.append(samples)
        self._room -= len(samples)
        held = [*parameters.values(), *pl_module.buffers()]
        beside = fingerprints_beside(trainer.optimizers, held)
        settings = self._settings.end_step(len(self.rows), trainer.optimizers)
        self.rows.append(
            {
                "step": len(self.rows) + 1,
                "epoch": trainer.current_epoch + 1,
                "loss": float("nan") if loss is None else float(loss),
                "before": hexadecimal(self._start["before"]),
                "buffers_before": hexadecimal(self._start["buffers_before"]),
                "random": hexadecimal(self._start["random"]),
                "batch": hexadecimal(self._start["batch"]),
                "samples": hexadecimal(self._start["samples"]),
                "loss_fingerprint": hexadecimal(fingerprint(loss)),
                "own_gradients": hexadecimal(self.own_gradients),
                "settings": hexadecimal(settings),
                "random_after": hexadecimal(join(found["random_after"])),
                "buffers": hexadecimal(join(found["buffers"])),
                "gradients": hexadecimal(join(found["gradients"])),
                "optimizer": hexadecimal(join([*found["optimizer"], *beside])),
                "parameters": hexadecimal(join(found["parameters"])),
            }
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what fingerprints.npz holds; T parameters, B buffers, R RNG states, S steps.

        names (T,), buffer_names (B,), rng_state_names (R,) str; initial (T,), initial_buffers (B,),
        gradients, optimizer, parameters (S, T), buffers (S, B), random, random_after (S, R) uint64;
        samples_of_steps (N,) uint64, those of a step after those of the one before, and
        num_samples (S,) int64 of each step, 0 beyond MOST_SAMPLES in all;
        setting_names (K,) str, setting_changes (C, 2) int64 and setting_values (C,) float64 of the
        optimizers: see `SettingsTrace`;
        sample (S, at most SAMPLE_SIZE) float32, or float64 where a parameter needs it.
        """
        names = {of: columns.names() for of, columns in self._columns.items()}
        size = len(self.rows)
        return {
            **{of: np.array(found, dtype=np.str_) for of, found in names.items()},
            "setting_names": np.array(self._settings.names(), dtype=np.str_),
            **{
                key: np.array(self._columns[INITIAL[key]].padded(row), dtype=np.uint64)
                for key, row in self._initial.items()
            },
            **{
                key: np.array(
                    [self._columns[of].padded(row) for row in self._per_step[key]], dtype=np.uint64
                ).reshape(size, len(names[of]))
                for key, of in PER_STEP.items()
            },
            "samples_of_steps": np.concatenate([_NO_SAMPLES, *self._kept_samples]),
            "num_samples": np.array([len(found) for found in self._kept_samples], dtype=np.int64),
            **self._settings.arrays(),
            "sample": np.array(self._elements),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the tables so far, for a checkpoint: tensors and plain values."""
        # torch has no type for strings.
        arrays = {name: a for name, a in self.arrays().items() if a.dtype.kind != "U"}
        # Not all of torch knows uint64.
        arrays = {n: a.view(np.int64) if a.dtype == np.uint64 else a for n, a in arrays.items()}
        return {
            "rows": self.rows,
            "resumed_at": self.resumed_at,
            **{of: columns.names() for of, columns in self._columns.items()},
            "setting_names": self._settings.names(),
            "arrays": {name: torch.from_numpy(array) for name, array in arrays.items()},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the tables of a checkpoint."""
        self.rows = state_dict["rows"]
        self.resumed_at = [*state_dict["resumed_at"], len(self.rows)]
        for of, columns in self._columns.items():
            columns.row(dict.fromkeys(state_dict[of], 0))
        arrays = {name: tensor.numpy() for name, tensor in state_dict["arrays"].items()}
        self._initial = {key: arrays[key].view(np.uint64).tolist() for key in self._initial}
        self._per_step = {key: arrays[key].view(np.uint64).tolist() for key in PER_STEP}
        # A checkpoint of an older version has none.
        if "setting_names" in state_dict:
            self._settings.load(state_dict["setting_names"], arrays)
        self._elements = list(arrays["sample"])
        ends = np.cumsum(arrays["num_samples"])[:-1]
        samples = np.split(arrays["samples_of_steps"].view(np.uint64), ends)
        # np.split makes one part of nothing.
        self._kept_samples = samples if self.rows else []
        self._room = MOST_SAMPLES - sum(map(len, self._kept_samples))

    def _row(self, of: str, values: Mapping[str, int]) -> list[int]:
        return self._columns[of].row(values)


def loss_of(outputs: object) -> torch.Tensor | None:
    """Return the loss that a training step returned, alone or in a mapping; None for neither."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss if isinstance(loss, torch.Tensor) else None

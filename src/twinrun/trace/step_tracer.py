"""A callback that fingerprints every step of a training.

Per step: the parameters and the RNG states that it starts with, the batch (with and without
the order of its samples), the RNG states and the buffers that it leaves, the loss, each
gradient, the optimizer's settings and state, and each parameter. Where one fingerprint is of
several tensors or generators, `arrays` holds each. Beside them a fixed, evenly spaced sample of
parameter elements is kept, from which the growth of a difference is drawn. Tracing reads only: it
draws no random number and changes no tensor. On a GPU every fingerprinted tensor is copied to the
host.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.run_records import PER_STEP
from twinrun.trace.fingerprints import (
    fingerprint,
    fingerprint_batch,
    fingerprint_rng_states,
    fingerprint_states,
    hexadecimal,
    join,
)
from twinrun.trace.optimizer_settings import SettingsTrace
from twinrun.trace.samples import fingerprint_samples

SAMPLE_SIZE = 1024
NARROW = (torch.float32, torch.bfloat16, torch.float16)  # types of which float32 holds every value
MOST_SAMPLES = 2**20  # samples of batches whose fingerprints are kept one by one: 8 MiB
_NO_SAMPLES = np.empty(0, dtype=np.uint64)


class StepRow(TypedDict):
    """A step: a row of steps.csv. Fingerprints are in hexadecimal."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    loss: float
    """NaN of a step that gave none."""
    before: str
    """Fingerprint of the parameters that the step starts with."""
    random: str
    """Fingerprint of the RNG states that it starts with."""
    batch: str
    """Fingerprint of all that the batch holds, in order."""
    samples: str
    """Fingerprint of the batch's samples in any order."""
    loss_fingerprint: str
    """Fingerprint of the loss."""
    own_gradients: str
    """Fingerprint of the workers' gradients, before they were summed."""
    settings: str
    """Fingerprint of the optimizers' settings."""
    random_after: str
    """Fingerprint of the RNG states that the step leaves."""
    buffers: str
    """Fingerprint of the buffers that the step ends with."""
    gradients: str
    """Fingerprint of all gradients, before they are clipped."""
    optimizer: str
    """Fingerprint of the optimizers' state."""
    parameters: str
    """Fingerprint of the parameters that the step ends with."""


class Tracer(pl.Callback):
    """Fingerprints every step; `rows` and `arrays` are the tables of it.

    Costs a pass over the batch, the gradients, the buffers, the optimizer's state and, twice, the
    parameters.
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
        self._parameters: dict[str, torch.Tensor] = {}
        self._buffers: dict[str, torch.Tensor] = {}
        self._sampled: list[torch.Tensor] = []
        self._sample_dtype = torch.float32
        self._initial: dict[str, list[int]] = {"initial": [], "initial_buffers": []}
        self._per_step: dict[str, list[list[int]]] = {key: [] for key in PER_STEP}
        self._elements: list[np.ndarray] = []
        self._batch = 0
        self._samples = np.empty(0, dtype=np.uint64)
        self._kept_samples: list[np.ndarray] = []
        self._room = MOST_SAMPLES
        self._start: dict[str, int] = {}
        self._rng_states: dict[str, int] = {}
        self._gradients: list[int] = []
        self._settings = SettingsTrace()
        self._traces_cuda = False

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Name the parameters and buffers and take the fingerprints of their initial values."""
        self._parameters = dict(pl_module.named_parameters())
        self._buffers = dict(pl_module.named_buffers())
        self._sampled = list(_sampled_elements(list(self._parameters.values())))
        if any(p.dtype not in NARROW for p in self._parameters.values()):
            self._sample_dtype = torch.float64
        # Asking for the state of a GPU's generator would start CUDA where it is not used.
        self._traces_cuda = torch.cuda.is_initialized()
        # A resumed training has them from its checkpoint.
        if not self.resumed_at:
            initial, buffers = map(_of_each, (self._parameters, self._buffers))
            self._initial = {"initial": initial, "initial_buffers": buffers}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Take the fingerprints of what the step starts with."""
        self._rng_states = fingerprint_rng_states(cuda=self._traces_cuda)
        self._per_step["random"].append(list(self._rng_states.values()))
        whole, opaque = fingerprint_batch(batch)
        self.not_fingerprinted.update(opaque)
        if whole != self._batch:  # full-batch training has the same one in every step
            self._batch, self._samples = whole, fingerprint_samples(batch)
        self._gradients = []
        self._start = {
            "before": join(_of_each(self._parameters)),
            "random": join(list(self._rng_states.values())),
            "batch": whole,
            # A sum knows no order, and may wrap around.
            "samples": int(self._samples.sum(dtype=np.uint64)),
        }

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take the fingerprints of the gradients, before clipping, and of the settings in use."""
        self._settings.note(trainer.optimizers, optimizer)
        # Lightning clips after the hooks of callbacks, in `Precision._after_closure`.
        found = [fingerprint(p.grad) for p in self._parameters.values()]
        # Several optimizers may step in one batch: each adds to what the step has seen.
        earlier = self._gradients
        self._gradients = (
            [join([a, b]) for a, b in zip(earlier, found, strict=True)] if earlier else found
        )

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
        # Their settings are noted before the step: here Lightning has moved the schedulers already.
        states = fingerprint_states(trainer.optimizers, list(self._parameters.values()))
        found = {
            "random_after": list(fingerprint_rng_states(cuda=self._traces_cuda).values()),
            "buffers": _of_each(self._buffers),
            "gradients": self._gradients or [0] * len(self._parameters),
            "optimizer": states,
            "parameters": _of_each(self._parameters),
        }
        for key, values in found.items():
            self._per_step[key].append(values)
        self._elements.append(self._sample())
        # A step keeps all of its samples or none, so that their number tells.
        samples = self._samples if len(self._samples) <= self._room else _NO_SAMPLES
        self._kept_samples.append(samples)
        self._room -= len(samples)
        settings = self._settings.end_step(len(self.rows), trainer.optimizers)
        self.rows.append(
            {
                "step": len(self.rows) + 1,
                "epoch": trainer.current_epoch + 1,
                "loss": float("nan") if loss is None else float(loss),
                "before": hexadecimal(self._start["before"]),
                "random": hexadecimal(self._start["random"]),
                "batch": hexadecimal(self._start["batch"]),
                "samples": hexadecimal(self._start["samples"]),
                "loss_fingerprint": hexadecimal(fingerprint(loss)),
                "own_gradients": hexadecimal(self.own_gradients),
                "settings": hexadecimal(settings),
                "random_after": hexadecimal(join(found["random_after"])),
                "buffers": hexadecimal(join(found["buffers"])),
                "gradients": hexadecimal(join(found["gradients"])),
                "optimizer": hexadecimal(join(found["optimizer"])),
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
        names = {
            "names": list(self._parameters),
            "buffer_names": list(self._buffers),
            "rng_state_names": list(self._rng_states),
            "setting_names": self._settings.names(),
        }
        widths = {key: len(names[of]) for key, of in PER_STEP.items()}
        size = len(self.rows)
        return {
            **{key: np.array(found, dtype=np.str_) for key, found in names.items()},
            **{key: np.array(found, dtype=np.uint64) for key, found in self._initial.items()},
            **{
                # RNG states are noted where a step starts: one under way has no row yet.
                key: np.array(found[:size], dtype=np.uint64).reshape(size, widths[key])
                for key, found in self._per_step.items()
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
            "names": list(self._parameters),
            "buffer_names": list(self._buffers),
            "rng_state_names": list(self._rng_states),
            "setting_names": self._settings.names(),
            "arrays": {name: torch.from_numpy(array) for name, array in arrays.items()},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the tables of a checkpoint."""
        self.rows = state_dict["rows"]
        self.resumed_at = [*state_dict["resumed_at"], len(self.rows)]
        # Where no step is left to do, the training does not even start: the names must do.
        self._parameters = dict.fromkeys(state_dict["names"], torch.empty(0))
        self._buffers = dict.fromkeys(state_dict["buffer_names"], torch.empty(0))
        self._rng_states = dict.fromkeys(state_dict["rng_state_names"], 0)
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

    def _sample(self) -> np.ndarray:
        parts = [
            p.detach().reshape(-1)[index].to(self._sample_dtype)
            for p, index in zip(self._parameters.values(), self._sampled, strict=True)
        ]
        return torch.cat(parts).cpu().numpy() if parts else np.empty(0)


def loss_of(outputs: object) -> torch.Tensor | None:
    """Return the loss that a training step returned, alone or in a mapping; None for neither."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss if isinstance(loss, torch.Tensor) else None


def _of_each(tensors: Mapping[str, torch.Tensor]) -> list[int]:
    return [fingerprint(tensor) for tensor in tensors.values()]


def _sampled_elements(parameters: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Spread SAMPLE_SIZE elements evenly over all parameters; give each its own indices."""
    sizes = [p.numel() for p in parameters]
    total = sum(sizes)
    chosen = np.unique(np.linspace(0, max(total - 1, 0), min(SAMPLE_SIZE, total)).astype(np.int64))
    start = 0
    for parameter, size in zip(parameters, sizes, strict=True):
        inside = chosen[(chosen >= start) & (chosen < start + size)] - start
        yield torch.from_numpy(inside).to(parameter.device)
        start += size

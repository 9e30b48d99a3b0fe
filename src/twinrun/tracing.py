"""A callback that fingerprints every step of a training.

A fingerprint is xxh3_64 over the bytes of a tensor: it sees a swap of two values, the sign of a
zero and any flipped bits (64 bits: two different tensors share one with probability 5e-20). Per
step there is one for the batch, the loss, each gradient and each parameter. Beside them a fixed,
evenly spaced sample of parameter elements is kept, from which the growth of a difference is drawn.
Tracing reads only: it draws no random number and changes no tensor. On a GPU every fingerprinted
tensor is copied to the host.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash
from torch.utils._pytree import tree_flatten

SAMPLE_SIZE = 1024


def fingerprint(tensor: torch.Tensor | None) -> int:
    """Give the xxh3_64 of a tensor's bytes; of None (no gradient), 0.

    Sparse tensors count by their indices and values.
    """
    if tensor is None:
        return 0
    if tensor.layout is not torch.strided:
        tensor = tensor.coalesce()
        parts = [fingerprint(tensor.indices()), fingerprint(tensor.values())]
        return _join(parts)
    data = tensor.detach().cpu().contiguous().reshape(-1)
    return xxhash.xxh3_64_intdigest(data.view(torch.uint8).numpy())


def fingerprint_tree(tree: Any) -> int:
    """Give one fingerprint of nested tensors and plain values, in order, with types and shapes."""
    leaves, structure = tree_flatten(tree)
    digest = xxhash.xxh3_64(str(structure).encode())
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            digest.update(f"{leaf.dtype}{tuple(leaf.shape)}{fingerprint(leaf)}".encode())
        else:
            digest.update(repr(leaf).encode())
    return digest.intdigest()


def hexadecimal(value: int) -> str:
    """Write a fingerprint as 16 digits."""
    return f"{value:016x}"


def _join(values: list[int]) -> int:
    return xxhash.xxh3_64_intdigest(np.array(values, dtype=np.uint64).tobytes())


class Tracer(pl.Callback):
    """Fingerprints every step; `rows` and `arrays` are the tables of it.

    Costs one pass over the batch, the gradients and the parameters per step.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.resumed_at: list[int] = []
        """The steps done at each resumption of the training."""
        self._names: list[str] = []
        self._parameters: list[torch.Tensor] = []
        self._initial: list[int] = []
        self._gradients: list[list[int]] = []
        self._fingerprints: list[list[int]] = []
        self._samples: list[np.ndarray] = []
        self._step_gradients: list[int] = []
        self._batch = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Name the parameters and take the fingerprints of their initial values."""
        named = list(pl_module.named_parameters())
        self._names = [name for name, _ in named]
        self._parameters = [parameter for _, parameter in named]
        # In a resumed training they are those of its beginning.
        self._initial = self._initial or [fingerprint(p) for p in self._parameters]
        self._sampled = list(_sampled_elements(self._parameters))

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Take the batch's fingerprint."""
        self._batch = fingerprint_tree(batch)
        self._step_gradients = []

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any
    ) -> None:
        """Take the gradients' fingerprints, before clipping."""
        found = [fingerprint(p.grad) for p in self._parameters]
        # Several optimizers may step in one batch: each adds to what the step has seen.
        earlier = self._step_gradients
        self._step_gradients = (
            [_join([a, b]) for a, b in zip(earlier, found, strict=True)] if earlier else found
        )

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Add the step's row."""
        loss = outputs["loss"] if isinstance(outputs, Mapping) else outputs
        parameters = [fingerprint(p) for p in self._parameters]
        gradients = self._step_gradients or [0] * len(parameters)
        self._gradients.append(gradients)
        self._fingerprints.append(parameters)
        self._samples.append(self._sample())
        self.rows.append(
            {
                "step": len(self.rows) + 1,
                "epoch": trainer.current_epoch + 1,
                "loss": float("nan") if loss is None else float(loss),
                "loss_fingerprint": hexadecimal(fingerprint(loss)),
                "batch": hexadecimal(self._batch),
                "gradients": hexadecimal(_join(gradients)),
                "parameters": hexadecimal(_join(parameters)),
            }
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Give what fingerprints.npz holds; T tensors, S steps.

        names (T,) str; initial (T,), gradients (S, T), parameters (S, T) uint64;
        sample (S, at most SAMPLE_SIZE) float64.
        """
        shape = (len(self.rows), len(self._names))
        return {
            "names": np.array(self._names, dtype=np.str_),
            "initial": np.array(self._initial, dtype=np.uint64),
            "gradients": np.array(self._gradients, dtype=np.uint64).reshape(shape),
            "parameters": np.array(self._fingerprints, dtype=np.uint64).reshape(shape),
            "sample": np.array(self._samples, dtype=np.float64),
        }

    def state_dict(self) -> dict[str, Any]:
        """Give the tables so far, for a checkpoint: tensors and plain values."""
        arrays = {name: a for name, a in self.arrays().items() if name != "names"}
        # Not all of torch knows uint64.
        arrays = {n: a.view(np.int64) if a.dtype == np.uint64 else a for n, a in arrays.items()}
        tables = {"rows": self.rows, "resumed_at": self.resumed_at}
        return {**tables, **{name: torch.from_numpy(a) for name, a in arrays.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the tables of a checkpoint."""
        self.rows = state_dict["rows"]
        self.resumed_at = [*state_dict["resumed_at"], len(self.rows)]
        self._initial, self._gradients, self._fingerprints = (
            state_dict[name].numpy().view(np.uint64).tolist()
            for name in ("initial", "gradients", "parameters")
        )
        self._samples = list(state_dict["sample"].numpy())

    def _sample(self) -> np.ndarray:
        parts = [
            p.detach().reshape(-1)[index].double()
            for p, index in zip(self._parameters, self._sampled, strict=True)
        ]
        return torch.cat(parts).cpu().numpy() if parts else np.empty(0)


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

"""What a module predicts waits on disk for the end of its prediction, not in memory.

Tensors and arrays are written as they come, to a file without a name beside the run's own, which is
gone with its process however that ends. All else that `predict_step` returns (numbers, texts,
objects of a user's class) stays in memory, as it is. So does everything where code of the user's
may look at the predictions when all are there.
"""

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import BasePredictionWriter
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.plain_tensors import bare, flat_bytes
from twinrun.process.machine_faults import is_machine_fault
from twinrun.trace.fingerprints import is_plain, was_given_back
from twinrun.training.prediction_trees import Form, form_of, plain_tree

AT_THE_END = ("on_predict_epoch_end", "on_predict_end")
OF_OTHERS = ("pytorch_lightning", "lightning", "twinrun")  # no code of the user's

Array: TypeAlias = torch.Tensor | np.ndarray


class Waiting:
    """Stands for a tensor or an array that waits in a spool."""

    __slots__ = ("_load", "form")

    def __init__(self, load: "partial[Array]", form: Form | None) -> None:
        """Keep how it is loaded, and what `form_of` says of it."""
        self._load, self.form = load, form

    def load(self) -> Array:
        """Read it."""
        return self._load()


class Spool:
    """A file of tensors and arrays, made when the first one comes."""

    def __init__(self, beside: str | Path) -> None:
        """Lie in the folder of a file."""
        self._beside = Path(beside)
        self._file: io.BufferedRandom | None = None

    def __enter__(self) -> "Spool":
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def put(self, tree: object) -> object:
        """Return the same tree of dictionaries, lists and tuples, with what waits in its place.

        Raises:
            OSError: if there is no space for it.
        """
        if type(tree) is dict:
            return {key: self.put(value) for key, value in tree.items()}
        if type(tree) is list:
            return [self.put(value) for value in tree]
        if type(tree) is tuple:
            return tuple(self.put(value) for value in tree)
        if isinstance(tree, torch.Tensor) and _can_wait(tree):
            kind, shape, beside = type(tree), tuple(tree.shape), dict(vars(tree))
            start = self._write(flat_bytes(bare(tree)))
            return Waiting(
                partial(self._tensor, start, tree.dtype, shape, kind, beside), form_of(tree)
            )
        if type(tree) is np.ndarray and tree.dtype.kind in "biufc":
            start = self._write(np.ascontiguousarray(tree).reshape(-1).view(np.uint8))
            return Waiting(partial(self._array, start, tree.dtype, tree.shape), form_of(tree))
        return tree

    def _tensor(
        self,
        start: int,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        kind: type[torch.Tensor],
        beside: dict[str, object],
    ) -> torch.Tensor:
        found = torch.empty(shape, dtype=dtype)
        self._read(start, found.reshape(-1).view(torch.uint8).numpy())
        if issubclass(kind, torch.nn.Parameter) or not (beside or kind is not torch.Tensor):
            return found
        with torch._C.DisableTorchFunctionSubclass():
            found = torch.Tensor.as_subclass(found, kind)
        vars(found).update(beside)
        return found

    def _array(self, start: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        found = np.empty(shape, dtype=dtype)
        self._read(start, found.reshape(-1).view(np.uint8))
        return found

    def _write(self, content: np.ndarray) -> int:
        """Write bytes to the end; return where they begin."""
        with self._named():
            if self._file is None:
                self._beside.parent.mkdir(parents=True, exist_ok=True)
                file = tempfile.TemporaryFile(dir=self._beside.parent)  # noqa: SIM115 see __exit__
                self._file = cast(io.BufferedRandom, file)
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(content.data)
        return start

    def _read(self, start: int, content: np.ndarray) -> None:
        assert self._file is not None  # noqa: S101 nothing else is read than was written
        with self._named():
            self._file.seek(start)
            if self._file.readinto(content.data) != content.nbytes:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name in an error the file that this one is for: it has no name of its own."""
        try:
            yield
        except OSError as error:
            if error.errno and error.filename is None:
                error.filename = str(self._beside)
            raise


def _can_wait(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is its class, bytes, shape and type, and attributes that have names."""
    return (
        is_plain(tensor)
        and not tensor.is_meta
        and not was_given_back(tensor)
        and type(bare(tensor)) in (torch.Tensor, torch.nn.Parameter)
        and not any(vars(base).get("__slots__") for base in type(tensor).__mro__)
    )


def loaded(tree: object) -> object:
    """Return a tree as it was put into a spool."""
    if isinstance(tree, Waiting):
        return tree.load()
    if type(tree) is dict:
        return {key: loaded(value) for key, value in tree.items()}
    if type(tree) is list:
        return [loaded(value) for value in tree]
    return tuple(loaded(value) for value in tree) if type(tree) is tuple else tree


class _Batches(list[object]):
    """The outputs of a loader, which the Trainer appends to."""

    def __init__(self, spool: Spool) -> None:
        super().__init__()
        self._spool = spool

    def append(self, outputs: object) -> None:
        try:
            outputs = self._spool.put(plain_tree(outputs))
        except Exception as error:
            # What cannot be looked at is named when all outputs are there.
            if is_machine_fault(error):
                raise
        super().append(outputs)


class Spooling(pl.Callback):
    """Has the Trainer keep in a spool what it returns of a prediction."""

    def __init__(self, spool: Spool) -> None:
        """Keep the spool."""
        self._spool = spool

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Replace its lists; what it appends to them is what no hook changes any more."""
        if not _are_looked_at(trainer, pl_module):
            loop = trainer.predict_loop
            loop._predictions = [_Batches(self._spool) for _ in loop._predictions]


def _are_looked_at(trainer: pl.Trainer, module: pl.LightningModule) -> bool:
    """Say whether code of the user's may look at all predictions of a Trainer."""
    if any(is_overridden(hook, module, pl.LightningModule) for hook in AT_THE_END):
        return True
    for callback in vars(trainer)["callbacks"]:
        hooks = [getattr(callback, hook) for hook in AT_THE_END]
        if any(hook.__module__.partition(".")[0] not in OF_OTHERS for hook in hooks):
            return True
        if isinstance(callback, BasePredictionWriter) and callback.interval.on_epoch:
            return True
    return False

"""Write what a run leaves: each file whole, the hashes of all of them last."""

import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TypeAlias

import pytorch_lightning as pl
import torch

from twinrun import artifacts, dataset_files
from twinrun.config.definitions import Run, RunFiles
from twinrun.errors import TwinrunError
from twinrun.parameters import parameters_of
from twinrun.process import environment
from twinrun.run_files import settings_of
from twinrun.run_records import Origin, TensorEntry
from twinrun.trace.step_tracer import Tracer
from twinrun.training.epoch_log import EpochMetrics
from twinrun.training.tensor_file import Parts, write_parts

NamedTensor: TypeAlias = tuple[str, Literal["parameter", "buffer"], torch.Tensor]
"""Name, kind and value."""


def origin_of(run: Run) -> Origin:
    """Describe what a run comes from: settings, machine, versions, data, code."""
    identity, training = run.identity, run.training
    dataset = training.dataset
    return {
        "workload": identity.workload,
        "variant": identity.variant,
        "seed": identity.seed,
        "repeat": identity.repeat,
        "perturbation": identity.perturbation,
        "settings": settings_of(training),
        "environment": environment.describe(),
        "data": {"path": dataset, "sha256": dataset_files.sha256(dataset)} if dataset else None,
        "source_sha256": run.source_sha256,
    }


def watched(dataset: str | None) -> Callable[[Origin], Origin]:
    """Look at a dataset; return what adds to an origin whether it has been written to since."""
    path = Path(dataset or "").absolute()
    before = dataset_files.state_of(path) if dataset else []

    def since(origin: Origin) -> Origin:
        data = origin["data"]
        if data is None or _is_still(path, before, data["sha256"]):
            return origin
        return {**origin, "data": {**data, "is_changed": True}}

    return since


def _is_still(path: Path, before: list[int], sha256: str) -> bool:
    try:
        # The bytes only where something was written: they may be many.
        return dataset_files.state_of(path) == before or dataset_files.sha256(path) == sha256
    except (OSError, TwinrunError):  # it is gone, or broken
        return False


def absolute(run: Run) -> Run:
    """Return the same run, whose files lie where they do though a module changes its folder."""
    files = {name: str(Path(file).absolute()) for name, file in asdict(run.files).items()}
    checkpoints = str(Path(run.checkpoints).absolute())
    return replace(run, files=replace(run.files, **files), checkpoints=checkpoints)


def moved(files: RunFiles, folder: Path) -> RunFiles:
    """Return the same files in another folder."""
    names = {name: str(folder / Path(file).name) for name, file in asdict(files).items()}
    return replace(files, **names)


def write_arrays(
    files: RunFiles,
    tensors: Iterable[NamedTensor],
    tracer: Tracer,
    metrics: EpochMetrics,
) -> None:
    """Write what the training itself leaves: weights, steps, epochs, fingerprints."""
    write_parts(files.weights, {name: Parts.of(t) for name, _, t in tensors})
    artifacts.write_csv_parts(files.steps, tracer.table())
    artifacts.write_csv_parts(files.epochs, metrics.table())
    artifacts.write_arrays(files.fingerprints, tracer.arrays())


def write_predictions(files: RunFiles, predictions: Mapping[str, Parts]) -> None:
    """Write what the trained network predicts."""
    write_parts(files.predictions, predictions)


def entries_of(tensors: Iterable[NamedTensor]) -> list[TensorEntry]:
    """Describe parameters and buffers."""
    return [
        {"name": n, "kind": kind, "shape": list(t.shape), "dtype": str(t.dtype).split(".")[1]}
        for n, kind, t in tensors
    ]


def tensors_of(
    module: pl.LightningModule, optimizers: Sequence[torch.optim.Optimizer]
) -> list[NamedTensor]:
    """List name, kind and value of every parameter and buffer, in the module's order.

    Parameters that only an optimizer holds are among them.
    """
    return [
        *((name, "parameter", value) for name, value in parameters_of(module, optimizers).items()),
        *((name, "buffer", value) for name, value in module.named_buffers()),
    ]


def peak_memory_mb() -> int:
    """Return the most memory that this process has had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but bytes on macOS
    return round(peak / 2**20 if sys.platform == "darwin" else peak / 2**10)

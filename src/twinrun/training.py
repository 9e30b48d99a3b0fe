"""One run: a workload trained under a variant from a seed, through Lightning's Trainer.

The calling process must be fresh (see `launching`): nothing of an earlier run, no thread pool of
another size, no advanced random generator. The network of the last iteration is kept. Everything
the run leaves is written at its end, each file whole, the manifest last.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun import artifacts, environment
from twinrun.compilation import compile_steps
from twinrun.determinism import determinism
from twinrun.jobs import TwinrunError
from twinrun.launching import report_progress
from twinrun.loading import build_data, build_module
from twinrun.tracing import Tracer

PROGRESS_SECONDS = 10.0


def train(
    *,
    identity: Mapping[str, Any],
    workload: Mapping[str, Any],
    variant: Mapping[str, Any],
    dataset: str | None,
    source: Sequence[str],
    search_path: Sequence[str],
    outputs: Mapping[str, str],
) -> None:
    """Train once and write the files of the run.

    Args:
        identity: `workload`, `variant`, `seed`, `repeat` of the run.
        workload: its settings.
        variant: its settings, with the accelerator resolved.
        dataset: path of the dataset's file.
        source: files of code that the run depends on; their hash is part of what makes a pair.
        search_path: folders with the user's own modules.
        outputs: paths of `weights`, `steps`, `epochs`, `fingerprints`, `predictions`, `manifest`.

    Raises:
        TwinrunError: if the workload cannot be built, the device is missing, or a deterministic
            variant meets an operation that has no reproducible implementation.
    """
    started = time.perf_counter()
    label = "{workload}/{variant}/seed{seed}/repeat{repeat}".format(**identity)
    seed = identity["seed"]
    with determinism(deterministic=variant["deterministic"], threads=variant["threads"]):
        pl.seed_everything(seed, workers=True, verbose=False)
        data = build_data(
            workload,
            seed=seed,
            dataset_path=dataset,
            data_workers=variant["data_workers"],
            search_path=search_path,
        )
        module = build_module(workload, search_path)
        if variant["compile"] == "module":
            compile_steps(module)
        tracer, metrics = Tracer(), EpochMetrics()
        with tempfile.TemporaryDirectory(prefix="twinrun-") as empty:
            trainer = _trainer(
                workload, variant, root=empty, callbacks=[tracer, metrics, Progress(label)]
            )
            setup_ended = time.perf_counter()
            try:
                trainer.fit(module, datamodule=data)
            except RuntimeError as error:
                if "deterministic" in str(error):
                    raise TwinrunError(
                        f"variants.{identity['variant']}.deterministic: {str(error).split('. ')[0]}"
                    ) from error
                raise
            fit_ended = time.perf_counter()
            tested = _test(trainer, module, data)
            predictions = _predict(trainer, module, data)
    tensors = list(_tensors(module))
    artifacts.write_tensors(outputs["weights"], {name: t for name, _, t in tensors})
    artifacts.write_csv(outputs["steps"], pd.DataFrame(tracer.rows))
    artifacts.write_csv(outputs["epochs"], pd.DataFrame(metrics.rows))
    artifacts.write_arrays(outputs["fingerprints"], tracer.arrays())
    artifacts.write_tensors(outputs["predictions"], predictions)
    manifest = {
        **identity,
        "settings": {"workload": workload, "variant": variant},
        "environment": environment.describe(),
        "data": dataset and {"path": dataset, "sha256": artifacts.sha256(dataset)},
        "source_sha256": artifacts.sha256_of_files(source),
        "tensors": [
            {"name": n, "kind": kind, "shape": list(t.shape), "dtype": str(t.dtype).split(".")[1]}
            for n, kind, t in tensors
        ],
        "weights_sha256": artifacts.sha256(outputs["weights"]),
        "steps": len(tracer.rows),
        "epochs": len(metrics.rows),
        "metrics": tested,
        "seconds": {
            "setup": round(setup_ended - started, 3),
            "fit": round(fit_ended - setup_ended, 3),
            "total": round(time.perf_counter() - started, 3),
        },
        "peak_memory_mb": _peak_memory_mb(),
        "ended": "finished",
    }
    artifacts.write_json(outputs["manifest"], manifest)


class EpochMetrics(pl.Callback):
    """Keeps what the module logged, a row an epoch."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a row; by now validation, which runs inside the epoch, has logged too."""
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch + 1, **values})


class Progress(pl.Callback):
    """Says every few seconds where the training stands and when it will be done."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = self._said = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._started = self._said = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        if now - self._said < PROGRESS_SECONDS:
            return
        self._said = now
        done = trainer.current_epoch + (batch_idx + 1) / trainer.num_training_batches
        left = (now - self._started) * (trainer.max_epochs / done - 1)
        report_progress(
            f"{self._label}: epoch {trainer.current_epoch + 1} of {trainer.max_epochs}, "
            f"step {trainer.global_step}, about {left:.0f} s left"
        )


def _trainer(
    workload: Mapping[str, Any],
    variant: Mapping[str, Any],
    *,
    root: str,
    callbacks: list[pl.Callback],
) -> pl.Trainer:
    if variant["accelerator"] == "gpu" and not (
        torch.cuda.is_available() or torch.backends.mps.is_available()
    ):
        raise TwinrunError(
            "accelerator: gpu was asked for, but torch sees none on this machine; say cpu, or run "
            "where there is one"
        )
    return pl.Trainer(
        accelerator=variant["accelerator"],
        devices=1,
        precision=variant["precision"],
        max_epochs=workload["epochs"],
        default_root_dir=root,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        # Inside a cluster job Lightning would take the job's single task for the whole world.
        plugins=[LightningEnvironment()],
    )


def _test(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, float]:
    if not (
        is_overridden("test_step", module, pl.LightningModule)
        and is_overridden("test_dataloader", data, pl.LightningDataModule)
    ):
        return {}
    return {
        name: float(value) for name, value in trainer.test(module, data, verbose=False)[0].items()
    }


def _predict(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, torch.Tensor]:
    """Concatenate the outputs of `predict_step` over the data module's prediction batches."""
    if not is_overridden("predict_dataloader", data, pl.LightningDataModule):
        return {}
    batches = trainer.predict(module, data)
    if not batches:
        return {}
    if isinstance(batches[0], torch.Tensor):
        batches = [{"prediction": batch} for batch in batches]
    if not isinstance(batches[0], Mapping):
        raise TwinrunError(
            f"module: predict_step of {type(module).__name__} returns a "
            f"{type(batches[0]).__name__}, where a tensor or a dictionary of tensors is needed"
        )
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def _tensors(module: pl.LightningModule) -> list[tuple[str, str, torch.Tensor]]:
    """List name, kind and value of every parameter and buffer, in the module's order."""
    return [
        *((name, "parameter", value) for name, value in module.named_parameters()),
        *((name, "buffer", value) for name, value in module.named_buffers()),
    ]


def _peak_memory_mb() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but bytes on macOS
    return round(peak / 2**20 if sys.platform == "darwin" else peak / 2**10)

"""One run: a workload trained under a variant from a seed, through Lightning's Trainer.

The calling process must be fresh (see `launching`): nothing of an earlier run, no thread pool of
another size, no advanced random generator. With several workers each of them is such a process, and
the first writes. The network of the last iteration is kept. Everything the run leaves is written at
its end, each file whole, their hashes last.
"""

import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun import artifacts, run_files
from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.steps import is_fast
from twinrun.acceleration.under_trainer import Speed
from twinrun.checkpoint import interrupt
from twinrun.checkpoint.resumable import Resumable
from twinrun.checkpoint.stop_request import Stop, Stopped
from twinrun.errors import TwinrunError, sentence_of
from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.whole_batch import Team, check_same_parameters, join_team
from twinrun.parallel.workers import connected
from twinrun.process import environment
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.process.launching import report_progress
from twinrun.training.epoch_log import EpochMetrics, EpochSeconds
from twinrun.training.load_workload import build_data, build_module
from twinrun.training.progress import Curves, Progress
from twinrun.training.unsupported import Supported, check_tensors


def train(
    *,
    identity: Mapping[str, Any],
    workload: Mapping[str, Any],
    variant: Mapping[str, Any],
    dataset: str | None,
    source_sha256: str,
    search_path: Sequence[str],
    outputs: Mapping[str, str],
    checkpoints: str,
    checkpoint_minutes: float,
    is_stopped: bool = False,
) -> None:
    """Train once and write the files of the run; a killed run goes on from its last checkpoint.

    Args:
        identity: `workload`, `variant`, `seed`, `repeat` of the run.
        workload: its settings.
        variant: its settings, with the accelerator resolved.
        dataset: path of the dataset's file.
        source_sha256: hash of the code that the run depends on; part of what makes a pair.
        search_path: folders with the user's own modules.
        outputs: paths of `weights`, `steps`, `epochs`, `fingerprints`, `predictions`, `manifest`,
            `checksums`.
        checkpoints: folder for the last checkpoint, until the run is finished.
        checkpoint_minutes: at least these lie between two checkpoints.
        is_stopped: end this process where the variant says, for another to go on.

    Raises:
        TwinrunError: if the workload cannot be built or shared, the device is missing, a
            deterministic variant meets an operation that has no reproducible implementation, or
            the training was not the one asked for (workers, steps); also if a signal stopped it,
            after its files have been written to the folder `stopped` beside `manifest`.
    """
    started = time.perf_counter()
    label = "{workload}/{variant}/seed{seed}/repeat{repeat}".format(**identity)
    folder = Path(outputs["manifest"]).parent
    seed = identity["seed"]
    origin = {
        **identity,
        "settings": {"workload": workload, "variant": variant},
        "environment": environment.describe(),
        "data": dataset and {"path": dataset, "sha256": artifacts.sha256(dataset)},
        "source_sha256": source_sha256,
    }
    with (
        determinism(**{key: variant[key] for key in SWITCHES}),
        compiler_switches(),
        connected(
            devices=variant["devices"],
            nodes=variant["nodes"],
            accelerator=variant["accelerator"],
        ) as workers,
        tempfile.TemporaryDirectory(prefix="twinrun-") as empty,
    ):
        pl.seed_everything(seed, workers=True, verbose=False)
        data = build_data(
            workload,
            seed=seed,
            dataset_path=dataset,
            data_workers=variant["data_workers"],
            persistent_workers=variant["persistent_workers"],
            search_path=search_path,
        )
        module = build_module(workload, search_path)
        check_tensors(module)
        speed = Speed(module, variant)
        stop = Stop(folder / "STOP")
        team = join_team(workers, module, data, stop, variant=variant, seed=seed)
        if variant["accumulate"] > 1:
            team.tracer = accumulate(module, data, parts=variant["accumulate"])
        resumable = Resumable(
            checkpoints,
            identity={**origin, "environment": origin["environment"]["identity"]},
            minutes=checkpoint_minutes if variant["stop"] == "none" else 0,
            say=lambda text: workers.is_first and report_progress(f"{label}: {text}"),
        )
        tracer, metrics, seconds = team.tracer, EpochMetrics(), EpochSeconds(team)
        callbacks = [resumable, stop, Supported(), *team.callbacks, tracer, metrics, seconds]
        lightnings = None
        if variant["stop"] != "none" and variant["resume"] == "lightning":
            lightnings = Path(checkpoints, interrupt.FILE)
            callbacks.remove(resumable)
        if is_stopped:
            callbacks.append(interrupt.Interrupt(variant["stop"], lightnings))
        if workers.is_first:
            callbacks.append(Progress(label, tracer, workers.count))
            callbacks.append(Curves(folder / "tensorboard", tracer))
        trainer = trainer_of(workload, variant, team, root=empty, callbacks=callbacks)
        setup_ended = time.perf_counter()
        last = None if is_stopped else lightnings or resumable.last()
        # What a training that Lightning resumed comes to is what one wants to know of it.
        is_result = lightnings is not None and not is_stopped
        failure = _fit(trainer, module, data, last, identity["variant"], variant, is_result)
        fit_ended = time.perf_counter()
        check_same_parameters(module, workers)
        tested, predictions = {}, {}
        if stop.reason is None and failure is None:
            tested = _test(trainer, module, data)
            predictions = _predict(trainer, module, data)
        peak_memory_mb = int(workers.gather(torch.tensor([_peak_memory_mb()])).sum())
    if not workers.is_first:
        return
    if stop.reason is None and failure is None:
        _check_extent(trainer, variant, team, steps=len(tracer.rows))
    kept = folder / "stopped"
    if stop.is_by_signal:
        outputs = {name: str(kept / Path(file).name) for name, file in outputs.items()}
    tensors = list(_tensors(module))
    artifacts.write_tensors(outputs["weights"], {name: t for name, _, t in tensors})
    artifacts.write_csv(outputs["steps"], pd.DataFrame(tracer.rows))
    artifacts.write_csv(outputs["epochs"], metrics.table())
    artifacts.write_arrays(outputs["fingerprints"], tracer.arrays())
    artifacts.write_tensors(outputs["predictions"], predictions)
    manifest = {
        **origin,
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
            "epochs": seconds.training,
            "communication": seconds.communication,
        },
        "compilation": speed.compiled and speed.compiled.counts(),
        "peak_memory_mb": peak_memory_mb,
        "resumed_at": tracer.resumed_at,
        "ended": failure or stop.reason or "finished",
    }
    artifacts.write_json(outputs["manifest"], manifest)
    files = [file for name, file in outputs.items() if name != "checksums"]
    run_files.write_checksums(outputs["checksums"], files)
    if stop.is_by_signal:
        raise TwinrunError(
            f"{stop.reason} after step {manifest['steps']}: the network so far is in {kept}; start "
            f"the workflow again to train the run to its end"
        )
    shutil.rmtree(kept, ignore_errors=True)
    resumable.remove()


def trainer_of(
    workload: Mapping[str, Any],
    variant: Mapping[str, Any],
    team: Team,
    *,
    root: str,
    callbacks: list[pl.Callback],
) -> pl.Trainer:
    """Give the Trainer of a run; `root` is an empty folder.

    Raises:
        TwinrunError: if torch sees fewer GPUs than the variant asks for.
    """
    devices = variant["devices"] // variant["nodes"]
    if variant["accelerator"] == "gpu":
        _check_gpus(devices)
    return pl.Trainer(
        accelerator=variant["accelerator"],
        devices=devices,
        num_nodes=variant["nodes"],
        strategy=team.strategy,
        sync_batchnorm=variant["batch_norm"] == "synchronised",
        use_distributed_sampler=False,
        precision=variant["precision"],
        max_epochs=workload["epochs"],
        default_root_dir=root,
        callbacks=callbacks,
        accumulate_grad_batches=variant["accumulate"],
        limit_val_batches=1.0 if variant["validation"] else 0,
        logger=variant["logging"],
        # Lightning counts the one that stops the training as a checkpoint callback.
        enable_checkpointing=variant["checkpointing"]
        or any(isinstance(callback, interrupt.Interrupt) for callback in callbacks),
        enable_progress_bar=variant["logging"],
        enable_model_summary=False,
        num_sanity_val_steps=0,
        # Inside a cluster job Lightning would take the job's single task for the whole world.
        plugins=[LightningEnvironment()],
    )


def _check_gpus(devices: int) -> None:
    found = torch.cuda.device_count() or int(torch.backends.mps.is_available())
    if not found:
        raise TwinrunError(
            "accelerator: gpu was asked for, but torch sees none on this machine; say cpu, or run "
            "where there is one"
        )
    if found < devices:
        raise TwinrunError(
            f"devices: {devices} GPUs were asked for, but torch sees {found}; each worker has one"
        )


def _fit(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    data: pl.LightningDataModule,
    checkpoint: Path | None,
    name: str,
    variant: Mapping[str, Any],
    is_result: bool,
) -> str | None:
    """Train; give the sentence of a failure that is a result, raise any other.

    A step that was to be fast and fails is a result too, so that its study goes on.
    """
    try:
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except Stopped:
        pass  # the network so far is kept; what follows a whole training is left out
    except Exception as error:
        if not is_result:
            _explain(error, name)
            if not is_fast(variant) or variant["devices"] > 1:
                raise
        traceback.print_exc()
        return f"broken off: {sentence_of(error)}"
    return None


def _explain(error: Exception, variant: str) -> None:
    """Raise what torch's refusals mean here."""
    text = str(error)
    if "deterministic" in text:
        raise TwinrunError(f"variants.{variant}.deterministic: {text.split('. ')[0]}") from error
    if "conditioned on metric" in text:
        raise TwinrunError(
            f"variants.{variant}.validation: a callback of the module needs what is not logged "
            f"({text.split('. ')[0]})"
        ) from error
    if "not used in producing" in text:
        raise TwinrunError(
            f"variants.{variant}.devices: the module has parameters that its loss does not use; "
            f"freeze them (requires_grad_(False)) or train with devices: 1"
        ) from error


def _check_extent(
    trainer: pl.Trainer, variant: Mapping[str, Any], team: Team, *, steps: int
) -> None:
    """Refuse a training that was not the one asked for: Lightning may train a part in silence."""
    if trainer.world_size != variant["devices"]:
        raise TwinrunError(
            f"devices: the variant wants {variant['devices']}, but {trainer.world_size} trained"
        )
    if not steps:
        raise TwinrunError(
            "data: the training took no step; train_dataloader must give at least one batch"
        )
    expected = team.steps_per_epoch() and team.steps_per_epoch() * trainer.current_epoch
    if expected is not None and steps != expected:
        raise TwinrunError(
            f"devices: {trainer.current_epoch} epochs are {expected} steps, but {steps} were taken"
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
    """Concatenate the outputs of `predict_step` over the data module's prediction batches.

    Lightning's own `predict_step` calls `forward`: a module with neither predicts nothing.
    """
    can_predict = any(
        is_overridden(method, module, pl.LightningModule) for method in ("predict_step", "forward")
    )
    if not (can_predict and is_overridden("predict_dataloader", data, pl.LightningDataModule)):
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

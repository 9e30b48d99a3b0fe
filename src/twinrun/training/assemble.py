"""A training assembled: seed, data, module, fast steps, workers, Trainer.

The run, the replay of one step and the timing of the Trainer's loop are assembled here and nowhere
else, so that what is replayed or timed is what is run. The order matters: the constructors of data
and module draw from the generators that were seeded just before.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.precision.precision import _PRECISION_INPUT
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import Strategy

from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.under_trainer import Speed
from twinrun.checkpoint.stop_request import Stop
from twinrun.config.definitions import TrainerArguments, Training, Variant
from twinrun.errors import JobError
from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.counted_by_trainer import AccumulatedByEpoch
from twinrun.parallel.team import Team, join_team
from twinrun.parallel.workers import Workers, connected
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.training.build_workload import (
    Built,
    OfRun,
    build_both,
    import_workload,
)
from twinrun.training.late_in_replays import LateInReplays
from twinrun.training.model_summary import default_summary
from twinrun.training.overfit import without_shuffling
from twinrun.training.trainer_objects import loggers_in
from twinrun.training.unsupported import check_tensors


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """What a Trainer is given, and who trains."""

    module: pl.LightningModule
    """The user's, with its fast steps and shards in place."""
    data: pl.LightningDataModule
    """The user's, with its loaders as the variant says."""
    speed: Speed
    """The module's fast steps, with the counts of what was compiled."""
    replays: LateInReplays
    """Looks for what changes beside replayed steps; one of the run's callbacks."""
    workers: Workers
    """This process and those that train the same network with it."""
    team: Team
    """What the Trainer needs to train with them."""
    root: str
    """An empty folder, for the Trainer alone."""


@contextmanager
def assembled(
    training: Training, stop: Stop | None = None, root: Path | None = None
) -> Iterator[Assembly]:
    """Assemble a training under the switches of its variant; they are restored at the end.

    Args:
        training: what it is made of.
        stop: asked by several workers between steps; of one worker it is a callback of its own.
        root: the folder that the Trainer is given; an empty one of its own if None.

    Raises:
        TwinrunError: if the workload cannot be built or sharded, or the device is missing.
    """
    variant = training.variant
    with (
        determinism(**{key: getattr(variant, key) for key in SWITCHES}),
        # A module that compiles by itself is left to do it its own way.
        compiler_switches() if variant.compile != "none" else nullcontext(),
        connected(
            devices=variant.devices, nodes=variant.nodes, accelerator=variant.accelerator
        ) as workers,
        tempfile.TemporaryDirectory(prefix="twinrun-")
        if root is None
        else nullcontext(root) as own,
    ):
        Path(own).mkdir(parents=True, exist_ok=True)
        # Lightning resumes, without asking, from one that it finds there.
        for checkpoint in Path(own).glob("hpc_ckpt_*"):
            checkpoint.unlink(missing_ok=True)
        # After the switches: a constructor may already compute, on as many threads as it is given.
        module, data, _ = build(training)
        check_tensors(module, is_set_up=False)
        speed = Speed(module, variant)
        team = join_team(workers, module, data, stop, variant=variant, seed=training.seed)
        if variant.accumulate > 1:
            team.tracer = accumulate(
                module,
                data,
                micro_batches=variant.accumulate,
                accumulated=training.workload.trainer.accumulation(variant.accumulate),
            )
        try:
            yield Assembly(
                module=module,
                data=data,
                speed=speed,
                replays=LateInReplays(speed),
                workers=workers,
                team=team,
                root=str(own),
            )
        finally:
            team.tracer.close()


def build(training: Training) -> Built:
    """Import, seed Python, NumPy and torch, then construct the data module and the module.

    Raises:
        TwinrunError: if the workload cannot be built.
    """
    # As a script, which imports first: what its modules draw or seed then is not the run's.
    import_workload(training.workload, training.search_path)
    pl.seed_everything(training.seed, workers=True, verbose=False)
    built = build_both(
        training.workload,
        of_run_in(training),
        search_path=training.search_path,
        persistent_workers=training.variant.persistent_workers,
    )
    if training.workload.trainer.overfit_batches:
        without_shuffling(built.data)
    return built


def of_run_in(training: Training) -> OfRun:
    """Return what a run gives to the constructor that makes its data."""
    return OfRun(
        seed=training.seed,
        path=training.dataset,
        data_workers=training.variant.data_workers,
    )


def trainer_of(
    variant: Variant,
    given: TrainerArguments,
    *,
    root: str,
    callbacks: list[pl.Callback],
    strategy: str | Strategy = "auto",
    max_epochs: int,
) -> pl.Trainer:
    """Return the Trainer of a variant.

    Args:
        variant: its settings.
        given: the workload's own arguments.
        root: an empty folder.
        callbacks: of the training.
        strategy: Lightning's; `Team` has that of several workers.
        max_epochs: when the training ends; -1 where `max_steps` of `given` says it.

    Raises:
        JobError: if torch sees fewer GPUs than the variant asks for.
    """
    devices = variant.devices // variant.nodes
    if variant.accelerator == "gpu":
        _check_gpus(devices)
    told: dict[str, Any] = asdict(given)
    for name in ("callbacks", "logger"):  # the module brings its callbacks
        del told[name]
    accumulated = told["accumulate_grad_batches"] = given.accumulation(variant.accumulate)
    if isinstance(accumulated, dict):
        callbacks = [*callbacks, AccumulatedByEpoch(accumulated, variant.accumulate)]
        told["accumulate_grad_batches"] = variant.accumulate
    trainer = pl.Trainer(
        accelerator=variant.accelerator,
        devices=devices,
        num_nodes=variant.nodes,
        strategy=strategy,
        sync_batchnorm=variant.batch_norm == "synchronised",
        # Workers get their shards from `batch_sharding`, which keeps the order of one worker.
        use_distributed_sampler=False,
        precision=cast(_PRECISION_INPUT, variant.precision),  # the schema names what it may be
        **told,
        max_epochs=max_epochs,
        default_root_dir=root,
        callbacks=[*callbacks, *default_summary(given, callbacks)],
        logger=loggers_in(given, root) or variant.logging,
        # Lightning counts the one that stops the training as a checkpoint callback.
        enable_checkpointing=variant.checkpointing
        or any(isinstance(callback, pl.callbacks.Checkpoint) for callback in callbacks),
        enable_progress_bar=variant.logging,
        # Inside a cluster job Lightning would take the job's single task for the whole world.
        plugins=[LightningEnvironment()],
    )
    if not variant.validation:  # also where `overfit_batches` limits both
        trainer.limit_val_batches = 0
    return trainer


def _check_gpus(devices: int) -> None:
    # Apple's GPU counts as one: torch has no number of them.
    found = torch.cuda.device_count() or int(torch.backends.mps.is_available())
    if not found:
        raise JobError(
            "accelerator: gpu was asked for, but torch sees none on this machine; say cpu, or run "
            "where there is one"
        )
    if found < devices:
        raise JobError(
            f"devices: {devices} GPUs were asked for, but torch sees {found}; each worker has one"
        )

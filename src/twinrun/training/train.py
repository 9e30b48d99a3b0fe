"""One run: a workload trained under a variant from a seed, through Lightning's Trainer.

    prove      that fast steps compute what plain ones do (see `prove`)
    assemble   seed, data, module, fast steps, workers, Trainer (see `assemble`)
    fit        the training; its weights and fingerprints are written as soon as it ends
    evaluate   what the network gives on test and prediction data; its predictions are written
    write      manifest, hashes

The calling process must be fresh (see `launching`): nothing of an earlier run, no thread pool of
another size, no generator that something has drawn from. With several workers each of them is such
a process, and the first writes. The network of the last iteration is kept.
"""

import shutil
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch

from twinrun import artifacts, run_files
from twinrun.acceleration.steps import is_fast
from twinrun.checkpoint import interrupt
from twinrun.checkpoint.best_models import are_missing
from twinrun.checkpoint.resumable import Resumable
from twinrun.checkpoint.stop_request import Stop, Stopped
from twinrun.config.definitions import Run, Variant
from twinrun.errors import JobError, TwinrunError, sentence_of
from twinrun.parallel.early_refusals import check_same_parameters
from twinrun.process.cached_sources import held_by_this_job, newer_than_caches
from twinrun.process.compiler_cache import cache_used
from twinrun.process.found_files import disturbed_by, read_of_earlier
from twinrun.process.fresh_process import report_progress
from twinrun.process.machine_faults import is_machine_fault
from twinrun.process.shared_files import found, leave_out
from twinrun.run_records import Origin, RunManifest
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.training.assemble import Assembly, assembled, trainer_of
from twinrun.training.check_extent import check_extent
from twinrun.training.epoch_log import EpochMetrics, EpochSeconds
from twinrun.training.evaluate import Evaluation, evaluate
from twinrun.training.explain_refusal import explain_refusal
from twinrun.training.fit_clock import FitClock
from twinrun.training.perturbation import Perturbation
from twinrun.training.prediction_spool import Spool
from twinrun.training.progress import Curves, Progress
from twinrun.training.remembered_proofs import proven
from twinrun.training.unsupported import Supported
from twinrun.training.what_happened import WhatHappened
from twinrun.training.without_numbers import why_no_result, without_numbers
from twinrun.training.write_run import (
    absolute,
    entries_of,
    moved,
    origin_of,
    peak_memory_mb,
    tensors_of,
    watched,
    write_arrays,
    write_predictions,
)


def train(run: Run, *, is_stopped: bool = False) -> None:
    """Train once and write the files of the run; a killed run is resumed from its last checkpoint.

    Args:
        run: what is trained, and where its files go.
        is_stopped: end this process where the variant says, for another to resume the training.

    Raises:
        TwinrunError: if the workload cannot be built or sharded, the device is missing, a
            deterministic variant meets an operation that has no reproducible implementation, or
            the training was not the one asked for (workers, steps).
        JobError: if a signal stopped it, after its files have been written to the folder `stopped`
            beside its manifest.
    """
    run = absolute(run)
    root = Path(run.checkpoints, "root")
    leave_out([str(Path(run.files.manifest).parent), run.checkpoints], but=str(root))
    stop = Stop(Path(run.files.manifest).with_name("STOP"))
    with stop.blamed():
        _train(run, stop, root, is_stopped=is_stopped)


def _train(run: Run, stop: Stop, root: Path, *, is_stopped: bool) -> None:
    started = time.perf_counter()
    stopped = Path(run.files.manifest).parent / "stopped"
    seen, origin = watched(run.training.dataset), origin_of(run)
    # Prove fast steps, in processes of their own: nothing of a proof is left in this one.
    proof, refusal = proven(run.training)

    with assembled(run.training, stop, root) as assembly, Spool(run.files.predictions) as spool:
        module, data = assembly.module, assembly.data
        workers, team = assembly.workers, assembly.team
        variant = run.training.variant
        watchers = _watch(run, origin, assembly, stop, is_stopped=is_stopped)
        trainer = trainer_of(
            variant,
            run.training.workload.trainer,
            root=assembly.root,
            callbacks=watchers.callbacks,
            strategy=team.strategy,
            max_epochs=run.training.workload.epochs,
        )
        clock, setup_ended = FitClock(team.tracer), time.perf_counter()

        # Fit.
        last = None if is_stopped else watchers.lightning_file or watchers.resumable.last()
        was_stopped = variant.stop != "none" and not is_stopped
        # A failure after the training was resumed on purpose is itself the result: it is reported.
        is_result = was_stopped and last is not None
        failure = refusal or _fit(
            trainer, module, data, last, run.identity.variant, variant, is_result, stop
        )
        fit_seconds, steps = clock.stop(), team.tracer.steps
        check_same_parameters(module, workers, "after the training")
        is_whole = stop.reason is None and failure is None
        lacks_models = last is not None and not was_stopped and are_missing(trainer)
        # Now: a test would give the Trainer no optimizers, and may add to the module.
        tensors = tensors_of(module, trainer.optimizers)
        entries = entries_of(tensors)
        not_held = watchers.happened.not_held(trainer, module)
        unproven = assembly.replays.unproven(trainer, module, proof)
        broken = without_numbers(tensors) - watchers.happened.without_numbers
        files = moved(run.files, stopped) if stop.is_by_signal else run.files
        if workers.is_first:
            if is_whole:
                check_extent(trainer, variant, run.training.workload.trainer, team, steps=steps)
            # Before test and prediction, which may end the process: the training is kept.
            write_arrays(files, tensors, team.tracer, watchers.metrics)
        # All workers take part: Lightning exchanges the test metrics between them.
        evaluation = Evaluation()
        if is_whole:
            evaluation = evaluate(trainer, module, data, run.training.workload, stop, spool)
        if lacks_models and evaluation.missing:
            raise TwinrunError(f"{evaluation.missing}; files of a ModelCheckpoint are missing")
        outputs, least = evaluation.predictions, team.tracer.losses.least()
        no_result, doubts = why_no_result(module, broken, outputs, least, steps)
        if workers.is_first:
            write_predictions(files, outputs)
        memory = int(workers.gather(torch.tensor([peak_memory_mb()])).sum())
    if not workers.is_first:
        return
    watchers.happened.look_at_code()
    # The manifest and its checksums come last: a run that has them is whole.
    manifest: RunManifest = {
        **seen(origin),
        "tensors": entries,
        "weights_sha256": artifacts.sha256(files.weights),
        "steps": steps,
        "epochs": watchers.metrics.epochs,
        "whole_epochs": watchers.happened.whole_epochs,
        "metrics": evaluation.metrics,
        "not_evaluated": evaluation.missing,
        "evaluated_on": evaluation.given,
        "loaded": evaluation.loaded,
        "actual": watchers.happened.actual,
        "perturbed": watchers.perturbation.found,
        "departures": watchers.happened.departures,
        "code": watchers.happened.code,
        "not_fingerprinted": sorted(team.tracer.not_fingerprinted),
        "not_held": not_held,
        "own_generators": watchers.happened.own_generators.found,
        "found_files": (left := found()),
        "read_files": (read := held_by_this_job()),
        "no_result": no_result or disturbed_by(left),
        "doubts": doubts + unproven + read_of_earlier(left["changed"]) + newer_than_caches(read),
        "seconds": {
            "setup": round(setup_ended - started, 3),
            **fit_seconds,
            "total": round(time.perf_counter() - started, 3),
            **watchers.seconds.of_epochs,
        },
        "compilation": assembly.speed.counts(),
        "compiler_cache": cache_used(),
        "proof": proof,
        "peak_memory_mb": memory,
        "resumed_at": team.tracer.resumed_at,
        **({"made_anew": anew} if (anew := watchers.resumable.made_anew()) else {}),
        "was_stopped": was_stopped,
        "not_resumed": watchers.resumable.refused if was_stopped and last is None else None,
        "ended": failure or stop.reason or "finished",
    }
    run_files.write_run(files, manifest)
    if stop.is_by_signal:
        where = f"{stop.reason} after step {steps}: the network so far is in {stopped}"
        raise JobError(f"{where}; start the workflow again to train the run to its end")
    # What an earlier, stopped attempt left: only now is it of no use.
    shutil.rmtree(stopped, ignore_errors=True)
    watchers.resumable.remove()


@dataclass(frozen=True, kw_only=True)
class _Watchers:
    """What looks on while a run trains."""

    callbacks: list[pl.Callback]
    """All of them, in the order in which the Trainer calls them."""
    resumable: Resumable
    """Writes checkpoints, to resume from."""
    metrics: EpochMetrics
    """Keeps what is logged in each epoch."""
    seconds: EpochSeconds
    """Measures each epoch."""
    happened: WhatHappened
    """Notes what the training really had."""
    perturbation: Perturbation
    """Changes one weight, if the run is to begin with such a change."""
    lightning_file: Path | None
    """Lightning's checkpoint, where the variant's training is resumed from one."""


def _watch(
    run: Run, origin: Origin, assembly: Assembly, stop: Stop, *, is_stopped: bool
) -> _Watchers:
    """Make the callbacks of a run."""
    variant, team, label = run.training.variant, assembly.team, run.identity.label
    is_first = assembly.workers.is_first
    # A checkpoint is not resumed elsewhere, or with other code than it was made with.
    identity = {**origin, "environment": origin["environment"]["identity"], "imports": run.imports}
    resumable = Resumable(
        run.checkpoints,
        identity=identity,
        minutes=run.checkpoint_minutes if variant.stop == "none" else 0,
        in_epoch=interrupt.checkpoint_before(variant.stop) if is_stopped else None,
        say=lambda text: report_progress(f"{label}: {text}") if is_first else None,
        fingerprint=fingerprint_tree,
        together=team.together,
        trained_otherwise=team.trained_otherwise(variant),
    )
    metrics = EpochMetrics(Path(run.checkpoints, "trace"), is_kept=is_first)
    seconds, happened = EpochSeconds(team), WhatHappened(variant, run.training.workload.trainer)
    # Resumable comes first: it puts RNG states back before any other callback can draw.
    first: list[pl.Callback] = [resumable]
    lightning_file = None
    # Resumed as Lightning alone would: nothing of ours may repair what its checkpoint loses.
    if variant.stop != "none" and variant.resume == "lightning":
        lightning_file, first = Path(run.checkpoints, interrupt.FILE), []
    team.tracer.traced = variant.traced
    if is_first:
        team.tracer.keep_in(Path(run.checkpoints, "trace"))
    perturbation = Perturbation(run.identity.perturbation)
    callbacks = [
        *first,
        assembly.speed,
        stop,
        Supported(),
        *team.callbacks,
        # Before the tracer, which looks at what the first step starts with.
        *([perturbation] if run.identity.perturbation else []),
        team.tracer,
        *(metrics, seconds, happened, assembly.replays),
        *([interrupt.Interrupt(variant.stop, lightning_file, team.together)] if is_stopped else []),
    ]
    if is_first:
        callbacks.append(Progress(label, team.tracer, assembly.workers.count))
        callbacks.append(Curves(Path(run.files.manifest).with_name("tensorboard"), team.tracer))
    return _Watchers(
        callbacks=callbacks,
        resumable=resumable,
        metrics=metrics,
        seconds=seconds,
        happened=happened,
        perturbation=perturbation,
        lightning_file=lightning_file,
    )


def _fit(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    data: pl.LightningDataModule,
    checkpoint: str | Path | None,
    name: str,
    variant: Variant,
    is_result: bool,
    stop: Stop,
) -> str | None:
    """Train; return the sentence of a failure that is a result, raise any other."""
    try:
        # weights_only: a checkpoint is data, and must not run code when it is read.
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except Stopped:
        pass  # the network so far is kept; what follows a whole training is left out
    except Exception as error:
        if stop.heard or is_machine_fault(error):  # neither says anything of the training
            raise
        if not is_result:
            explain_refusal(error, name)
        # A step that was to be fast and fails is a result too, so that its study gets other runs.
        # Behind a kill it says nothing yet (see `run`); of several workers others may wait for it.
        if variant.devices > 1 or not (is_result or (is_fast(variant) and checkpoint is None)):
            raise
        traceback.print_exc()
        return f"broken off: {sentence_of(error)}"
    return None

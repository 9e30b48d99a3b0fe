"""One part of a rehearsal: construct, take the first step, validate, test, predict; what failed.

Everything is done as a run does it, through Lightning's Trainer with the real number of epochs and
batches, so that schedulers plan for the real training; it is stopped after its first steps, which
has Lightning validate and end the epoch. Nothing is written: no checkpoint, no log.
"""

import contextlib
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytorch_lightning as pl
import torch

from twinrun.config.definitions import Training
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.determinism import determinism
from twinrun.process.imported_code import imported_files
from twinrun.trace.fingerprints import fingerprint_rng_states
from twinrun.training.assemble import of_run_in
from twinrun.training.batch_clock import BatchClock
from twinrun.training.build_workload import build_data, build_module, wrong_values
from twinrun.training.contract import deviations
from twinrun.training.evaluate import Evaluation, evaluate
from twinrun.training.explain_failure import booleans_as_texts
from twinrun.training.first_step import FirstStep, sizes_of, trainer_of_first_step
from twinrun.training.foreseen import foreseen_of
from twinrun.training.late_failures import of_later_steps
from twinrun.training.load_workload import (
    left_defaults,
    load_constructor,
    mistakes,
    not_taken,
    receiver,
    replaced_defaults,
    taken_from_run,
    takers_of,
)
from twinrun.training.loader_processes import LoaderProcesses
from twinrun.training.logged_names import may_be_logged
from twinrun.training.rehearsal_plan import Part, Rehearsed
from twinrun.training.rehearsal_words import Takers, failure, placed
from twinrun.training.rehearsed_checkpoints import write_checkpoints_below
from twinrun.training.remedies import WITH_NONE
from twinrun.training.sanity_check import SanityCheck
from twinrun.training.trainer_objects import drawn_after_module
from twinrun.training.unmet_settings import Lenient, of_hand, of_metric, of_monitors, of_step
from twinrun.training.unsupported import Supported, check_tensors
from twinrun.training.write_run import peak_memory_mb


def rehearse_part(part: Part, say: Callable[[str], None]) -> Rehearsed:
    """Rehearse a part in this process.

    Args:
        part: what is rehearsed; where its dataset could not be made, only its constructors are.
        say: told what begins.
    """
    started, found = time.perf_counter(), part.outcome()
    _forget_peak()
    part = _on_this_machine(part, found)
    try:
        with _environment(part.training.variant.environment):
            takers, sentences = _of_code(part, say)
            found["mistakes"] = [placed(part, sentence) for sentence in dict.fromkeys(sentences)]
            if not sentences:
                workload = part.training.workload
                replaced = replaced_defaults(workload, takers[receiver(workload)])
                texts = (*replaced, *left_defaults(workload, takers))
                found["notes"] += [f"{part.label}: {text}" for text in texts]
                of_step = dict.fromkeys(_of_step_in_a_folder(part, takers, found, say))
                note_failures(part, found, list(of_step))
    except SystemExit as error:
        # An Exception is caught where it is raised; this is none.
        note_failures(part, found, [f"module: {sentence_of(error)}"])
    found["seconds"] = round(time.perf_counter() - started, 3)
    # Parts share a process: the next one's peak of memory is to be its own.
    gc.collect()
    return found


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set a variant's variables as its runs find them; parts of other variants share a process."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def note_failures(part: Part, found: Rehearsed, sentences: list[str]) -> None:
    """Keep what failed: as mistakes, but of a trial, whose failure is a result, as notes."""
    for sentence in sentences:
        is_result = part.key == "sweep.trials" and not sentence.startswith("sweep.metric")
        found["notes" if is_result else "mistakes"].append(placed(part, sentence))


def _of_code(part: Part, say: Callable[[str], None]) -> tuple[Takers, list[str]]:
    """Import both classes; return their parameters, and what they do not take."""
    workload, search_path = part.training.workload, part.training.search_path
    module = data = None
    sentences = []
    say(f"importing {workload.module.partition(':')[0]}")
    try:
        module = load_constructor(workload, "module", pl.LightningModule, search_path)
    except TwinrunError as error:
        sentences.append(str(error))
    if workload.data is not None:
        say(f"importing {workload.data.partition(':')[0]}")
        try:
            data = load_constructor(workload, "data", pl.LightningDataModule, search_path)
        except TwinrunError as error:
            sentences.append(str(error))
    if module is None or sentences:
        return {}, sentences
    takers = takers_of(workload, module, data)
    sentences = [
        *mistakes(workload, takers),
        *booleans_as_texts(workload.hyperparameters, takers),
        *_of_run_arguments(part, takers),
    ]
    return takers, sentences or list(wrong_values(workload, search_path))


def _of_step_in_a_folder(
    part: Part, takers: Takers, found: Rehearsed, say: Callable[[str], None]
) -> Iterator[str]:
    with (
        determinism(
            deterministic=False,
            threads=part.training.variant.threads,
            fill_uninitialized_memory=False,
        ),
        tempfile.TemporaryDirectory(prefix="twinrun-") as root,
    ):
        yield from _of_step(part, takers, found, say, root)


def _of_run_arguments(part: Part, takers: Takers) -> Iterator[str]:
    """Find what a run would give to a data module that does not take it."""
    workload = part.training.workload
    taken = taken_from_run(workload, takers[receiver(workload)])
    if workload.dataset is not None and "path" not in taken:
        yield (
            f"dataset: {not_taken(workload, 'path')}, which is to be the file of "
            f"{workload.dataset}; add it, name its own in from_run.path, or leave "
            f"`dataset` out"
        )
    add = "add it, or name its own in from_run.data_workers, or take 0"
    if workload.from_run.data_workers is None:  # since the loaders fail with none, say
        add = f"leave that out, or have {WITH_NONE} and name the argument in from_run.data_workers"
    elif "num_workers" in takers[receiver(workload)]:
        add = "say `from_run: {data_workers: num_workers}`, or take 0"
    for key, variant in part.used.items():
        if variant.data_workers and "data_workers" not in taken:
            yield (
                f"{'data' if workload.data else 'module'}: "
                f"{not_taken(workload, 'data_workers')}, which {key}.data_workers: "
                f"{variant.data_workers} asks for; {add}"
            )


def _of_step(
    part: Part, takers: Takers, found: Rehearsed, say: Callable[[str], None], root: str
) -> Iterator[str]:
    """Construct both and take a step."""
    training, variant, workload = part.training, part.training.variant, part.training.workload
    pl.seed_everything(training.seed, workers=True, verbose=False)
    module, data, base = None, None, peak_memory_mb()
    try:
        if workload.data is not None and part.dataset is None:
            say("constructing the data module")
            data = _data_before_module(part, found)
    except TwinrunError as error:
        yield failure(f"constructing {workload.data}", error, part, takers)
    if workload.data is None and part.dataset is not None:
        return  # its dataset could not be made
    say("constructing the module")
    try:
        module = build_module(workload, training.search_path, of_run_in(training))
        check_tensors(module, is_set_up=False)
        if workload.data is None:
            data = _data_of(training, module)
    except TwinrunError as error:
        yield failure(f"constructing {workload.module}", error, part, takers)
        return
    if not module.automatic_optimization:
        yield from of_hand(part)
        if workload.trainer.accumulation() != 1:
            return  # Lightning takes no step
    if data is None:
        return
    say("one training step")
    step, loading = FirstStep(say=say, clock=(clock := BatchClock())), LoaderProcesses()
    try:
        found["notes"] += [f"{part.label}: {n}" for n in drawn_after_module(workload, root)]
        others = (Supported(), Lenient(), clock, loading, SanityCheck(step.notes))
        trainer = trainer_of_first_step(training, root, step, *others)
        left_out = write_checkpoints_below(module, root)
        trainer.fit(module, datamodule=data)
        if trainer.enable_validation and not step.has_validated:  # no first epoch need be
            trainer.validate(module, datamodule=data, verbose=False)
    except Exception as error:  # a user's module may raise anything
        yield failure(step.phase, error, part, takers)
        return
    yield from step.mistakes(trainer, module, data)
    yield from of_step(part, trainer, step)
    if step.count:
        yield from of_monitors(part, [*vars(trainer)["callbacks"], *left_out], trainer, step)
    found["notes"] += [f"{part.label}: {note}" for note in step.notes]
    found["steps_per_epoch"] = step.batches
    found["foreseen"] = foreseen_of(trainer, module, step.optimizer_bytes, variant.precision, base)
    say("one test and prediction batch")
    evaluation = evaluate(trainer, module, data, workload)
    found["notes"] += [f"{part.label}: {n}: {why}" for n, why in evaluation.missing.items()]
    found["logged"] = sorted({*step.logged, *evaluation.metrics})
    found["sizes"] = sizes_of(module, step, clock, loading)
    yield from of_later_steps(part, trainer, step, found["notes"])
    if part.is_thorough and part.key.startswith("workloads.") and step.count:
        found["notes"] += [f"{part.label}: {text}" for text in deviations(training, say)]
    yield from _of_metric(part, trainer, step, evaluation, found)
    clock.again(trainer, data, lambda: evaluate(trainer, module, data, workload), found["sizes"])


def _of_metric(
    part: Part, trainer: pl.Trainer, step: FirstStep, evaluation: Evaluation, found: Rehearsed
) -> Iterator[str]:
    """Say that a metric was not logged: a mistake where nothing can log it in a later epoch."""
    if part.metric not in evaluation.metrics:
        yield from of_metric(part, trainer, step)
    if part.metric is None or part.metric in found["logged"] or not step.count:
        return
    failed = evaluation.missing.get("test")
    because = f" (its test failed: {failed})" if failed else ""
    known = ", ".join(found["logged"]) or "nothing"
    logged = f"{part.training.workload.module} logs {known}{because}"
    files = [entry["file"] for entry in imported_files().values()]
    metric = str(part.metric)
    if part.training.workload.epochs == 1 or not may_be_logged(
        metric, trainer.lightning_module, files
    ):
        yield f"{part.study}.metric: {metric!r} is not logged; {logged}"
        return
    note = (
        f"{part.study}.metric: {metric!r} was not logged in the rehearsal's one epoch, in which "
        f"{logged}; a later one must log it"
    )
    found["notes"].append(placed(part, note))


def _data_of(
    training: Training, module: pl.LightningModule | None = None
) -> pl.LightningDataModule:
    return build_data(
        training.workload, of_run_in(training), search_path=training.search_path, module=module
    )


def _data_before_module(part: Part, found: Rehearsed) -> pl.LightningDataModule:
    """Construct the data module; note whether the module's weights depend on that."""
    before, workload = fingerprint_rng_states(cuda=False), part.training.workload
    data = _data_of(part.training)
    if workload.cli is None and fingerprint_rng_states(cuda=False) != before:
        found["notes"].append(
            f"{part.label}: {workload.data} draws random numbers when it is made, which is before "
            f"the module; a script that makes the module first starts from other weights"
        )
    return data


def _forget_peak() -> None:
    """Have the system count this process's most memory anew; Linux alone can.

    https://docs.kernel.org/filesystems/proc.html
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _on_this_machine(part: Part, found: Rehearsed) -> Part:
    """Rehearse on the CPU what is promised a GPU on another machine."""
    variant = part.training.variant
    if variant.accelerator != "gpu":
        return part
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return part
    found["notes"].append(f"{part.label}: rehearsed on the CPU, since this machine has no GPU")
    variant = replace(variant, accelerator="cpu", precision="32-true")
    return replace(part, training=replace(part.training, variant=variant))

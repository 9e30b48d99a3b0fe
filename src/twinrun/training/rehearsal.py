"""The rehearsal: one step of everything that a workload does, without leaving anything.

Constructors with the real hyperparameters, loaders, one training step with its optimizer through
Lightning's Trainer, so that hooks, schedulers and callbacks run, one batch each of validation, test
and prediction. What fails is a sentence. What was seen is returned: the metrics that are logged,
and the sizes that matter for memory.

Workloads of the same classes share a process, so that a slow import is waited for once. Which part
ends the process does not end the others.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from twinrun import artifacts
from twinrun.config.definitions import Dataset
from twinrun.errors import TwinrunError
from twinrun.process.forked import Message, TimeLimitError, messages_of
from twinrun.process.fresh_process import report_progress
from twinrun.process.import_path import import_object, user_line
from twinrun.process.shared_files import begins_part
from twinrun.training.explain_failure import explained_failure
from twinrun.training.prepare_dataset import made_arrays, signature_of
from twinrun.training.rehearsal_plan import FIRST_BATCH, Part, Rehearsed
from twinrun.training.rehearse_workload import note_failures, rehearse_part

# A line on the terminal where nothing has happened for so long; each next one after twice as long.
SILENT_SECONDS = 5.0
# A dataset that takes longer is not made twice: what needs it is not rehearsed, and that is said.
MAKING_SECONDS = 60.0
# A loader that gives no batch for so long is taken for one that never will.
BATCH_SECONDS = 300.0


def rehearse(
    parts: list[Part], datasets: dict[str, Dataset], search_path: list[str], report: str
) -> None:
    """Rehearse all parts and write what came of them.

    Args:
        parts: what is rehearsed.
        datasets: those that are yet to be made.
        search_path: folders with the user's own modules.
        report: path of a JSON list of `Rehearsed`, in the order of `parts`.
    """
    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        files, problems = {}, {}
        for name, dataset in datasets.items():
            files[name] = str(Path(folder, f"{name}.npz"))
            # In a process of its own: a maker may hang, or end its process.
            problems[name] = _make(name, dataset, search_path, files[name])
        done: dict[str, Rehearsed] = {}
        for group in _groups(parts):
            for part, found in _in_processes([_with_file(p, files, problems) for p in group]):
                done[part.label] = found
    for part in parts:
        if part.dataset is not None:
            mistake, note = problems[part.dataset]
            done[part.label]["mistakes"] = [*mistake, *done[part.label]["mistakes"]]
            done[part.label]["notes"] = [*note, *done[part.label]["notes"]]
    _refuse_sweeps_without_a_trial([done[part.label] for part in parts])
    artifacts.write_record(report, [done[part.label] for part in parts], list[Rehearsed])


def _refuse_sweeps_without_a_trial(found: Sequence[Rehearsed]) -> None:
    """A trial that fails is a result of its sweep, unless all that were rehearsed fail."""
    trials: dict[str, list[Rehearsed]] = {}
    for part in found:
        if part["key"] == "sweep.trials":
            trials.setdefault(part["label"].partition("~")[0], []).append(part)
    for sweep in trials.values():
        if all(part["sizes"] is None for part in sweep):
            for part in sweep:
                part["mistakes"], part["notes"] = part["mistakes"] + part["notes"], []


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """Put those together that import the same classes."""
    groups: dict[tuple[str, str | None], list[Part]] = {}
    for part in parts:
        workload = part.training.workload
        groups.setdefault((workload.module, workload.data), []).append(part)
    return list(groups.values())


def _with_file(
    part: Part, files: Mapping[str, str], problems: Mapping[str, tuple[list[str], list[str]]]
) -> Part:
    """Return a part with the file of its dataset, if that could be made."""
    if part.dataset is None or any(problems[part.dataset]):
        return part
    return replace(part, dataset=None, training=replace(part.training, dataset=files[part.dataset]))


# Datasets


def _make(
    name: str, dataset: Dataset, search_path: list[str], file: str
) -> tuple[list[str], list[str]]:
    """Make a dataset into a file; return mistakes and notes, one of both at most."""
    what = f"datasets.{name}: making it by {dataset.make}"
    try:
        making = messages_of(
            partial(_make_arrays, name=name, dataset=dataset, search_path=search_path, file=file),
            every=SILENT_SECONDS,
            limit=MAKING_SECONDS,
        )
        return list(_with_progress(making, lambda: what)), []
    except TimeLimitError as error:
        return [], [f"{what} {error}: what reads it was not rehearsed"]
    except TwinrunError as error:
        return [f"{what} {error}"], []


def _make_arrays(
    send: Callable[[str], None], name: str, dataset: Dataset, search_path: list[str], file: str
) -> None:
    make = dataset.make or ""
    try:
        arrays = made_arrays(name, make, dataset.parameters, search_path)
    except TwinrunError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, TwinrunError):  # not from inside the function
            send(str(error))
            return
        takers = {make: signature_of(import_object(make)) or {}}
        where = user_line(cause, [make])
        said = explained_failure(f"calling {make}", cause, dataset.parameters, takers, where)
        send(f"datasets.{name}: {said.replace('hyperparameters.', 'parameters.')}")
        return
    artifacts.write_arrays(file, arrays)


# Workloads


def _in_processes(parts: Sequence[Part]) -> Iterator[tuple[Part, Rehearsed]]:
    """Rehearse parts one after the other; the next process continues behind one that died."""
    waiting = list(parts)
    while waiting:
        phase = "starting"
        try:
            messages = messages_of(partial(_rehearse_parts, parts=waiting), every=SILENT_SECONDS)
            with closing(messages):  # which ends the process, whatever it waits for
                for message in _with_progress(messages, lambda: waiting[0].label):
                    if isinstance(message, str):
                        phase = message
                    else:
                        yield waiting.pop(0), message
                        if not waiting:
                            return
        except TwinrunError as error:
            died = waiting.pop(0)
            found = died.outcome()
            note_failures(died, found, [f"{phase} {error}"])
            yield died, found


def _rehearse_parts(send: Callable[[str | Rehearsed], None], parts: Sequence[Part]) -> None:
    for part in parts:
        begins_part()
        send(rehearse_part(part, send))


def _with_progress(
    messages: Iterator[Message | None], what: Callable[[], str]
) -> Iterator[Message]:
    """Pass messages on, and say what is under way where none came for a while."""
    phase, started, patience = "", time.monotonic(), SILENT_SECONDS
    for message in messages:
        if message is not None:
            phase = message if isinstance(message, str) else ""
            started, patience = time.monotonic(), SILENT_SECONDS
            yield message
            continue
        waited = time.monotonic() - started
        if phase.startswith(FIRST_BATCH) and waited >= BATCH_SECONDS:
            raise TimeLimitError(
                f"did not come within {BATCH_SECONDS / 60:.0f} minutes; a loader that needs longer "
                f"is trained with `rehearsal: false`"
            )
        if waited >= patience:
            report_progress(f"{what()}: {phase}{phase and ', '}{waited:.0f} s so far")
            patience *= 2

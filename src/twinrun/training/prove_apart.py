"""The proof in processes of its own, so that nothing of it is left in a run or a timing.

A module may keep state outside of its objects: a generator or a counter of its file or class, a
cache, a patch of another library, a switch of torch. In the process of the run, the short trainings
would move it before the training begins: a run that proved would not be a pair with one that found
the proof remembered. So a fresh process proves, with an empty compiler's cache of its own; and each
of its short trainings is done by a process that it forks, so that all of them begin with the same
state, as runs do. It imports the user's classes before and computes nothing, since neither threads
nor a GPU that are in use survive a fork. Where importing them starts threads or uses a GPU (a look
whether there is one may be enough, which shows in the forked process alone), and on macOS, the
short trainings are done one after the other in the fresh process.
"""

import contextlib
import multiprocessing
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

import psutil
import torch
from msgspec import convert

from twinrun import artifacts
from twinrun.config.definitions import Training
from twinrun.errors import JobError, TwinrunError, sentence_of
from twinrun.process.compiler_cache import own_cache
from twinrun.process.forked import death
from twinrun.process.imported_code import Imported, imported_files
from twinrun.process.launching import launch
from twinrun.process.machine_faults import SENT, is_machine_fault
from twinrun.process.parent import end_with_parent, this_process
from twinrun.proof_records import Proof
from twinrun.signals import signal_behind
from twinrun.training.load_workload import load_workload
from twinrun.training.prove import (
    BrokenOffError,
    OtherComputationError,
    ShortlyTrained,
    ShortTraining,
    prove,
    train_shortly,
)


class Outcome(TypedDict):
    """What a proof's process found."""

    proof: Proof | None
    """None for one that failed."""
    code: Imported
    """The user's modules that it imported."""
    error: str | None
    """Why it failed."""
    is_other_computation: bool
    """Whether that is a value that was off."""


def prove_apart(training: Training) -> tuple[Proof, Imported]:
    """Prove in processes of its own; return the proof, and the user's modules it rests on.

    Raises:
        TwinrunError: see `prove`.
        JobError: if the device is missing, or the machine ended the process.
    """
    with own_cache() as cache, tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        file = Path(folder, "outcome.json")
        launch(
            f"{__name__}:prove_into",
            {"training": training, "outcome": str(file)},
            # A variant's own variables come last: who shares a cache on purpose may.
            {**cache, **training.variant.environment},
            ends_with_us=True,
        )
        found = artifacts.read_record(file, Outcome)
    if found["proof"] is None:
        kind = OtherComputationError if found["is_other_computation"] else TwinrunError
        raise kind(found["error"] or "")
    return found["proof"], found["code"]


def prove_into(training: Training, outcome: str) -> None:
    """Prove, in a fresh process, and write the Outcome to a file.

    Raises:
        JobError: see `prove_apart`.
    """
    trainings = _ShortTrainings(training)
    found: Outcome = {"proof": None, "code": {}, "error": None, "is_other_computation": False}
    try:
        found["proof"] = prove(training, trainings.train)
    except JobError:
        raise
    except TwinrunError as error:
        traceback.print_exc()
        found["error"] = str(error)
        found["is_other_computation"] = isinstance(error, OtherComputationError)
    found["code"] = {**trainings.code, **imported_files()}
    artifacts.write_record(outcome, found, Outcome)


Failed = Literal["job", "mend", "other"]
# What torch raises in a forked process where the GPU's driver was loaded before the fork, though
# `torch.cuda.is_initialized()` was False there.
NOT_IN_A_FORK = "in forked subprocess"
ERRORS: Mapping[Failed, type[Exception]] = {
    "job": JobError,
    "mend": TwinrunError,
    "other": BrokenOffError,
}


class Forked(TypedDict):
    """What a forked process found."""

    trained: ShortlyTrained | None
    """None where it failed."""
    failed: Failed | None
    """Which kind of error that was."""
    why: str | None
    """Its sentence."""
    code: Imported
    """The user's modules that it imported."""


class _ShortTrainings:
    """Short trainings that all begin with the same state of the process."""

    def __init__(self, training: Training) -> None:
        """Import the user's classes, which may take seconds, once for all."""
        self.code: Imported = {}
        """The user's modules that forked processes imported."""
        process = psutil.Process()
        before = process.num_threads()
        # What cannot be imported is told by the first training.
        with contextlib.suppress(TwinrunError):
            load_workload(training.workload, training.search_path)
        is_used = process.num_threads() > before or torch.cuda.is_initialized()
        self._forks = sys.platform == "linux" and not is_used

    def train(self, asked: ShortTraining) -> ShortlyTrained:
        """Train shortly, in a forked process where one can be forked.

        Raises:
            JobError: if the device is missing, or the machine ended the process.
            TwinrunError: what the training raises.
            BrokenOffError: for all else, what the module raises in the forked process included.
        """
        if not self._forks:
            return train_shortly(asked)
        with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
            file = Path(folder, "trained.pt")
            process = multiprocessing.get_context("fork").Process(
                target=_train, args=(asked, file, this_process())
            )
            process.start()
            process.join()
            if not file.exists():
                why = f"its short training {death(process.exitcode or 0)}"
                # What computes something wrong crashes (SIGSEGV); nothing sends itself these.
                is_sent = -(process.exitcode or 0) in SENT
                raise JobError(why) if is_sent else BrokenOffError(why)
            found = convert(torch.load(file, weights_only=True), Forked)
        self.code |= found["code"]
        if found["trained"] is None and NOT_IN_A_FORK in (found["why"] or ""):
            self._forks = False
            return train_shortly(asked)
        if found["trained"] is not None:
            return found["trained"]
        raise ERRORS[found["failed"] or "other"](found["why"] or "")


def _train(asked: ShortTraining, file: Path, parent: str) -> None:
    """Train in the forked process, and write what was found, or the failure, to a file."""
    end_with_parent(parent)
    found: Forked = {"trained": None, "failed": None, "why": None, "code": {}}
    try:
        found["trained"] = train_shortly(asked)
    # A user's module or a compiler may raise anything, and Lightning ends the program by a signal.
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, SystemExit) and signal_behind(error) is None:
            raise
        traceback.print_exc()
        found["failed"], found["why"] = "other", sentence_of(error)
        if is_machine_fault(error):
            found["failed"] = "job"
        elif isinstance(error, TwinrunError):
            found["failed"] = "mend"
    found["code"] = imported_files()
    # Whole or not at all: a process that dies here has left nothing.
    torch.save(_plain(found), file.with_suffix(".part"))
    file.with_suffix(".part").rename(file)


def _plain(found: Forked) -> dict[str, object]:
    """Return it as what torch loads as data alone: `Forked` is made of it again."""
    trained = found["trained"]
    if trained is None:
        return dict(found)
    evidence = {**vars(trained.evidence), "decisive": sorted(trained.evidence.decisive)}
    return {**found, "trained": {**vars(trained), "evidence": evidence}}

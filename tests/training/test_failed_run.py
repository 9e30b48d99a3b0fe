"""A training that fails is a result; what the machine does to a job is none."""

import errno
import sys
from dataclasses import replace
from pathlib import Path

import cannot_resume
import pytest
import torch
from example_trainings import VARIANT, WORKLOAD, arguments
from pytorch_lightning.utilities.exceptions import SIGTERMException

from twinrun import run_files
from twinrun.config.definitions import Identity
from twinrun.errors import JobError, TwinrunError
from twinrun.process.fresh_process import rebuilt
from twinrun.process.machine_faults import is_machine_fault
from twinrun.training.failed_run import failure_kept
from twinrun.training.run import run
from twinrun.training.train import train

IDENTITY = {"workload": "digits~lr~9", "variant": "one-worker", "seed": 1, "repeat": 1}


@pytest.fixture
def asked(tmp_path):
    workload = {**WORKLOAD, "hyperparameters": {"lr": 9}}
    run = rebuilt(train, arguments(tmp_path, workload, VARIANT))["run"]
    return replace(run, identity=Identity(**IDENTITY))


def test_a_failed_training_leaves_all_its_files_and_its_sentence(asked, capfd):
    with failure_kept(asked):
        raise TwinrunError("ValueError: Invalid learning rate: 9")
    manifest = run_files.read_ended(asked.files.manifest)
    assert manifest["ended"] == "failed: ValueError: Invalid learning rate: 9"
    assert run_files.failure_of(asked.files.manifest) == "ValueError: Invalid learning rate: 9"
    assert manifest["settings"]["workload"]["hyperparameters"] == {"lr": 9}
    said = capfd.readouterr().err
    assert "seed1/repeat1: this training failed, all else continues" in said
    assert "to train it again as it is, delete " in said
    assert manifest.items() >= IDENTITY.items()


def test_what_the_rehearsal_made_too_is_said_to_be_there(tmp_path, monkeypatch):
    """Red at 11f271a7: "File exists: outputs", which the rehearsal had made."""
    monkeypatch.chdir(tmp_path)
    Path("outputs").mkdir()
    workload = {**WORKLOAD, "module": "cannot_resume:MakesAFolder"}
    asked = rebuilt(train, arguments(tmp_path / "run", workload, VARIANT))["run"]
    with pytest.raises(TwinrunError, match=r"File exists: outputs; .* \(exist_ok=True\), or "):
        run(asked, {})


@pytest.mark.parametrize("error", [JobError, OSError])
def test_other_failures_are_the_workflows(asked, error, tmp_path):
    with pytest.raises(error), failure_kept(asked):
        raise error("no")
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_an_operation_without_a_deterministic_form_is_a_result(tmp_path):
    workload = {**WORKLOAD, "module": "small:Undeterministic"}
    asked = rebuilt(train, arguments(tmp_path, workload, VARIANT))["run"]
    with failure_kept(asked):
        run(asked, {})
    failure = run_files.failure_of(asked.files.manifest)
    assert failure.startswith("no reproducible algorithm for put_: torch refuses it")
    assert "use another operation in its place" in failure


def resumed(folder, monkeypatch, module, **settings):
    """Train a workload that is killed once behind a checkpoint, and again; return its manifest."""
    monkeypatch.setenv(cannot_resume.ONCE, str(folder / "once"))
    monkeypatch.chdir(folder)
    workload = {**WORKLOAD, "module": f"cannot_resume:{module}"}
    given = arguments(folder / "run", workload, {**VARIANT, **settings}, minutes=0)
    asked = rebuilt(train, given)["run"]
    with pytest.raises(JobError, match="SIGKILL"), failure_kept(asked):
        run(asked, {})
    assert list(Path(asked.checkpoints).glob("*.ckpt"))
    with failure_kept(asked):
        run(asked, {})
    return run_files.read_ended(asked.files.manifest)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("module", "settings"),
    [
        pytest.param("DropsWeights", {}, marks=pytest.mark.exhaustive),
        pytest.param("ReadsWhatIsNotThere", {"optimizer": "foreach"}, marks=pytest.mark.exhaustive),
        pytest.param("ReadsWhatIsNotThere", {}, marks=pytest.mark.slow),
        pytest.param("FailsLater", {}, marks=pytest.mark.exhaustive),
    ],
)
def test_what_fails_where_it_is_resumed_is_trained_from_the_beginning(
    tmp_path, monkeypatch, capfd, module, settings
):
    """Red before: it was kept as a training that fails, which it is not."""
    manifest = resumed(tmp_path, monkeypatch, module, **settings)
    assert (manifest["ended"], manifest["resumed_at"]) == ("finished", [])
    assert manifest["not_evaluated"] == {}
    assert not (tmp_path / "run-checkpoints").exists()
    assert "trained from the beginning" in capfd.readouterr().err


@pytest.mark.exhaustive
def test_a_checkpoint_that_was_not_used_is_not_blamed(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(cannot_resume.ONCE, str(tmp_path / "once"))
    monkeypatch.chdir(tmp_path)
    for rate, expected in ((0.1, JobError), (0.05, TwinrunError)):
        workload = {**WORKLOAD, "module": "cannot_resume:FailsAnyway"}
        workload["hyperparameters"] = {"learning_rate": rate, "size": 70}
        given = arguments(tmp_path / "run", workload, VARIANT, minutes=0)
        with pytest.raises(expected, match="SIGKILL" if rate == 0.1 else "my own mistake"):
            run(rebuilt(train, given)["run"], {})
    said = capfd.readouterr().err
    assert "is of another" in said
    assert "resumed from a checkpoint" not in said


@pytest.mark.exhaustive
def test_a_training_that_fails_also_from_the_beginning_is_a_result(tmp_path, monkeypatch):
    manifest = resumed(tmp_path, monkeypatch, "FailsAnyway")
    assert manifest["ended"] == "failed: ValueError: my own mistake"


def by_lightning(error):
    """Have Lightning, or a module, end the program where an exception is met."""
    try:
        try:
            raise error
        except BaseException:
            sys.exit(1)
    except SystemExit as end:
        return end


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JobError("results/x.npz is corrupt"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (MemoryError("std::bad_alloc"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error."), True),
        (RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), False),
        # Red before, these three: kept for good as what a training came to.
        (torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered"), True),
        (RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"), True),
        (RuntimeError("No CUDA GPUs are available: GPU has fallen off the bus"), True),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), False),
        (torch.AcceleratorError("CUDA error: unspecified launch failure"), False),
        (FileNotFoundError(errno.ENOENT, "No such file", "mine.csv"), False),
        (ValueError("Invalid learning rate: 9"), False),
        (TwinrunError("hyperparameters.lr: Module has no parameter of that name"), False),
        (RuntimeError("DataLoader worker raised: KeyError"), False),
        # Red before, these four: the disk was full under a checkpoint or a cache of the user's.
        (
            RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
            True,
        ),
        (RuntimeError("unable to write to file </torch_7>: No space left on device (28)"), True),
        (Exception("Error while serializing: I/O error: No space left on device"), True),
        (RuntimeError("database or disk is full"), True),
        (RuntimeError("[enforce fail at inline_container.cc:145] . failed reading archive"), False),
        (SIGTERMException(), True),  # red before, as the next line: "the code ends the program"
        (by_lightning(KeyboardInterrupt()), True),
        (by_lightning(ValueError("Invalid learning rate: 9")), False),
        (SystemExit(0), False),
    ],
)
def test_faults_of_the_machine_are_told_from_those_of_the_training(error, expected):
    assert is_machine_fault(error) is expected
    wrapped = RuntimeError("in the training step")
    wrapped.__cause__ = error
    assert is_machine_fault(wrapped) is expected

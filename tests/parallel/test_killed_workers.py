"""Two workers that die, one or both, at any moment: a retry ends in the same bits.

Each death is the machine's, and the last checkpoint that all have written outlives it.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from example_trainings import FILES, HERE, VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.config.definitions import Run
from twinrun.config.resume_variants import RESUMES
from twinrun.errors import JobError, TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.training.run import run

ALIKE = ("weights", "steps", "epochs", "fingerprints", "predictions")
ENVIRONMENT = environment_of(seed=1, deterministic=True, threads=1) | {"PYTHONPATH": HERE}
KILLED = "worker {} of 2 of twinrun.training.train:train was ended by SIGKILL"
# Of each death: which worker, when, which signal, to whom, and what is said of it.
DEATHS = [
    (1, "8", signal.SIGKILL, "itself", KILLED.format(2)),
    (1, "load", signal.SIGKILL, "itself", KILLED.format(2)),
    (1, "13", signal.SIGTERM, "itself", "stopped: SIGTERM after step 13"),
    (0, "12", signal.SIGKILL, "itself", KILLED.format(1)),
    (1, "save16", signal.SIGKILL, "itself", KILLED.format(2)),
    (0, "18", signal.SIGTERM, "parent", "stopped: SIGTERM after step 18"),
    (0, "19", signal.SIGKILL, "parent", None),
]
AT = [5, 10, 15]  # where what ends it was resumed: of the rest nothing is left


def asked(folder, death, **stop):
    """Return the arguments of a training of four epochs of five steps."""
    hyperparameters = {"size": 71, "death": str(death)}
    workload = {
        **WORKLOAD,
        "module": "in_a_team:Wide",
        "hyperparameters": hyperparameters,
        "epochs": 4,
    }
    return arguments(folder, workload, {**VARIANT, "threads": 1, "devices": 2, **stop}, minutes=0)


def train(told):
    launch("twinrun.training.train:train", told, ENVIRONMENT, workers=2)


def train_elsewhere(told):
    """Train below a process of its own; return how that ended."""
    code = (
        "import json, sys; from twinrun.process.launching import launch; "
        "launch('twinrun.training.train:train', *json.load(sys.stdin), workers=2)"
    )
    text = json.dumps([told, ENVIRONMENT])
    process = subprocess.run([sys.executable, "-c", code], input=text, text=True, check=False)
    return process.returncode


@pytest.mark.exhaustive  # minutes; test_agreed_checkpoints kills workers, too
def test_a_retry_ends_in_the_same_bits_whoever_died(tmp_path):
    """Red before: a worker that died where all load had the others throw the checkpoint away."""
    whole, killed, death = tmp_path / "whole", tmp_path / "killed", tmp_path / "death"
    train(asked(whole, death))
    told = asked(killed, death)
    for rank, moment, number, whom, why in DEATHS:
        death.write_text(f"{rank} {moment} {int(number)} {whom}")
        if why is None:
            assert train_elsewhere(told) == -signal.SIGKILL
        else:
            with pytest.raises(JobError, match=why):
                train(told)
        assert not death.exists()
        assert Path(f"{killed}-checkpoints/checkpoint.json").exists()
    train(told)
    for name in ALIKE:
        files = [folder / FILES[name] for folder in (whole, killed)]
        assert files[0].read_bytes() == files[1].read_bytes(), name
    found = [artifacts.read_json(folder / "run.json") for folder in (whole, killed)]
    assert [each["resumed_at"] for each in found] == [[], AT]
    assert found[0]["metrics"] == found[1]["metrics"]
    assert not Path(f"{killed}-checkpoints").exists()
    assert not (killed / "stopped").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("resume", RESUMES)
def test_what_one_worker_alone_meets_behind_a_stop_ends_the_run(tmp_path, resume):
    """Red before: it was a result, with which this worker went on while the other one waited."""
    death = tmp_path / "death"
    death.write_text("1 8 0 itself")  # the stop is behind step 7
    told = asked(tmp_path / "run", death, stop="mid_epoch", resume=resume)["run"]
    with pytest.raises(TwinrunError, match="of one worker alone"):
        run(msgspec.convert(told, Run), {})
    assert not death.exists()
    assert not (tmp_path / "run/run.json").exists()

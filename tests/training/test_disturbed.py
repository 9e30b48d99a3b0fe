"""What the machine does to a part of a run is no result of it: the job fails, and is done again.

Red before, all of them: the run was kept, with the fault as what its training, its test or its
proof had come to.
"""

import disturbed
import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import run_files
from twinrun.errors import JobError
from twinrun.process.fresh_process import rebuilt
from twinrun.training.failed_run import failure_kept
from twinrun.training.run import run
from twinrun.training.train import train

LOST = r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"
FULL = "No space left on device"
MEMORY = r"^out of memory \(.*\): give the job more memory or make its batch smaller$"
HELPER = r"my helper ended with -15 \(after SIGTERM, which ends a job\)"
FAST = {"optimizer": "foreach"}
RESUMED = {"stop": "epoch_end", "resume": "lightning"}


def kept(folder, settings, monkeypatch, where):
    monkeypatch.setenv(disturbed.WHERE, where)
    monkeypatch.setenv(disturbed.ONCE, str(folder / "once"))
    monkeypatch.chdir(folder)
    workload = {**WORKLOAD, "module": "disturbed:Disturbed", "data": "disturbed:DisturbedPoints"}
    asked = arguments(folder / "run", workload, {**VARIANT, **settings})
    asked = rebuilt(train, asked)["run"]
    with failure_kept(asked):
        run(asked, {})
    return asked.files.manifest


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("where", "settings", "why"),
    [
        ("data worker in test", {}, LOST),
        ("data worker in prediction", {}, LOST),
        ("disk in test", {}, FULL),
        ("memory in test", {}, MEMORY),
        ("memory in prediction", {}, MEMORY),
        ("list in test", {}, MEMORY),
        ("list in prediction", {}, MEMORY),
        ("helper in test", {}, HELPER),
        ("helper in fit", {}, HELPER),
        ("data worker in fit", FAST, LOST),
        ("disk in fit", FAST, FULL),
        ("SIGTERM in fit", FAST, "interrupted by SIGTERM"),
        ("SIGINT in fit", FAST, r"interrupted by SIGINT \(Ctrl-C\)"),
        ("disk in resumed", RESUMED, FULL),
        ("helper in resumed", RESUMED, HELPER),
    ],
)
def test_a_disturbed_run_is_none_and_the_next_one_is_whole(
    tmp_path, monkeypatch, where, settings, why
):
    with pytest.raises(JobError, match=why):
        kept(tmp_path, settings, monkeypatch, where)
    assert (tmp_path / "once").read_text() == where
    assert not (tmp_path / "run/run.json").exists()
    manifest = run_files.read_run(kept(tmp_path, settings, monkeypatch, where))
    assert (manifest["ended"], manifest["not_evaluated"]) == ("finished", {})
    assert set(manifest["metrics"]) == {"test_loss"}

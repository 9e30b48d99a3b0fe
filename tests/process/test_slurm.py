import pytest

from twinrun.process.slurm import srun_of_job, srun_of_workers


@pytest.fixture(autouse=True)
def _outside_of_slurm(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


def options(resources):
    command = srun_of_job(resources, name="rehearsal", threads=3)
    return command[command.index("srun") + 1 :]


def test_a_job_asks_for_what_a_training_asks_for():
    resources = {
        "slurm_account": "mine",
        "slurm_partition": "gpu",
        "constraint": "a100",
        "mem_mb": 4000,
        "runtime": 120,
        "gpu": 1,
        "slurm_extra": "--nice=5 --exclusive",
        "nodes": 2,
        "tasks": 4,
    }
    found = options(resources)
    assert found[:4] == ["--job-name=rehearsal", "--nodes=1", "--ntasks=1", "--cpus-per-task=3"]
    assert set(found[4:]) == {
        *("--account=mine", "--partition=gpu", "--constraint=a100", "--mem=4000", "--time=120"),
        *("--gpus=1", "--nice=5", "--exclusive"),
    }


@pytest.mark.parametrize("resources", [{}, {"gpu": 0, "qos": None, "slurm_extra": ""}])
def test_what_is_not_asked_for_is_no_option(resources):
    assert len(options(resources)) == 4


def test_a_job_inside_of_a_job_is_no_step_of_it(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    command = srun_of_job({}, name="rehearsal", threads=1)
    assert "--unset=SLURM_JOB_ID" in command[: command.index("srun")]
    assert "--unset=SLURM_CONF" not in command


def test_workers_share_the_nodes_evenly():
    command = srun_of_workers(4, 2, threads=1)
    assert {"--nodes=2", "--ntasks=4", "--ntasks-per-node=2"} <= set(command)

"""A proof happens elsewhere: nothing of it is left in the process that trains or times."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from example_trainings import HERE, VARIANT, WORKLOAD, arguments, state_of_this_process

from twinrun import artifacts
from twinrun.config.definitions import Training, Variant, Workload
from twinrun.errors import JobError, TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.training.prove import prove
from twinrun.training.prove_apart import prove_apart
from twinrun.training.remembered_proofs import proof_of

FOREACH = VARIANT | {"optimizer": "foreach"}


def training_of(module, **variant):
    workload = WORKLOAD | {"module": module, "hyperparameters": {}}
    return Training(
        workload=Workload(**workload),
        variant=Variant(**{**FOREACH, **variant}),
        seed=1,
        dataset=None,
        search_path=[HERE],
    )


def run(folder, module, variant=FOREACH):
    workload = WORKLOAD | {"module": module}
    variables = environment_of(seed=1, deterministic=True, threads=1)
    launch("twinrun.training.train:train", arguments(folder, workload, variant), variables)
    return artifacts.read_json(folder / "run.json")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("module", "settings"),
    [("Outside", {"optimizer": "foreach"}), ("OutsideHooks", {"compile": "module"})],
)
def test_a_run_that_proved_is_the_pair_of_one_that_remembered(
    module, settings, tmp_path, monkeypatch
):
    """Red before: the proof's short trainings moved what the module keeps outside of itself."""
    (tmp_path / ".snakemake").mkdir()
    monkeypatch.chdir(tmp_path)
    proven, remembered = (
        run(tmp_path / name, f"state_outside:{module}", VARIANT | settings)
        for name in ("proven", "remembered")
    )
    assert proven["ended"] == remembered["ended"] == "finished"
    assert not proven["proof"]["is_remembered"]
    assert remembered["proof"] == {**proven["proof"], "is_remembered": True}
    assert proven["weights_sha256"] == remembered["weights_sha256"]
    assert proven["code"] == remembered["code"]
    assert proven["actual"] == remembered["actual"]
    assert proven["compilation"] == remembered["compilation"]


@pytest.mark.exhaustive
def test_the_first_of_several_workers_proves_for_all(tmp_path):
    variant = FOREACH | {"devices": 2}
    variables = environment_of(seed=1, deterministic=True, threads=1)
    asked = arguments(tmp_path, WORKLOAD, variant)
    launch("twinrun.training.train:train", asked, variables, workers=2)
    manifest = artifacts.read_json(tmp_path / "run.json")
    assert (manifest["ended"], manifest["actual"]["devices"]) == ("finished", 2)
    assert manifest["proof"]["steps"] == 6


@pytest.mark.exhaustive
def test_state_outside_of_the_module_is_no_obstacle(monkeypatch):
    """In one process the plain training would not even repeat by itself."""
    (exact, own) = prove_apart(training_of("state_outside:Outside"))[0]["legs"]
    assert exact["unrepeated"] == own["unrepeated"] == 0
    monkeypatch.setattr(torch.nn.Linear, "patched", 0, raising=False)  # the module patches it
    with pytest.raises(TwinrunError, match="does not repeat by itself"):
        prove(training_of("state_outside:Outside"))


@pytest.mark.exhaustive
def test_the_process_that_asks_stays_as_it_is(monkeypatch):
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "7")
    before = state_of_this_process(), dict(os.environ)
    prove_apart(training_of("small:Small"))
    assert (state_of_this_process(), dict(os.environ)) == before


@pytest.mark.exhaustive
def test_the_users_modules_are_those_of_the_proofs_processes(tmp_path):
    code = prove_apart(training_of("state_outside:Outside"))[1]
    assert {"small", "state_outside"} <= code.keys()


@pytest.mark.exhaustive
def test_a_refusal_comes_across_in_the_same_words(monkeypatch, capfd):
    for module, variant in (("small:Signs", {"optimizer": "fused"}), ("small:Smal", {})):
        training = training_of(module, **variant)
        with pytest.raises(TwinrunError) as here:
            prove(training)
        with pytest.raises(TwinrunError) as apart:
            prove_apart(training)
        assert str(here.value) == str(apart.value)
        assert type(here.value) is type(apart.value)
        # Its log is that of the process that asked.
        assert str(here.value) in capfd.readouterr().err


@pytest.mark.exhaustive
def test_a_crash_is_a_refusal_and_not_the_end_of_a_timing():
    with pytest.raises(TwinrunError, match=r"its short training ended its process \(exit code 7\)"):
        prove_apart(training_of("state_outside:Dies"))


@pytest.mark.exhaustive
def test_what_cannot_be_done_in_a_forked_process_is_done_without():
    """Red before: no fast step of a module whose file asks for a GPU could be proven."""
    assert prove_apart(training_of("state_outside:NotInAFork"))[0]["steps"] > 0


@pytest.mark.exhaustive
def test_a_missing_gpu_is_no_refusal():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(JobError, match="torch sees none"):
        prove_apart(training_of("small:Small", accelerator="gpu"))


@pytest.mark.exhaustive
def test_the_proof_compiles_in_a_cache_of_its_own(tmp_path, monkeypatch):
    """Red before: the run found its own code compiled."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    prove_apart(training_of("small:Small", optimizer="default", compile="module"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_nothing_is_started_where_a_proof_is_remembered(tmp_path, monkeypatch):
    training = training_of("small:Small")
    made = proof_of(training, tmp_path)
    monkeypatch.setattr("twinrun.training.prove_apart.launch", None)
    assert proof_of(replace(training, seed=2), tmp_path) == {**made, "is_remembered": True}


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_who_ends_the_asking_process_ends_the_proof(number, tmp_path):
    file = tmp_path / "pid"
    code = (
        "from test_prove_apart import training_of\n"
        "from twinrun.training.prove_apart import prove_apart\n"
        "prove_apart(training_of('state_outside:Slow'))\n"
    )
    places = os.pathsep.join([HERE, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    asking = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": places, "SLOW_FILE": str(file)},
    )
    deadline = time.monotonic() + 120
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    training = psutil.Process(int(file.read_text()))
    assert asking.pid in [parent.pid for parent in training.parents()]
    started = psutil.Process(asking.pid).children(recursive=True)
    asking.send_signal(number)
    assert asking.wait(60) == -number
    psutil.wait_procs(started, timeout=60)
    assert not [process for process in started if process.is_running()]

"""A gate does not pass on runs of code, data or a machine that are not what they were."""

import os
import shutil

import pytest
from example_runs import CONTEXT, fail, write_manifest

from twinrun import artifacts
from twinrun.gate.gate import EXIT_CODES, main
from twinrun.gate.outcome import write_outcome
from twinrun.gate.stale import stale_reasons
from twinrun.process import environment
from twinrun.process.imported_code import hash_of_file

RUN = "results/runs/w/v/seed1/repeat1/run.json"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A run that recorded a module and a dataset, and a gate that rests on it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sister.py").write_text("def scale(loss):\n    return loss\n")
    (tmp_path / "data.npz").write_bytes(b"numbers")
    run = tmp_path / RUN
    run.parent.mkdir(parents=True)
    identity = environment.present_identity()
    write_manifest(
        run,
        {
            "workload": "w",
            "variant": "v",
            "data": {"path": "data.npz", "sha256": artifacts.sha256(tmp_path / "data.npz")},
            "code": {"sister": {"file": "sister.py", "sha256": hash_of_file("sister.py")}},
            "environment": {
                "identity": identity,
                "context": CONTEXT | {"host": environment.this_host()},
                "packages": {},
            },
        },
    )
    line = {"requirement": "v_pair: equal", "outcome": "pass", "why": "equal"}
    write_outcome(
        tmp_path / "results/gate.json",
        {"outcome": "pass", "lines": [line], "fingerprint": None, "rests_on": [RUN], "found": []},
    )
    return tmp_path


def test_what_did_not_change_passes(made, capsys):
    assert stale_reasons([RUN], made) == []
    assert main(["results/gate.json"]) == EXIT_CODES["pass"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sister.py", b"import time\ndef scale(loss):\n    return loss * time.time()\n"),
        ("sister.py", None),
        ("data.npz", b"other numbers"),
        ("data.npz", None),
    ],
)
def test_changed_code_and_data_are_not_comparable(made, capsys, file, content):
    if content is None:
        (made / file).unlink()
    else:
        (made / file).write_bytes(content)
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert f"{file} has changed since {RUN} was made" in capsys.readouterr().out


def test_a_comment_makes_nothing_stale(made):
    (made / "sister.py").write_text("# so\ndef scale(loss):\n    return loss\n")
    assert stale_reasons([RUN], made) == []


@pytest.mark.parametrize("key", ["torch", "python", "distributions"])
def test_another_host_excuses_no_other_version(made, monkeypatch, key):
    """Each container has a name of its own."""
    versions = environment.planned_identity() | {key: "99"}
    identity = environment.present_identity() | versions | {"cpu": "another"}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    monkeypatch.setattr("twinrun.gate.stale.this_host", lambda: "a new container")
    (reason,) = stale_reasons([RUN], made)
    assert reason.startswith(f"{key} has become 99, from ")


def test_an_upgrade_is_named(made, monkeypatch):
    identity = environment.present_identity() | {"torch": "99"}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    (reason,) = stale_reasons([RUN], made)
    assert reason.startswith("torch has become 99, from ")


@pytest.mark.parametrize(
    ("gpu", "recorded", "driver", "changed"),
    [
        ("none", "none", "570.1", []),  # a driver that torch has no GPU of
        ("none", "none", "none", []),
        ("H200", "570.1", "570.1", []),
        ("H200", "570.1", "580.2", ["driver has become 580.2, from 570.1"]),
        ("H200", "570.1", "none", ["driver has become none, from 570.1"]),
    ],
)
def test_a_driver_matters_to_runs_that_saw_a_gpu(made, monkeypatch, gpu, recorded, driver, changed):
    """As `describe` records it: the driver of the GPU that torch sees, and none without one."""
    monkeypatch.setattr(environment, "_driver", lambda: driver)
    manifest = artifacts.read_json(made / RUN)
    manifest["environment"]["identity"] |= {"gpu": gpu, "driver": recorded}
    write_manifest(made / RUN, manifest)
    said = [reason.partition(", since")[0] for reason in stale_reasons([RUN], made)]
    assert said == changed


@pytest.mark.parametrize(
    ("recorded", "present", "changed"),
    [
        ("NVIDIA H200", "NVIDIA H200\nNVIDIA H200\n", []),
        ("NVIDIA H200", "NVIDIA L4\n", ["gpu has become NVIDIA L4, from NVIDIA H200"]),
        ("NVIDIA L4", "NVIDIA H200\nNVIDIA L4\n", []),  # the run was given the second one
        ("NVIDIA A100 MIG 1g.5gb", "NVIDIA A100\n", []),
        ("none", "NVIDIA L4\n", []),  # a run on the CPU
        ("NVIDIA H200", "", []),  # nobody says what there is
    ],
)
def test_another_gpu_is_named(made, monkeypatch, recorded, present, changed):
    tool = made / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncase $1 in *=name) printf '{present}';; *) echo 570.1;; esac\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(made), prepend=os.pathsep)
    manifest = artifacts.read_json(made / RUN)
    manifest["environment"]["identity"] |= {"gpu": recorded, "driver": "570.1"}
    write_manifest(made / RUN, manifest)
    said = [reason.partition(", since")[0] for reason in stale_reasons([RUN], made)]
    assert said == changed


def test_what_a_run_did_not_record_has_not_changed(made, monkeypatch):
    """A newer Twinrun records more of a machine: that is no change of the machine."""
    identity = environment.present_identity() | {"firmware": "7"}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    assert stale_reasons([RUN], made) == []


def test_a_training_that_failed_is_asked_nothing(made):
    """It recorded neither code nor data, and no answer but its own failure rests on it."""
    fail(made / RUN, "no memory")
    (made / "data.npz").unlink()
    assert stale_reasons([RUN], made) == []


def test_another_machine_is_not_compared_with_ours(made, monkeypatch):
    other = {"cpu": "another", "driver": "9", "variable OMP_PROC_BIND": "true"}
    identity = environment.present_identity() | other
    monkeypatch.setattr("twinrun.gate.stale.this_host", lambda: "elsewhere")
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    assert stale_reasons([RUN], made) == []


def test_a_run_that_is_gone_is_named(made):
    (made / RUN).unlink()
    remedy = f"snakemake --cores all gate --forcerun {RUN}"
    (reason,) = stale_reasons([RUN], made)
    assert reason == f"{RUN} is gone (make them again, with your --configfile: {remedy})"


def test_all_runs_that_are_out_of_date_are_named(made):
    other = RUN.replace("repeat1", "repeat2")
    shutil.copytree((made / RUN).parent, (made / other).parent)
    (made / "sister.py").write_text("x = 1\n")
    (reason,) = stale_reasons([RUN, other], made)
    assert reason.startswith(f"sister.py has changed since {RUN} and {other} were made (make them")
    assert reason.endswith(f"snakemake --cores all gate --forcerun {RUN} {other})")


def test_what_is_out_of_date_is_not_accepted(made, capsys):
    """Red before: `--accept` took the weights of runs that nobody would get again."""
    gate, expected = made / "results/gate.json", made / "expected.json"
    found = artifacts.read_json(gate)
    artifacts.write_json(gate, found | {"fingerprint": str(expected)})
    assert main([str(gate), "--accept"]) == EXIT_CODES["pass"]
    expected.unlink()
    capsys.readouterr()
    (made / "data.npz").write_bytes(b"other")
    assert main([str(gate), "--accept"]) == EXIT_CODES["error"]
    assert "data.npz has changed since" in capsys.readouterr().err
    assert not expected.exists()

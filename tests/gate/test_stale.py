"""A gate does not pass on runs of code, data or a machine that are not what they were."""

import json
import os
import shutil
import time
from dataclasses import asdict

import pytest
from example_runs import CONTEXT, fail, write_manifest
from example_timings import timing_summary, write_summary
from example_trainings import VARIANT

from twinrun import artifacts
from twinrun.config.config_files import hashes_of_contents
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.gate.gate import EXIT_CODES, check, main
from twinrun.gate.judged import hashes_of, other_settings
from twinrun.gate.outcome import read_outcome, write_outcome
from twinrun.gate.stale import stale_reasons
from twinrun.process import environment
from twinrun.process.import_log import kept, log_of
from twinrun.process.imported_code import hash_of_file
from twinrun.process.read_files import _now_once
from twinrun.process.read_notes import ReadFiles, notes_of
from twinrun.run_files import CHECKSUMS, read_run, write_checksums

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
                "packages": environment.distributions(),
            },
        },
    )
    with kept(RUN, ""):
        pass
    line = {"requirement": "v_pair: equal", "outcome": "pass", "why": "equal"}
    write_outcome(
        tmp_path / "results/gate.json",
        {
            "outcome": "pass",
            "lines": [line],
            "fingerprint": None,
            "rests_on": [RUN],
            "judged": {},
            "timings": [],
            "beside": {},
            "configs": {},
            "config": "c" * 64,
            "found": [],
        },
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


@pytest.mark.parametrize(("content", "how"), [("3,4", "has changed"), (None, "is gone")])
def test_changed_data_that_no_dataset_names_is_not_comparable(made, content, how):
    """Red before: the gate passed on runs that had read another table."""
    rows = made / "rows.csv"
    rows.write_text("1,2")
    with kept(RUN, ""):
        notes = ReadFiles(notes_of(log_of(made / RUN)), str(made))
        notes.note(str(rows), began=time.time_ns())
    assert stale_reasons([RUN], made) == []
    _now_once.cache_clear()
    if content is None:
        rows.unlink()
    else:
        rows.write_text(content)
    [said] = stale_reasons([RUN], made)
    assert said.startswith(f"rows.csv {how} since {RUN} was made")


def test_an_old_answer_that_fails_outweighs_changed_code(made, capsys):
    """As docs/gate.md says: the line is not comparable, the outcome is the severest one."""
    gate = artifacts.read_json("results/gate.json")
    failed = {"requirement": "v_pair: equal", "outcome": "fail", "why": "differs"}
    artifacts.write_json("results/gate.json", gate | {"outcome": "fail", "lines": [failed]})
    (made / "sister.py").write_text("scale = abs\n")
    assert main(["results/gate.json"]) == EXIT_CODES["fail"]
    told = capsys.readouterr().out
    assert "not comparable: " in told
    assert f"sister.py has changed since {RUN} was made" in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.write_bytes(b"other bits"), "has changed"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "has changed"),
        (lambda file: file.unlink(), "is gone"),
        (lambda file: file.write_bytes(file.read_bytes()), None),  # the same once more
    ],
)
def test_a_file_of_a_run_that_was_written_to_since_is_named(made, capsys, change, words):
    """Red before: the gate passed, and no comparison looked at the file again."""
    weights = (made / RUN).with_name("weights.safetensors")
    weights.write_bytes(b"a network")
    write_checksums((made / RUN).with_name(CHECKSUMS), [made / RUN, weights])
    assert stale_reasons([RUN], made) == []
    change(weights)
    if weights.is_file():
        later = (made / RUN).with_name(CHECKSUMS).stat().st_mtime_ns + 10**9
        os.utime(weights, ns=(later, later))
    code = main(["results/gate.json"])
    told = capsys.readouterr().out
    if words is None:
        assert code == EXIT_CODES["pass"]
    else:
        assert code == EXIT_CODES["not comparable"]
        named = str(weights.relative_to(made))
        assert f"{named} {words} since {RUN} was made" in told
        assert f"--forcerun {RUN}" in told


@pytest.mark.parametrize("is_failed", [False, True])
def test_what_a_run_imported_in_another_process_counts_however_it_ended(made, is_failed):
    if is_failed:
        fail(made / RUN, "no")
    (made / "late.py").write_text("x = 1\n")
    entry = {"name": "late", "file": "late.py", "sha256": hash_of_file("late.py")}
    lines = [{"planned": ""}, entry]
    log_of(made / RUN).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert stale_reasons([RUN], made) == []
    (made / "late.py").write_text("x = 2\n")
    (reason,) = stale_reasons([RUN], made)
    assert reason.startswith(f"late.py has changed since {RUN} was made")


def test_a_run_without_its_log_of_imports_does_not_pass(made, capsys):
    """Red before: it passed, and code that a worker had imported was no longer looked at."""
    log_of(made / RUN).unlink()
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert f"run.imports.jsonl is gone since {RUN} was made" in capsys.readouterr().out


def test_the_code_that_made_a_dataset_counts(made):
    """Red before: the data was what it had been, and nobody asked what would be made now."""
    (made / "maker.py").write_text("x = 1\n")
    entry = {"name": "maker", "file": "maker.py", "sha256": hash_of_file("maker.py")}
    lines = [{"planned": ""}, entry]
    log_of(made / "data.npz").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert stale_reasons([RUN], made) == []
    (made / "maker.py").write_text("x = 2\n")
    (reason,) = stale_reasons([RUN], made)
    assert reason.startswith(f"maker.py has changed since {RUN} was made")


@pytest.mark.parametrize(("result", "is_failed"), [(RUN, False), (RUN, True), ("data.npz", False)])
def test_a_module_that_is_new_or_gone_beside_what_was_imported_is_named(made, result, is_failed):
    """Red before: a plugin that the training looks for under way was added, and the gate passed."""
    if is_failed:
        fail(made / RUN, "no")
    (made / "plug").mkdir()
    for name in ("__init__", "a", "old"):
        (made / f"plug/{name}.py").write_text("")
    with kept(result, ""), log_of(result).open("a") as log:
        for name, file in (("plug", "plug/__init__.py"), ("plug.a", "plug/a.py")):
            log.write(f"{json.dumps({'name': name, 'file': file, 'sha256': hash_of_file(file)})}\n")
    assert stale_reasons([RUN], made) == []
    (made / "plug/b.py").write_text("")
    (made / "plug/old.py").unlink()
    (made / "plug/a.py").unlink()  # said once
    said = {reason.partition(" (")[0] for reason in stale_reasons([RUN], made)}
    assert said == {
        f"plug/a.py has changed since {RUN} was made",
        f"plug/b.py has come to lie beside imported modules since {RUN} was made",
        f"plug/old.py has gone from beside imported modules since {RUN} was made",
    }


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


def judged_anew(made, **changes):
    gate = read_outcome(made / "results/gate.json")
    write_outcome(made / "results/gate.json", gate | changes)
    return main(["results/gate.json"])


def test_results_that_were_made_again_since_the_gate_judged_do_not_pass(made, capsys):
    verdicts = made / "results/verdicts.csv"
    verdicts.write_text("equal\n")
    judged = hashes_of(["results/verdicts.csv"])
    assert judged_anew(made, judged=judged) == EXIT_CODES["pass"]
    verdicts.write_text("differs\n")
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert "results/verdicts.csv changed since the gate judged" in capsys.readouterr().out
    verdicts.unlink()
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]


@pytest.mark.parametrize("content", ["studies: [matrix]\n", "studies: [\n", None])
def test_a_config_that_was_edited_since_the_gate_judged_does_not_pass(made, capsys, content):
    config = made / "mine.yaml"
    config.write_text("studies: [reproducibility]  # whether it repeats\n")
    configs = hashes_of_contents(["mine.yaml"])
    config.write_text("# another comment\nstudies: [reproducibility]\n")
    assert judged_anew(made, configs=configs) == EXIT_CODES["pass"]
    config.unlink() if content is None else config.write_text(content)
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert "mine.yaml changed since the gate judged" in capsys.readouterr().out


def test_results_may_be_a_link_to_another_disk(made, tmp_path_factory):
    """Red before: runs, configs and modules were sought beside what the link leads to."""
    elsewhere = tmp_path_factory.mktemp("disk") / "results"
    shutil.move(made / "results", elsewhere)
    (made / "results").symlink_to(elsewhere)
    assert main(["results/gate.json"]) == EXIT_CODES["pass"]


def test_what_the_command_line_changed_counts_in_the_workflow(made):
    gate = made / "results/gate.json"
    check(gate, "c" * 64)
    with pytest.raises(TwinrunError, match="the config changed since the gate judged"):
        check(gate, "d" * 64)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("workloads", {"epochs": 9}, "epochs is 9 in the config and 2 in the run"),
        ("workloads", {"hyperparameters": {"lr": 1.0}}, 'hyperparameters is {"lr": 1.0} in the'),
        ("variants", {"threads": 4}, "threads is 4 in the config and "),
        ("datasets", "other.npz", "dataset is other.npz in the config and data.npz in the run"),
        ("workloads", {}, None),
    ],
)
def test_runs_of_other_settings_than_the_config_has_are_named(made, kind, change, words):
    """Snakemake was told not to look at params: --rerun-triggers mtime."""
    settings = read_run(RUN)["settings"]
    planned = {
        "workloads": {"w": dict(settings["workload"])},
        "variants": {"v": dict(settings["variant"])},
        "datasets": {"w": "data.npz"},
        "studies": {},
        "beside": {},
        "configs": {},
        "config": "c" * 64,
    }
    if kind == "datasets":
        planned[kind]["w"] = change
    else:
        planned[kind][{"workloads": "w", "variants": "v"}[kind]] |= change
    said = list(other_settings([RUN], planned))
    assert len(said) == (words is not None)
    assert all(line.startswith(f"{RUN} was made with other settings: {words}") for line in said)


TIMING = "results/timings/determinism_w.json"


def timed(made, **changes):
    """Have the gate rest on a timing too, made here and now but for changes of its environment."""
    identity = environment.present_identity() | changes
    here = {
        "identity": identity,
        "context": CONTEXT | {"host": environment.this_host()},
        "packages": environment.distributions(),
    }
    code = {"sister": {"file": "sister.py", "sha256": hash_of_file("sister.py")}}
    write_summary(made / TIMING, workload="w", environment=here, code=code)
    found = read_outcome(made / "results/gate.json")
    write_outcome(made / "results/gate.json", {**found, "timings": [TIMING]})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"cpu": "another"}, "cpu has become "),
        ({"distributions": "another"}, "distributions has become "),
        ({"variable MKL_CBWR": "AVX2"}, "variable MKL_CBWR has become unset, from AVX2"),
        ({"variable OMP_NUM_THREADS": "7"}, None),  # the rule sets it
    ],
)
def test_a_timing_of_another_machine_or_shell_does_not_pass(made, capsys, changes, words):
    """Red before: the runs alone were looked at, and `determinism_cost` passed."""
    timed(made, **changes)
    code = main(["results/gate.json"])
    assert code == EXIT_CODES["pass" if words is None else "not comparable"]
    said = capsys.readouterr().out
    if words is not None:
        assert words in said
        assert f"since {TIMING} was made" in said
        assert f"--forcerun {TIMING})" in said


def test_a_timing_of_other_code_does_not_pass_though_its_runs_were_made_again(made, capsys):
    timed(made)
    (made / "sister.py").write_text("def scale(loss):\n    return 2 * loss\n")
    manifest = artifacts.read_json(made / RUN)
    manifest["code"]["sister"]["sha256"] = hash_of_file("sister.py")
    write_manifest(made / RUN, manifest)
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert f"sister.py has changed since {TIMING} was made" in capsys.readouterr().out


def test_a_timing_that_is_gone_does_not_pass(made, capsys):
    timed(made)
    (made / TIMING).unlink()
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert f"{TIMING} is gone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("workload", "variant", "words"),
    [
        ({"epochs": 9}, {}, "epochs is 9 in the config and 3 in the timing"),
        ({}, {"threads": 4}, "v: threads is 4 in the config and 2 in the timing"),
        ({}, {}, None),
    ],
)
def test_timings_of_other_settings_than_the_config_has_are_named(made, workload, variant, words):
    settings = timing_summary()["settings"] | {"variants": {"v": Variant(**VARIANT)}}
    write_summary(made / TIMING, workload="w", settings=settings)
    planned = {
        "workloads": {"w": asdict(settings["workload"]) | workload},
        "variants": {"v": asdict(settings["variants"]["v"]) | variant},
    }
    said = list(other_settings([], planned, [TIMING, "gone.json"]))
    assert len(said) == (words is not None)
    assert all(line == f"{TIMING} was made with other settings: {words}" for line in said)


def test_a_module_that_is_new_beside_those_of_the_runs_does_not_pass(made, capsys):
    """It may be imported too: a plugin that is looked for. The second gate imports nothing."""
    found = read_outcome(made / "results/gate.json")
    write_outcome(made / "results/gate.json", {**found, "beside": {".": ["sister.py"]}})
    assert main(["results/gate.json"]) == EXIT_CODES["pass"]
    (made / "notes.txt").write_text("no module")
    assert main(["results/gate.json"]) == EXIT_CODES["pass"]
    (made / "plugin.py").write_text("")
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    assert "plugin.py is new beside the modules of the runs" in capsys.readouterr().out


def test_an_upgrade_is_named(made, monkeypatch):
    identity = environment.present_identity() | {"torch": "99"}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    (reason,) = stale_reasons([RUN], made)
    assert reason.startswith("torch has become 99, from ")


def test_packages_of_other_versions_are_named(made, monkeypatch):
    """Red before: "distributions has become (a hash), from (a hash)"."""
    run = artifacts.read_json(RUN)
    run["environment"]["packages"] = environment.distributions() | {"msgspec": "0", "plug": "1"}
    artifacts.write_json(RUN, run)
    write_checksums((made / RUN).with_name(CHECKSUMS), [made / RUN])
    identity = environment.present_identity() | {"distributions": "another"}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda **_: identity)
    (reason,) = stale_reasons([RUN], made)
    there = environment.distributions()["msgspec"]
    said = f"what is installed has changed (msgspec 0 and {there}, plug 1 and none) since {RUN}"
    assert reason.startswith(said)


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


@pytest.mark.parametrize(
    ("recorded", "present", "changed"),
    [
        (None, "COMPATIBLE", ["variable MKL_CBWR has become COMPATIBLE, from unset"]),
        ("COMPATIBLE", None, ["variable MKL_CBWR has become unset, from COMPATIBLE"]),
        ("AVX2", "COMPATIBLE", ["variable MKL_CBWR has become COMPATIBLE, from AVX2"]),
        ("COMPATIBLE", "COMPATIBLE", []),
        (None, None, []),
    ],
)
def test_a_variable_that_the_shell_sets_or_sets_no_more_is_named(
    made, monkeypatch, recorded, present, changed
):
    """Red before: only what both had was compared."""
    name = "variable MKL_CBWR"
    identity = environment.present_identity()
    now = identity if present is None else identity | {name: present}
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda: now)
    manifest = artifacts.read_json(made / RUN)
    if recorded is not None:
        manifest["environment"]["identity"] |= {name: recorded}
    write_manifest(made / RUN, manifest)
    said = [reason.partition(", since")[0] for reason in stale_reasons([RUN], made)]
    assert said == changed


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_variable_that_a_run_sets_for_itself_may_be_any_in_the_shell(
    made, monkeypatch, deterministic
):
    """Snakemake gives every job numbers of threads, and a variant's own go before the shell's."""
    manifest = artifacts.read_json(made / RUN)
    variant = manifest["settings"]["variant"]
    variant |= {"deterministic": deterministic, "environment": {"MKL_CBWR": "AVX2"}}
    write_manifest(made / RUN, manifest)
    shell = {"OMP_NUM_THREADS": "3", "MKL_CBWR": "COMPATIBLE", "PYTHONHASHSEED": "5"}
    variables = {f"variable {name}": value for name, value in shell.items()}
    identity = environment.present_identity() | variables
    monkeypatch.setattr("twinrun.gate.stale.present_identity", lambda: identity)
    said = [reason.partition(", since")[0] for reason in stale_reasons([RUN], made)]
    assert said == ([] if deterministic else ["variable PYTHONHASHSEED has become 5, from unset"])


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
    remedy = f"twinrun gate --forcerun {RUN}"
    (reason,) = stale_reasons([RUN], made)
    assert reason == f"{RUN} is gone (make them again, with your --configfile: {remedy})"


def test_all_runs_that_are_out_of_date_are_named(made):
    other = RUN.replace("repeat1", "repeat2")
    shutil.copytree((made / RUN).parent, (made / other).parent)
    (made / "sister.py").write_text("x = 1\n")
    (reason,) = stale_reasons([RUN, other], made)
    assert reason.startswith(f"sister.py has changed since {RUN} and {other} were made (make them")
    assert reason.endswith(f"twinrun gate --forcerun {RUN} {other})")


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

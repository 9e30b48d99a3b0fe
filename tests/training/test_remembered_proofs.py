"""A proof is made once for all seeds and repeats, and again where what it rests on has changed."""

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from example_trainings import VARIANT, WORKLOAD

from twinrun import artifacts
from twinrun.config.definitions import Training, Variant, Workload
from twinrun.errors import JobError, TwinrunError
from twinrun.process import environment
from twinrun.process.imported_code import imported_files
from twinrun.training import remembered_proofs
from twinrun.training.remembered_proofs import proof_of, proven

HERE = Path(__file__).parents[1]
FOREACH = Variant(**{**VARIANT, "optimizer": "foreach"})
TRAINING = Training(
    workload=Workload(**WORKLOAD), variant=FOREACH, seed=1, dataset=None, search_path=[str(HERE)]
)
SHARE = {"judged": 4, "of": 4}
LEG = {
    "precision": "32-true",
    "distance": 0.0,
    "bound": 1e-3,
    "judged": 9,
    "left_out": 0,
    "unrepeated": 0,
    "fixed": 3,
    "losses": SHARE,
    "parameters": SHARE,
}


@pytest.fixture
def proofs(monkeypatch):
    """Count the proofs; they take no time."""
    made = []

    def prove(training):
        made.append(training)
        proof = {
            "steps": 6,
            "shapes": 2,
            "in_parts": None,
            "legs": [LEG],
            "not_in_float64": None,
            "seed": training.seed,
            "seconds": 1.0,
            "key": None,
            "is_remembered": False,
        }
        return proof, imported_files()

    monkeypatch.setattr(remembered_proofs, "prove_apart", prove)
    return made


def test_one_proof_serves_all_seeds_and_says_so(proofs, tmp_path):
    first = proof_of(TRAINING, tmp_path)
    second = proof_of(replace(TRAINING, seed=2), tmp_path)
    assert len(proofs) == 1
    assert (first["is_remembered"], second["is_remembered"]) == (False, True)
    assert first["key"] == second["key"] is not None
    assert second["seed"] == 1
    assert {**second, "is_remembered": False} == first


def test_workers_of_any_number_share_it(proofs, tmp_path):
    proof_of(TRAINING, tmp_path)
    variant = replace(FOREACH, devices=2, data_workers=2, persistent_workers=True)
    assert proof_of(replace(TRAINING, variant=variant), tmp_path)["is_remembered"]


def changed(kind, folder, monkeypatch):
    """Return a training one thing of which is another."""
    workload, other = TRAINING.workload, artifacts
    match kind:
        case "hyperparameter":
            return replace(TRAINING, workload=workload.with_hyperparameter("learning_rate", 0.2))
        case "class":
            return replace(TRAINING, workload=replace(workload, module="small:Signs"))
        case "threads":
            return replace(TRAINING, variant=replace(FOREACH, threads=FOREACH.threads + 1))
        case "precision":
            return replace(TRAINING, variant=replace(FOREACH, precision="bf16-mixed"))
        case "environment of the variant":
            return replace(TRAINING, variant=replace(FOREACH, environment={"MKL_CBWR": "AVX2"}))
        case "data":
            (folder / "data.npz").write_bytes(b"others")
            return replace(TRAINING, dataset=str(folder / "data.npz"))
        case "machine":
            other = environment.describe()
            other["identity"]["cpu_flags"] = "another"
            monkeypatch.setattr(environment, "describe", lambda: other)
        case "Twinrun's code":
            monkeypatch.setattr(remembered_proofs, "sources_hash", lambda modules: "another")
    return TRAINING


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind",
    [
        *("hyperparameter", "class", "threads", "precision", "environment of the variant", "data"),
        *("machine", "Twinrun's code"),
    ],
)
def test_what_a_proof_rests_on_has_it_made_again(kind, proofs, tmp_path, monkeypatch):
    if kind == "data":
        (tmp_path / "data.npz").write_bytes(b"some")
        proof_of(replace(TRAINING, dataset=str(tmp_path / "data.npz")), tmp_path)
    else:
        proof_of(TRAINING, tmp_path)
    assert not proof_of(changed(kind, tmp_path, monkeypatch), tmp_path)["is_remembered"]
    assert len(proofs) == 2


def test_a_changed_module_of_the_users_has_it_made_again(proofs, tmp_path, monkeypatch):
    """Not the module that is named, but one that it imports."""
    (tmp_path / "helper_of_a_proof.py").write_text("SCALE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("helper_of_a_proof")
    monkeypatch.delitem(sys.modules, "helper_of_a_proof", raising=False)
    __import__("helper_of_a_proof")
    memory = tmp_path / "memory"
    proof_of(TRAINING, memory)
    assert proof_of(TRAINING, memory)["is_remembered"]
    (tmp_path / "helper_of_a_proof.py").write_text("SCALE = 1  # one\n")
    assert proof_of(TRAINING, memory)["is_remembered"]
    (tmp_path / "helper_of_a_proof.py").write_text("SCALE = 2\n")
    assert not proof_of(TRAINING, memory)["is_remembered"]
    assert len(proofs) == 2
    # One that is new may be imported too: a plugin that is looked for.
    (tmp_path / "plugin_of_a_proof.py").write_text("")
    assert not proof_of(TRAINING, memory)["is_remembered"]


def test_a_corrupt_memory_is_no_proof(proofs, tmp_path):
    proof_of(TRAINING, tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text('{"proof": {"steps": 6}}')
    assert not proof_of(TRAINING, tmp_path)["is_remembered"]
    assert proof_of(TRAINING, tmp_path)["is_remembered"]


def test_where_nothing_can_be_written_it_is_proven_each_time(proofs, tmp_path):
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert not proof_of(TRAINING, tmp_path / "file/proofs")["is_remembered"]


def test_a_refusal_is_not_remembered(tmp_path, monkeypatch):
    def refuse(training):
        raise TwinrunError("compile: step was not proven: out of memory")

    monkeypatch.setattr(remembered_proofs, "prove_apart", refuse)
    with pytest.raises(TwinrunError, match="was not proven"):
        proof_of(TRAINING, tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_a_missing_gpu_is_no_refusal(monkeypatch):
    def fail(training):
        raise JobError("no GPU")

    monkeypatch.setattr(remembered_proofs, "prove_apart", fail)
    with pytest.raises(JobError):
        proven(TRAINING)


def test_runs_that_start_at_once_wait_for_one_proof(proofs, tmp_path, monkeypatch):
    prove = remembered_proofs.prove_apart

    def slow(training):
        time.sleep(0.2)
        return prove(training)

    monkeypatch.setattr(remembered_proofs, "prove_apart", slow)
    found = []
    runs = [
        threading.Thread(target=lambda: found.append(proof_of(TRAINING, tmp_path)))
        for _ in range(3)
    ]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(proofs) == 1
    assert sorted(proof["is_remembered"] for proof in found) == [False, True, True]


def test_a_dataset_may_be_a_folder(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/one").write_text("1")
    training = replace(TRAINING, dataset=str(tmp_path / "photos"))
    first = remembered_proofs.key_of(training)
    (tmp_path / "photos/one").write_text("2")
    assert remembered_proofs.key_of(training) != first

"""Files that changed after they were written: named, never compared, never executed."""

import ast
import io
import pickle
from functools import partial
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pandas as pd
import pytest
from example_results import VARIANTS, initial_tensors
from example_results import write_run as example_run
from example_runs import fail, seal, write_run
from example_trainings import FILES
from ranked import OF_TRIAL, WITHOUT_CHOICES

from twinrun import artifacts, run_files, run_records
from twinrun.comparison import resume_loss
from twinrun.comparison.compare import compare
from twinrun.comparison.difference_size import losses_apart, size_of
from twinrun.comparison.given_later import GIVEN_TO_STEPS
from twinrun.comparison.outputs import predictions_changed
from twinrun.comparison.ranking import rank
from twinrun.comparison.replay import save_start
from twinrun.comparison.study_records import Trial, write_ranking
from twinrun.config.definitions import RunFiles
from twinrun.dataset_files import check_dataset, write_manifest
from twinrun.errors import TwinrunError
from twinrun.figures.pairs import first_layer, layers
from twinrun.figures.predictions import read_shown, strip, surfaces, worse_than_first
from twinrun.figures.sweep import trials
from twinrun.figures.training import curves
from twinrun.gate import expected_fingerprints
from twinrun.report import devices


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def compared(folder, runs):
    outputs = {name: folder / f"{name}.out" for name in ("summary", "tensors", "steps")}
    compare(runs, **outputs)
    return outputs


@pytest.mark.parametrize("damage", [truncated, flipped, lambda content: b"", None])
@pytest.mark.parametrize(
    "name",
    ["weights.safetensors", "run.json", "steps.csv", "fingerprints.npz", run_files.CHECKSUMS],
)
def test_a_damaged_file_of_a_run_is_named_and_never_compared(tmp_path, name, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    file = runs[1].with_name(name)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    # The list of hashes cannot vouch for itself: damaged, it accuses a file of its run.
    named = "repeat2/" if name == run_files.CHECKSUMS else f"repeat2/{name}"
    with pytest.raises(TwinrunError, match=f"{named}.* is corrupt.*delete its folder"):
        compared(tmp_path, runs)
    assert not list(tmp_path.glob("*.out"))


@pytest.mark.parametrize("damage", [truncated, flipped])
@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("weights.safetensors", partial(first_layer, variants=VARIANTS)),
        ("weights.safetensors", partial(layers, variants=VARIANTS)),
        ("epochs.csv", partial(curves, variants=VARIANTS)),
        (
            "predictions.safetensors",
            lambda runs, output: strip(runs[1], names=["noisy"], output=output),
        ),
        (
            "predictions.safetensors",
            lambda runs, output: surfaces(runs[1:], names=["z", "t"], output=output),
        ),
    ],
)
def test_a_damaged_file_of_a_run_is_never_drawn(tmp_path, name, draw, damage):
    tensors = initial_tensors("denoiser")
    options = {"workload": "denoiser", "variant": "deterministic", "images": True}
    runs = [example_run(tmp_path, tensors, repeat=repeat, **options) for repeat in (1, 2)]
    file = runs[1].with_name(name)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TwinrunError, match=f"repeat2/{name} is corrupt"):
        draw(runs, output=tmp_path / "figure.svg")
    assert not (tmp_path / "figure.svg").exists()


READERS = {
    "rank": ("epochs.csv", lambda runs, folder: ranked(runs, folder)),
    "trials": ("epochs.csv", lambda runs, folder: trials(swept(runs, folder), output=folder / "f")),
    "worse_than_first": (
        "predictions.safetensors",
        lambda runs, folder: worse_than_first(runs[0], names=["a", "b", "c"]),
    ),
    "predictions_changed": (
        "predictions.safetensors",
        lambda runs, folder: predictions_changed([run.parent for run in runs]),
    ),
    "losses_apart": ("steps.csv", lambda runs, folder: losses_apart(*divergence(runs, folder))),
    "size_of": ("steps.csv", lambda runs, folder: size_of(*divergence(runs, folder))),
    "save_start": (
        "steps.csv",
        lambda runs, folder: save_start(None, step=1, recorded=str(runs[0]), start="none"),
    ),
    "observed": ("steps.csv", lambda runs, folder: expected_fingerprints.observed(runs)),
    "networks of devices": (
        "predictions.safetensors",
        lambda runs, folder: read_shown(runs[0], ["noisy"]),
    ),
    "losses of devices": ("steps.csv", lambda runs, folder: devices._last_loss({"path": runs[0]})),
    "steps of resumed": ("steps.csv", lambda runs, folder: resume_loss._steps_of(str(runs[0]))),
    "states of resumed": (
        "fingerprints.npz",
        lambda runs, folder: resume_loss._steps_of(str(runs[0])),
    ),
}


def ranked(runs, folder):
    files = {"table": folder / "sweep.csv", "summary": folder / "sweep.json"}
    rank(runs, workload="denoiser", metric="val_loss", best="lowest", **files)


def swept(runs, folder):
    """The ranking of runs as they were before one was damaged."""
    summary = folder / "sweep.json"
    trial = (
        dict.fromkeys(Trial.__annotations__) | {"point": {}, "label": "", "metrics": {}} | OF_TRIAL
    )
    ended = {"ended": "finished", "run": str(runs[0])}
    ranking = {"workload": "w", "metric": "val_loss", "best": "lowest", "finished": 1}
    write_ranking(summary, ranking | WITHOUT_CHOICES | {"trials": [trial | ended]})
    return summary


def divergence(runs, folder):
    """A comparison of two runs that diverge in a loss, and its table of steps."""
    apart = {"loss_difference": 0.1, "relative_l2": 0.1, "parameters_equal": False}
    table = pd.DataFrame({"step": range(1, 7), **apart, **dict.fromkeys(GIVEN_TO_STEPS, True)})
    artifacts.write_csv(folder / "steps.csv", table)
    first = {"step": 2, "quantity": "loss", "tensor": None, "cause": "forward"}
    found = {"first_difference": first, "runs": [str(run.parent) for run in runs]}
    return found, folder / "steps.csv"


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_believes_a_file_that_was_changed(tmp_path, reader):
    """One digit of a trial's epochs.csv made that trial the winner."""
    name, read = READERS[reader]
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    file = runs[0].with_name(name)
    file.write_bytes(flipped(file.read_bytes()))
    with pytest.raises(TwinrunError, match=rf"repeat1/{name} is corrupt \(its sha256 is not"):
        read(runs, tmp_path)


# Where such a name stands for something else than a file to be read.
NAMED_ONLY = {
    "run_records.py",  # says which there are
    "config/studies.py",  # says which a rule makes
    "verdicts/failed_runs.py",  # looks whether one is empty, and reads none
}


def test_the_files_of_a_run_are_read_as_verified_everywhere():
    package, names = Path(run_files.__file__).parent, get_args(run_records.FileOfRun)
    found = set()
    for file in package.rglob("*.py"):
        tree = ast.parse(file.read_bytes())
        verified = {
            id(argument)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("verified")
            for argument in call.args
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in names and id(node) not in verified:
                found.add(file.relative_to(package).as_posix())
    assert found == NAMED_ONLY


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", "6"),
        ("weights_sha256", None),
        ("metrics", {"test_loss": "0.5"}),
        ("tensors", [{"name": "weight"}]),
        ("environment", {}),
        ("seconds", {"fit": 1.0}),
    ],
)
@pytest.mark.parametrize("ended", ["finished", "failed: no memory"])
def test_a_manifest_is_checked_when_it_is_written(tmp_path, key, value, ended):
    """An error of ours shows in the run that made it, and not in the study that reads it."""
    run = write_run(tmp_path, 1)
    manifest = artifacts.read_json(run) | {"ended": ended}
    before = run.read_bytes()
    files = RunFiles(**{name: str(run.with_name(file)) for name, file in FILES.items()})
    if ended != "finished" and key != "metrics":  # of a training that failed they are not asked
        key, value = "seed", "one"
    with pytest.raises(msgspec.ValidationError):
        run_files.write_run(files, manifest | {key: value})
    assert run.read_bytes() == before
    run_files.write_run(files, manifest)
    assert run_files.read_ended(run)["ended"] == ended


def test_a_training_that_failed_is_told_from_a_run_by_how_its_end_begins(tmp_path):
    run = fail(write_run(tmp_path, 1), "no memory: 3 GiB")
    assert run_files.failure_of(run) == "no memory: 3 GiB"
    assert run_files.read_ended(run)["ended"] == "failed: no memory: 3 GiB"
    with pytest.raises(TwinrunError, match=r"left no network, it failed: no memory: 3 GiB"):
        run_files.read_run(run)
    ended = "stopped: its validation failed: see the log"
    stopped = write_run(tmp_path, 2, changes={"ended": ended})
    assert run_files.failure_of(stopped) is None
    assert run_files.read_run(stopped)["ended"] == ended


@pytest.mark.parametrize("bit", range(8))
def test_a_digit_that_still_is_json_is_found(tmp_path, bit):
    """A flipped bit may leave a run.json that can be read: the number of steps, say."""
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    content = bytearray(runs[0].read_bytes())
    content[content.index(b'"steps": ') + 9] ^= 1 << bit
    runs[0].write_bytes(content)
    with pytest.raises(TwinrunError, match=r"repeat1/run\.json is corrupt"):
        compared(tmp_path, runs)


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_damaged_dataset_is_named(tmp_path, damage):
    file = tmp_path / "results/data/points.npz"
    file.parent.mkdir(parents=True)
    artifacts.write_arrays(file, {"points": np.arange(1000.0)})
    manifest = {"dataset": "points", "make": "mine:make", "parameters": {}, "libraries": {}}
    manifest |= {"arrays": {}, "sha256": artifacts.sha256(file)}
    write_manifest(file.with_suffix(".json"), manifest)
    check_dataset(file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TwinrunError, match=r"points\.npz is corrupt.*delete it"):
        check_dataset(file)


@pytest.mark.parametrize("name", ["mine.npz", "mine.csv", "mine"])
@pytest.mark.parametrize(
    "beside", [None, "[1]", '{"sha256": "mine", "dataset": "mine"}', '{"a": 1}\n{"a": 2}\n', "\n"]
)
def test_what_lies_beside_a_file_of_the_users_own_is_not_ours(tmp_path, name, beside):
    file = tmp_path / "data" / name
    file.parent.mkdir()
    file.write_bytes(b"anything")
    if beside is not None:
        file.with_suffix(".json").write_text(beside)
    check_dataset(file)


def test_a_manifest_of_ours_that_lacks_something_is_corrupt(tmp_path):
    file = tmp_path / "results/data/points.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"anything")
    part = {"dataset": "points", "sha256": artifacts.sha256(file)}
    artifacts.write_json(file.with_suffix(".json"), part)
    with pytest.raises(TwinrunError, match=r"points\.json is corrupt.*`make`"):
        check_dataset(file)


class Poison:
    """Unpickled, it makes a file."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return Path.touch, (self.victim,)


def pickled(poison):
    return pickle.dumps(poison)


def as_object_array(poison):
    buffer = io.BytesIO()
    arrays = dict.fromkeys(["names", "initial", "gradients", "parameters", "sample"], 0)
    np.savez(buffer, **{key: np.array([poison], dtype=object) for key in arrays})
    return buffer.getvalue()


def as_checkpoint(poison):
    import torch

    buffer = io.BytesIO()
    torch.save({"state_dict": poison}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("form", [pickled, as_object_array, as_checkpoint])
@pytest.mark.parametrize("name", ["weights.safetensors", "fingerprints.npz", "steps.csv"])
def test_a_poisoned_pickle_is_never_executed(tmp_path, name, form):
    """Also when whoever planted it put its hash in order."""
    victim = tmp_path / "executed"
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    runs[1].with_name(name).write_bytes(form(Poison(victim)))
    seal(runs[1].parent)
    with pytest.raises(TwinrunError, match="is corrupt"):
        compared(tmp_path, runs)
    assert not victim.exists()
    pickle.loads(pickled(Poison(victim)))  # noqa: S301 - that it would have worked
    assert victim.exists()


def test_nothing_in_the_package_unpickles():
    own = set()  # of any kind: a batch, which the same job wrote and deletes
    for file in Path(artifacts.__file__).parent.rglob("*.py"):
        text = file.read_text()
        assert "pickle.load" not in text, file
        assert "allow_pickle=True" not in text, file
        assert "yaml.load(" not in text, file
        assert "eval(" not in text.replace(".eval()", ""), file
        loads = [line for line in text.splitlines() if "torch.load(" in line]
        if any("weights_only=True" not in line for line in loads):
            own.add(file.name)
            assert len(loads) == 1
    assert own == {"replay.py"}

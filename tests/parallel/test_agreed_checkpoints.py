"""Several workers that were killed and resumed end in the same bits, or say why not, all of them.

Three workers: of two the order of a sum is all one. Epochs of 71 samples have five steps; in the
last one the workers have 3, 2 and 2 samples.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from example_trainings import FILES, HERE, VARIANT, WORKLOAD, arguments
from pytorch_lightning.strategies import DDPStrategy
from torch.distributed.optim import ZeroRedundancyOptimizer

from twinrun import artifacts
from twinrun.parallel.agreed_checkpoints import AgreedCheckpoints
from twinrun.parallel.fixed_buckets import ExchangingStrategy
from twinrun.parallel.workers import Workers
from twinrun.process.launching import environment_of, launch

DEVICES, STEPS = 3, 5
ALIKE = ("weights", "steps", "epochs", "fingerprints", "predictions")


def asked(folder, *, minutes, variant=None, module="Wide", data="small:Points", **of_workload):
    """Return the arguments of a run."""
    workload = {
        **WORKLOAD,
        "module": f"in_a_team:{module}",
        "data": data,
        "hyperparameters": {"size": 71},
        "epochs": 2,
        **of_workload,
    }
    settings = {**VARIANT, "threads": 1, "devices": DEVICES, **(variant or {})}
    return arguments(folder, workload, settings, minutes=minutes)["run"]


# Of each training: the folder, before which step it is killed, and what differs.
PARTITIONED = {"sharding": "partitioned"}
IN_DATA_WORKERS = {"data": "in_a_team:NoisyPoints", "variant": {"data_workers": 1}}
# Epochs of five, four and three steps.
ANEW = {
    "data": "in_a_team:Shrinking",
    "trainer": {"reload_dataloaders_every_n_epochs": 1},
    "epochs": 3,
}
TRAININGS = [
    ("plain/whole", 0, {}),
    ("plain/mid", 3, {}),
    ("plain/mid", 9, {}),
    ("plain/mid", 0, {}),
    ("plain/start", 7, {"minutes": 0}),
    ("plain/start", 0, {"minutes": 0}),
    ("odd", 7, {"module": "OneIsOdd"}),
    ("other/mid", 8, {"data": "in_a_team:OwnPoints"}),
    ("other/mid", 0, {"data": "in_a_team:OwnPoints", "shift": 1.0}),
]


KEPT = {"data_workers": 1, "persistent_workers": True}
FURTHER = [
    ("other/start", 7, {"data": "in_a_team:OwnPoints", "minutes": 0}),
    ("other/start", 0, {"data": "in_a_team:OwnPoints", "minutes": 0, "shift": 1.0}),
    ("own order/whole", 0, {"data": "in_a_team:OwnPoints", "variant": PARTITIONED}),
    ("own order/mid", 8, {"data": "in_a_team:OwnPoints", "variant": PARTITIONED}),
    ("own order/mid", 0, {"data": "in_a_team:OwnPoints", "variant": PARTITIONED}),
    ("manual/whole", 0, {"module": "Manual"}),
    ("manual/mid", 3, {"module": "Manual"}),
    ("manual/mid", 9, {"module": "Manual"}),
    ("manual/mid", 0, {"module": "Manual"}),
    ("in data workers/whole", 0, IN_DATA_WORKERS),
    ("in data workers/mid", 3, IN_DATA_WORKERS),
    ("in data workers/mid", 8, IN_DATA_WORKERS),
    ("in data workers/mid", 0, IN_DATA_WORKERS),
    ("partitioned/whole", 0, {"variant": PARTITIONED}),
    ("partitioned/start", 7, {"variant": PARTITIONED, "minutes": 0}),
    ("partitioned/start", 0, {"variant": PARTITIONED, "minutes": 0}),
    ("kept data workers/whole", 0, {**IN_DATA_WORKERS, "variant": KEPT}),
    ("kept data workers/mid", 8, {**IN_DATA_WORKERS, "variant": KEPT}),
    ("kept data workers/mid", 0, {**IN_DATA_WORKERS, "variant": KEPT}),
    ("anew/whole", 0, ANEW),
    ("anew/mid", 7, ANEW),
    ("anew/mid", 0, ANEW),
    ("in steps' numbers/mid", 8, {"data": "in_a_team:NoisyPoints"}),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train all of them; return their folder, and what each worker has noted of each training."""
    return train_all(tmp_path_factory.mktemp("team"), TRAININGS)


@pytest.fixture(scope="module")
def trained_further(tmp_path_factory):
    """Train what else there is, as `trained` does."""
    return train_all(tmp_path_factory.mktemp("further"), FURTHER)


def train_all(folder, trainings):
    runs, told = [], []
    for name, kill, how in trainings:
        how = {"minutes": 1, "shift": 0.0, **how}
        is_slow = how["minutes"] > 0
        told.append(
            {"kill": kill, "shift": how.pop("shift"), "is_slow": is_slow, "is_stopped": False}
        )
        runs.append(asked(folder / name, **how))
    launch(
        "in_a_team:train_each",
        {"runs": runs, "told": told, "found": str(folder)},
        environment_of(seed=1, deterministic=True, threads=1)
        | {"PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])},
        workers=DEVICES,
    )
    return folder, [json.loads((folder / f"{rank}.json").read_text()) for rank in range(DEVICES)]


def assert_same(folder, left, right, at):
    for name in ALIKE:
        files = [folder / each / FILES[name] for each in (left, right)]
        assert files[0].read_bytes() == files[1].read_bytes(), name
    whole, resumed = (artifacts.read_json(folder / each / "run.json") for each in (left, right))
    assert (whole["resumed_at"], resumed["resumed_at"]) == ([], at)
    assert whole["metrics"] == resumed["metrics"]
    assert not Path(f"{folder / right}-checkpoints").exists()


@pytest.mark.parametrize(
    ("left", "right", "at"),
    [
        ("plain/whole", "plain/mid", [2, 8]),
        ("plain/whole", "plain/start", [5]),
    ],
)
def test_killed_workers_end_in_the_same_bits(trained, left, right, at):
    folder, _ = trained
    assert_same(folder, left, right, at)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("left", "right", "at"),
    [
        ("own order/whole", "own order/mid", [7]),
        ("manual/whole", "manual/mid", [2, 8]),
        ("in data workers/whole", "in data workers/mid", [2, 7]),
        ("partitioned/whole", "partitioned/start", [4]),
        # Of data workers that outlive an epoch only the first one has checkpoints.
        ("kept data workers/whole", "kept data workers/mid", [4]),
        # Red before: by the loaders made since, its whole epochs were too many steps, every time.
        ("anew/whole", "anew/mid", [6]),
    ],
)
def test_whatever_they_train_killed_workers_end_in_the_same_bits(trained_further, left, right, at):
    folder, _ = trained_further
    assert_same(folder, left, right, at)


@pytest.mark.exhaustive
def test_samples_that_are_drawn_by_the_numbers_of_the_steps_are_refused_in_mid_epoch(
    trained_further,
):
    folder, _ = trained_further
    left = folder / "in steps' numbers/mid-checkpoints"
    assert "samples are drawn in this process" in (left / "refused.txt").read_text()
    assert (left / "epoch1-worker3.ckpt").exists()


def test_gradients_lie_in_the_same_buckets_in_every_step_of_every_process(trained):
    """Red before: torch made its buckets anew behind the first step of a process."""
    _, noted = trained
    # Where the data are others already behind the checkpoint, no step comes.
    stepless = {n for n, (_, _, how) in enumerate(TRAININGS) if how.get("shift")}
    layouts = set()
    for worker in noted:
        assert {n for n, each in enumerate(worker["buckets"]) if not each} == stepless
        layouts |= {json.dumps(each) for each in worker["buckets"] if each}
    assert len(layouts) == 1
    assert len(json.loads(layouts.pop())) == 2


def test_what_one_worker_alone_cannot_keep_is_refused_by_all(trained):
    folder, _ = trained
    left = folder / "odd-checkpoints"
    words = "the environment variable TEST_OF_TWINRUN changes while the training runs"
    why = (left / "refused.txt").read_text()
    assert words in why
    assert why.endswith("(at worker 2)")
    assert not (left / "checkpoint.json").exists()
    assert not [*left.glob("*.ckpt")]


def assert_broken_off(trained, trainings, name, words):
    folder, noted = trained
    (number,) = [n for n, (of, _, how) in enumerate(trainings) if of == name and how.get("shift")]
    for worker in noted:
        assert worker["errors"][number - 1] == "killed"
        assert words in worker["errors"][number]
        assert " (at worker 2); the next attempt" in worker["errors"][number]
    assert not Path(f"{folder / name}-checkpoints/checkpoint.json").exists()


def test_other_data_at_one_worker_break_off_all(trained):
    words = "the batches before the stop were other ones"
    assert_broken_off(trained, TRAININGS, "other/mid", words)


@pytest.mark.exhaustive
def test_so_do_other_data_from_an_epochs_start_on(trained_further):
    words = "the first batch after the stop is another one"
    assert_broken_off(trained_further, FURTHER, "other/start", words)


def strategy(kind=ExchangingStrategy, *, device="cpu", is_fixed=True):
    found = object.__new__(type(kind.__name__, (kind,), {"root_device": torch.device(device)}))
    found.has_fixed_buckets = is_fixed
    return found


def hindrances(*, nodes=1, optimizers=(), notes=(), **of_strategy):
    logs = SimpleNamespace(notes=lambda: list(notes))
    found = AgreedCheckpoints(Workers(0, 2), None, SimpleNamespace(logs=logs), [])
    trainer = SimpleNamespace(
        num_nodes=nodes, optimizers=list(optimizers), strategy=strategy(**of_strategy)
    )
    return list(found.hindrances(trainer))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, None),
        ({"device": "cuda"}, "on GPUs"),
        ({"nodes": 2}, "on several machines"),
        ({"optimizers": [object.__new__(ZeroRedundancyOptimizer)]}, "ZeroRedundancyOptimizer"),
        ({"kind": DDPStrategy}, "DDPStrategy sums gradients in buckets"),
        ({"is_fixed": False}, "ExchangingStrategy sums gradients in buckets"),
        ({"notes": ["loss"]}, "values wait to be joined"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(asked, words):
    found = hindrances(**asked)
    assert len(found) == (words is not None)
    assert words is None or words in found[0]

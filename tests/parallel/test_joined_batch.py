"""Mini-batches put together of shards, whatever a collate function has made of these."""

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from collating import collate
from comparing import compared
from example_trainings import HERE, VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.comparison.conditions import conditions
from twinrun.comparison.difference_words import clause_of
from twinrun.parallel.joined_batch import counted_by_lightning, put_together
from twinrun.process.launching import environment_of, launch
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.trace.hash_kinds import are_of_shards, kinds_of

KINDS = ("padded", "time first", "padded, time first", "concatenated", "lists")
Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Record:
    x: torch.Tensor
    more: dict


class Encoded(UserDict):
    """A mapping with an attribute, as tokenizers give it."""

    def __init__(self, ids, ratio):
        super().__init__(ids=ids)
        self.ratio = ratio


def halves(make, sizes=(3, 2)):
    """Return what `make` makes of shards, and of all their samples."""
    start, shards = 0, []
    for size in sizes:
        shards.append(make(range(start, start + size)))
        start += size
    return put_together(shards, sizes), make(range(start))


def rows(samples):
    return torch.tensor([[float(i), 0.5, -1.0, 2.0, 3.0] for i in samples])


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2), (3, 3), (4, 3, 3), (1, 1)])
@pytest.mark.parametrize(
    "make",
    [
        rows,
        lambda of: {"x": rows(of), "y": [rows(of)[:, 0], "text", None, True, 0.25]},
        lambda of: rows(of).T.reshape(5, -1, 1).expand(-1, -1, 6),
        lambda of: (rows(of), tuple(f"text {i}" for i in of), [f"name {i}" for i in of]),
        lambda of: (rows(of), rows(of).numpy()),
        lambda of: Pair(rows(of), [f"name {i}" for i in of]),
        lambda of: UserDict(x=rows(of), y=tuple(f"name {i}" for i in of)),
        lambda of: OrderedDict(x=rows(of), y=tuple(f"name {i}" for i in of)),
        lambda of: Record(rows(of), {"y": rows(of)[:, 0]}),
        lambda of: Encoded(rows(of), 0.5),
        lambda of: rows(of).to_sparse(),
        lambda of: {"images": [torch.ones(3, 4 + i, 5) for i in of]},
        lambda of: (tuple(torch.ones(3, 4 + i) for i in of), [{"box": rows(range(i))} for i in of]),
    ],
)
def test_shards_that_fit_are_what_one_worker_is_given(make, sizes):
    """Red before: time was joined, images of one size likewise; an array was the first shard's."""
    (whole, is_whole), expected = halves(make, sizes)
    assert is_whole
    assert fingerprint_tree(whole) == fingerprint_tree(expected)


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        # How many they are, or hold: of shards of one size it is the same in all.
        (lambda of: (rows(of), len(of)), (2, 2)),
        (lambda of: (rows(of), len(of)), (3, 2)),
        (lambda of: (rows(of), torch.tensor(7 * len(of))), (2, 2)),
        (lambda of: (rows(of), np.int64(7 * len(of))), (2, 2)),
        # One entry for each of another number of things.
        (lambda of: torch.cat([rows(of)] * 2), (2, 2)),
        (lambda of: torch.ones(len(of) + 1, 2), (3, 2)),
        # Either dimension may be that of the samples.
        (lambda of: torch.ones(2, len(of), 3), (2, 2)),
        (lambda of: torch.ones(2, len(of), dtype=torch.int64), (2, 2)),
        # An object that nobody can look into, and a mapping of other keys.
        (lambda of: (rows(of), object()), (2, 2)),
        (lambda of: {i: rows([i]) for i in of}, (2, 2)),
        # Two images, or two columns of two.
        (lambda of: {"images": [torch.ones(2, 3) for _ in of]}, (2, 2)),
        (lambda of: UserDict(x=rows(of), n=len(of)), (2, 2)),
    ],
)
def test_shards_that_need_not_fit_stay_shards(make, sizes):
    """Red before: counts were the first shard's, and what did not fit ended the training."""
    (shards, is_whole), _ = halves(make, sizes)
    assert not is_whole
    assert len(shards) == len(sizes)


def test_one_shard_is_the_whole():
    assert put_together([(torch.ones(1, 2), 1)], [1])[1]


def test_a_matrix_of_as_many_features_as_samples_has_rows():
    (whole, is_whole), expected = halves(lambda of: torch.rand(1, 3).expand(len(of), 3) * 0, (3, 3))
    assert is_whole
    assert whole.shape == expected.shape


@pytest.mark.parametrize("second", [["c", "d"], ["c"]])
def test_texts_of_all_shards_are_those_of_one_worker(second):
    """One worker alone has them in one list; of two, those of the first alone counted."""
    shards = [
        {"ids": torch.arange(2), "texts": ("a", "b"), "names": ["a", "b"]},
        {"ids": torch.arange(2, 2 + len(second)), "texts": tuple(second), "names": second},
    ]
    whole, is_whole = put_together(shards, [2, len(second)])
    assert is_whole
    assert whole["texts"] == ("a", "b", *second)
    assert whole["names"] == ["a", "b", *second]
    assert whole["ids"].tolist() == list(range(2 + len(second)))


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        ([torch.ones(2, 3, 4), torch.ones(2, 5, 4)], 4),  # padded
        ([torch.ones(7, 2, 4), torch.ones(9, 2, 4)], 9),  # with time first
        ([torch.arange(14).reshape(7, 2), torch.arange(18).reshape(9, 2)], 9),
        # Points of as many features as a shard has samples; red before: 9, the larger shard's.
        ([torch.ones(7, 2), torch.ones(9, 2)], 16),
        ([torch.ones(7), torch.ones(9)], 16),
        ([None, torch.ones(9)], 0),
    ],
)
def test_of_shards_the_size_is_what_lightning_takes_for_it(shards, expected):
    batch, is_whole = put_together(shards, [2, 2])
    assert not is_whole
    assert counted_by_lightning(batch, [2, 2], is_whole=is_whole) == expected


@pytest.mark.parametrize("how", KINDS)
def test_what_is_collated_otherwise_is_put_together_where_it_can_be(how):
    samples = [(torch.rand(3 + i % 5, 4), torch.rand(1)) for i in range(12)]
    shards = [collate(how, samples[:6]), collate(how, samples[6:])]
    found, is_whole = put_together(shards, [6, 6])
    assert is_whole is (how != "concatenated")
    if is_whole:
        assert fingerprint_tree(found) == fingerprint_tree(collate(how, samples))


def trained(folder, devices, kinds):
    """Train under each way of collating; return the folders."""
    runs = []
    for how in kinds:
        hyperparameters = {"learning_rate": 0.1, "how": how}
        workload = {
            **WORKLOAD,
            "module": "collating:Collated",
            "data": None,
            "epochs": 2,
            "hyperparameters": hyperparameters,
        }
        variant = {**VARIANT, "precision": "64-true", "threads": 1, "devices": devices}
        of = folder / f"{how} {devices}"
        of.mkdir()
        asked = arguments(of, workload, variant)["run"]
        asked["identity"]["variant"] = f"of {devices}"
        runs.append(asked)
    launch(
        "collating:train_each",
        {"runs": runs},
        environment_of(seed=1, deterministic=True, threads=1) | {"PYTHONPATH": HERE},
        workers=devices,
    )
    return {how: folder / f"{how} {devices}" for how in kinds}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Trainings by one worker and by two; the last mini-batch of an epoch has 3 and 2 samples."""
    folder = tmp_path_factory.mktemp("both")
    return {devices: trained(folder, devices, KINDS) for devices in (1, 2)}


@cache
def kinds_in(folder):
    arrays = artifacts.read_arrays(folder / "fingerprints.npz")
    return are_of_shards(kinds_of(arrays, "batch", np.arange(1, 11)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", KINDS)
def test_whatever_is_collated_is_trained_as_by_one_worker(both, how):
    """Red before: all but lists of one size ended in an error of `torch.cat`."""
    one, two = (artifacts.read_tensors(both[n][how] / "weights.safetensors") for n in (1, 2))
    for name in one:
        assert np.abs(one[name] - two[name]).max() < 1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", KINDS)
def test_batches_are_compared_with_one_workers_or_said_not_to_be(both, how, tmp_path):
    steps = [pd.read_csv(both[n][how] / "steps.csv", dtype=str) for n in (1, 2)]
    of_shards = kinds_in(both[2][how])
    assert not kinds_in(both[1][how]).any()
    for column in ("batch", "samples"):
        equal = (steps[0][column] == steps[1][column]).to_numpy()
        assert equal.tolist() == (~of_shards).tolist()
    assert of_shards.any() == (how in ("padded", "padded, time first", "concatenated"))
    assert of_shards.all() == (how == "concatenated")
    runs = [both[n][how] / "run.json" for n in (1, 2)]
    summary, _, table = compared(tmp_path, *runs, across=True)
    assert table["batch_equal"].isna().tolist() == of_shards.tolist()
    first = summary["first_difference"]
    assert first["quantity"] not in ("content of the batch", "order of the batch")
    assert "since" not in first
    is_unknown = of_shards[first["step"] - 1]
    assert (first["cause"] == "data not compared") is bool(is_unknown)
    assert clause_of(first).startswith(f"at step {first['step']} in the ")
    told = any("could not be put together" in clause for clause in conditions(summary))
    assert told is bool(of_shards.any())


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", KINDS)
def test_an_epochs_mean_weighs_mini_batches_as_one_worker_does(both, how):
    """Red before: by samples, where Lightning counts what the first tensor of a batch holds."""
    one, two = (pd.read_csv(both[n][how] / "epochs.csv") for n in (1, 2))
    for name in ("train_loss", "both_epoch"):
        assert two[name].tolist() == pytest.approx(one[name].tolist(), rel=1e-12)

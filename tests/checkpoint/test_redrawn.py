"""Lists of data that are redrawn while a training runs are a reason to write no checkpoint."""

import array
import collections
import dataclasses
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from resumed import assert_resumed, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset


class Listed(Dataset):
    """Gives rows by lists of their numbers."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets
        self.numbers = list(range(len(inputs)))
        self.by_half = {"first": self.numbers[:35], "last": self.numbers[35:]}
        self.rows = [inputs[number] for number in self.numbers]
        self.files = [Path(f"{number}.png") for number in self.numbers]
        self.known = [None] * len(inputs)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        number = self.numbers[index]
        self.known[number] = len(self.known) + number  # a cache
        return self.rows[number] + self.by_half["first"][index % 35], self.targets[number]


class ListedPoints(Points):
    def train_dataloader(self):
        return DataLoader(Listed(self.inputs, self.targets), 16)


class PartOfPoints(Points):
    def train_dataloader(self):
        whole = TensorDataset(self.inputs, self.targets)
        return DataLoader(Subset(whole, list(range(70))), 16)


class ListInModule(Points):
    """Its dataset reads a list of the data module, which is longer than a walk looks into."""

    def __init__(self, size=70):
        super().__init__(size)
        self.numbers = list(range(size)) * 5

    def train_dataloader(self):
        return DataLoader([(self.inputs[n], self.targets[n]) for n in self.numbers[:70]], 16)


@dataclasses.dataclass
class Row:
    inputs: torch.Tensor
    target: float
    read: object = None


class Rows(Dataset):
    """Holds samples that hold a tensor, and a copy of what has been read, made where it is read."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        if isinstance(row, Row):
            row.read = (row.inputs * 1, row.target)
            return row.read[0], torch.tensor([row.target])
        if isinstance(row, dict):
            row.setdefault("read", [row["inputs"] * 1])
            return row["inputs"], torch.tensor([row["target"]])
        return row[0], torch.tensor([row[1]])


class PointsInRows(Points):
    def row(self, inputs, target):
        return Row(inputs, target)

    def setup(self, stage):
        pairs = zip(self.inputs, self.targets.flatten().tolist(), strict=True)
        self.data = Rows([self.row(*pair) for pair in pairs])

    def train_dataloader(self):
        return DataLoader(self.data, 16, sampler=range(70))


class PointsInDicts(PointsInRows):
    def row(self, inputs, target):
        return {"inputs": inputs, "target": target}


class PointsInTuples(PointsInRows):
    def row(self, inputs, target):
        return inputs, target


def redrawing(redraw):
    """Make a module that has its data redrawn where an epoch ends."""

    class Redraws(Small):
        def on_train_epoch_end(self):
            redraw(self.trainer.train_dataloader.dataset, self.trainer.datamodule)

    return Redraws


def redraw(owner, name, size=70):
    setattr(owner, name, random.sample(range(size), size))


REDRAWN = {
    "exchanged": (ListedPoints, lambda data, _: redraw(data, "numbers"), "Listed.numbers"),
    "shuffled": (ListedPoints, lambda data, _: random.shuffle(data.numbers), "Listed.numbers"),
    "objects": (ListedPoints, lambda data, _: random.shuffle(data.rows), "Listed.rows"),
    "inside": (
        ListedPoints,
        lambda data, _: random.shuffle(data.by_half["first"]),
        "Listed.by_half['first']",
    ),
    "whole": (
        ListedPoints,
        lambda data, _: setattr(data, "by_half", {"first": data.numbers[3:38], "last": []}),
        "Listed.by_half",
    ),
    "torch's": (PartOfPoints, lambda data, _: redraw(data, "indices"), "Subset.indices"),
    "module's": (
        ListInModule,
        lambda _, data: redraw(data, "numbers", 300),
        "ListInModule.numbers",
    ),
    "paths": (ListedPoints, lambda data, _: random.shuffle(data.files), "Listed.files"),
    "tuples": (PointsInTuples, lambda data, _: random.shuffle(data.rows), "Rows.rows"),
    "label of an object": (
        PointsInRows,
        lambda data, _: setattr(data.rows[5], "target", 0.0),
        "Rows.rows",
    ),
    "label in a dictionary": (
        PointsInDicts,
        lambda data, _: data.rows[5].update(target=0.0),
        "Rows.rows",
    ),
    "label in a tuple": (
        PointsInTuples,
        lambda data, _: data.rows.__setitem__(5, (data.rows[5][0], 0.0)),
        "Rows.rows",
    ),
    "tensor in an object": (
        PointsInRows,
        lambda data, _: setattr(data.rows[5], "inputs", torch.zeros(4)),
        "Rows.rows",
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REDRAWN)
def test_a_long_list_that_is_redrawn_is_named(tmp_path, name):
    """Red before: a checkpoint was written, and the first batch behind it was another one."""
    data, change, called = REDRAWN[name]
    _, _, said = fit(tmp_path, data, redrawing(change), minutes=0)
    assert [text.partition(" changes")[0] for text in said] == [
        f"no checkpoints are written: {called}"
    ]
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kill", "at"), [(4, 3), (12, 11)])
def test_a_long_list_that_is_filled_as_it_is_read_is_none(tmp_path, kill, at):
    assert_resumed(tmp_path, [at], kills=[kill], data=ListedPoints, max_epochs=3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("data", [PointsInRows, PointsInDicts, PointsInTuples])
def test_samples_that_hold_a_tensor_are_no_reason_and_may_be_filled_too(tmp_path, data):
    """In the second epoch nobody knows yet that what was filled in the first one stays as it is."""
    assert_resumed(tmp_path, [11], kills=[12], data=data, max_epochs=3)


class Holds(Dataset):
    """Holds something beside its rows."""

    def __init__(self, inputs, targets, held):
        self.inputs, self.targets, self.held = inputs, targets, held

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def holding(make):
    class PointsThatHold(Points):
        def setup(self, stage):
            self.data = Holds(self.inputs, self.targets, make())

        def train_dataloader(self):
            return DataLoader(self.data, 16)

    return PointsThatHold


def table():
    return pd.DataFrame(
        {"y": [0.5] * 70, "name": ["a"] * 70, "kind": pd.Categorical(["a", "b"] * 35)}
    )


def nested():
    return {"a": {"b": {"c": {"tensor": torch.zeros(1), "y": 0.0}}}}


def rows_of(make):
    return lambda: [make() for _ in range(70)]


HELD = {
    "column of numbers": (table, lambda held: held.__setitem__("y", held["y"] + 1)),
    "number in a table": (table, lambda held: held.loc.__setitem__((60, "y"), 0.0)),
    "text in a table": (table, lambda held: held.loc.__setitem__((60, "name"), "b")),
    "kind in a table": (table, lambda held: held.loc.__setitem__((60, "kind"), "b")),
    "index": (table, lambda held: setattr(held, "index", held.index[::-1])),
    "series": (
        lambda: {"y": pd.Series([0.0] * 70)},
        lambda held: held["y"].iloc.__setitem__(60, 1.0),
    ),
    "set": (set, lambda held: held.add(60)),
    "array of Python's": (lambda: array.array("i", [1] * 70), lambda held: held.append(2)),
    "sets": (rows_of(set), lambda held: held[60].add(1)),
    "bytes": (rows_of(lambda: bytearray(3)), lambda held: held[60].append(1)),
    "namespaces": (
        rows_of(lambda: SimpleNamespace(x=torch.zeros(1), y=0.0)),
        lambda held: setattr(held[60], "y", 1.0),
    ),
    "mappings": (
        rows_of(lambda: collections.UserDict(x=torch.zeros(1), y=0.0)),
        lambda held: held[60].update(y=1.0),
    ),
    "deep": (rows_of(nested), lambda held: held[60]["a"]["b"]["c"].update(y=1.0)),
    "long rows": (rows_of(lambda: [0] * 512), lambda held: held.__setitem__(60, [1] * 512)),
    "shuffled long rows": (
        lambda: [[row] * 512 for row in range(70)],
        lambda held: held.reverse(),
    ),
    "long row beside a tensor": (
        rows_of(lambda: {"tensor": torch.zeros(1), "y": [0] * 512}),
        lambda held: held[60]["y"].append(1),
    ),
    "array of objects": (
        rows_of(lambda: np.array([{"y": 0}, None])),
        lambda held: held[60][0].update(y=1),
    ),
    "tensor in a library's object": (
        rows_of(lambda: torch.distributions.Bernoulli(torch.zeros(1))),
        lambda held: held[60].probs.add_(1),
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", HELD)
def test_what_a_dataset_holds_and_is_written_to_is_named(tmp_path, name):
    """Red before: a checkpoint was written, and the resumed training had what there was before."""
    make, change = HELD[name]
    redraws = redrawing(lambda data, _: change(data.held))
    _, _, said = fit(tmp_path, holding(make), redraws, minutes=0)
    assert [text.partition(" changes")[0] for text in said] == [
        "no checkpoints are written: Holds.held" + ("['y']" if name == "series" else "")
    ]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", HELD)
def test_so_is_none_that_is_only_read(tmp_path, name):
    assert_resumed(tmp_path, [7], kills=[8], data=holding(HELD[name][0]), module=Small)

"""Datasets that make something where they are first read: a cache, or state."""

import sqlite3
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset


class Lazy(Dataset):
    """Makes `made` where it is first read; `None` stands there before."""

    def __init__(self, data):
        self.rows, self.targets = data.inputs, data.targets
        self.folder = Path(mkdtemp())
        torch.save(self.rows, self.folder / "rows.pt")
        np.save(self.folder / "rows.npy", self.rows.numpy())
        self.begin()

    def begin(self):
        self.made = None

    def __len__(self):
        return len(self.targets)

    def load(self):
        return torch.load(self.folder / "rows.pt")

    def row(self, index):
        return self.made[index]

    def __getitem__(self, index):
        if self.made is None:
            self.made = self.load()
        return torch.as_tensor(self.row(index)).float().clone(), self.targets[index]


class OfArray(Lazy):
    def load(self):
        return np.load(self.folder / "rows.npy")


class OfMapping(Lazy):
    def load(self):
        return {"x": super().load(), "scale": 2.0, "name": "rows"}

    def row(self, index):
        return self.made["x"][index] * self.made["scale"]


class OfRows(Lazy):
    def load(self):
        return super().load().tolist()


class OfTensors(Lazy):
    def load(self):
        return list(super().load())


class OfTable(Lazy):
    def load(self):
        return pd.DataFrame(super().load().numpy())

    def row(self, index):
        return self.made.iloc[index].to_numpy()


class OfNamespace(Lazy):
    def load(self):
        return SimpleNamespace(rows=super().load(), table=pd.DataFrame({"a": [1.0] * 70}))

    def row(self, index):
        return self.made.rows[index] + self.made.table["a"][index]


class Reader:
    def __init__(self, rows):
        self.rows = rows

    def read(self, index):
        return self.rows[index]


class OfReader(Lazy):
    def load(self):
        return Reader(super().load())

    def row(self, index):
        return self.made.read(index)


class OfNumber(Lazy):
    def load(self):
        return float(super().load().mean())

    def row(self, index):
        return self.rows[index] - self.made


class OfText(OfNumber):
    def load(self):
        return "0.5"

    def row(self, index):
        return self.rows[index] * float(self.made)


class OfNetwork(Lazy):
    def load(self):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return torch.nn.Linear(4, 4).requires_grad_(False)

    def row(self, index):
        return self.made(self.rows[index])


class OfDatabase(Lazy):
    """Connects where it is first read."""

    def begin(self):
        super().begin()
        with sqlite3.connect(self.folder / "rows.db") as base:
            base.execute("create table r (a, b, c, d)")
            base.executemany("insert into r values (?, ?, ?, ?)", self.rows.tolist())

    def load(self):
        return sqlite3.connect(self.folder / "rows.db")

    def row(self, index):
        found = self.made.execute("select * from r where rowid = ?", (int(index) + 1,))
        return found.fetchone()


class OfWriteable(Lazy):
    def load(self):
        return np.load(self.folder / "rows.npy", mmap_mode="c")


class InHelper(Lazy):
    """Has a helper that is lazy."""

    def begin(self):
        self.helper = Helper(self.folder)

    def __getitem__(self, index):
        return self.helper.read(index), self.targets[index]


class Helper:
    def __init__(self, folder):
        self.folder, self.rows = folder, None

    def read(self, index):
        if self.rows is None:
            self.rows = torch.load(self.folder / "rows.pt")
        return self.rows[index]


class Filled(Lazy):
    """Keeps each row that it has made."""

    def begin(self):
        self.made = {}

    def make(self, index):
        return self.rows[index] * 2

    def __getitem__(self, index):
        if index not in self.made:
            self.made[index] = self.make(index)
        return self.made[index], self.targets[index]


class FilledLate(Filled):
    def begin(self):
        self.made = None

    def __getitem__(self, index):
        if self.made is None:
            self.made = {}
        return super().__getitem__(index)


class FilledList(Filled):
    def begin(self):
        self.made = [None] * 70

    def __getitem__(self, index):
        if self.made[index] is None:
            self.made[index] = self.make(index)
        return self.made[index], self.targets[index]


class FilledWithNumbers(Filled):
    def make(self, index):
        return float(self.rows[index].sum())

    def __getitem__(self, index):
        if index not in self.made:
            self.made[index] = self.make(index)
        return self.rows[index] + self.made[index], self.targets[index]


class Shards(Dataset):
    """Of several lazy datasets the first batch reads one."""

    def __init__(self, data):
        self.datasets = [Lazy(data) for _ in range(4)]

    def __len__(self):
        return 70

    def __getitem__(self, index):
        return self.datasets[index // 20][index]


# What moves, or comes of chance or of the order.


class Counts(Lazy):
    """Counts what is read in a mapping."""

    def load(self):
        return {"count": 0}

    def row(self, index):
        self.made["count"] += 1
        return self.rows[index] * (1 + 0.01 * self.made["count"])


class CountsFromFirst(Counts):
    """Counts in a mapping that is there from the first on."""

    def begin(self):
        self.made = {"count": 0}


class NumberFromFirst(CountsFromFirst):
    def load(self):
        return 0

    def begin(self):
        self.made = self.load()

    def row(self, index):
        self.made += 1
        return self.rows[index] * (1 + 0.01 * self.made)


class TensorFromFirst(NumberFromFirst):
    def load(self):
        return torch.zeros(())


class CountsInATensor(Lazy):
    def load(self):
        return torch.zeros(())

    def row(self, index):
        self.made += 1
        return self.rows[index] * (1 + 0.01 * self.made)


class CountsInANumber(Lazy):
    def load(self):
        return 0

    def row(self, index):
        self.made += 1
        return self.rows[index] * (1 + 0.01 * self.made)


class Averages(Lazy):
    def load(self):
        return {"mean": torch.zeros(4)}

    def row(self, index):
        self.made["mean"] = self.made["mean"].lerp(self.rows[index], 0.1)
        return self.rows[index] - self.made["mean"]


class CountsInReader(Lazy):
    def load(self):
        return SimpleNamespace(reader=Reader(super().load()), turn=0)

    def row(self, index):
        self.made.turn += 1
        return self.made.reader.read(index) * (1 + 0.01 * self.made.turn)


class Norm(torch.nn.Module):
    """Moves a tensor that is no buffer."""

    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(4)

    def forward(self, row):
        self.mean = self.mean.lerp(row, 0.1)
        return row - self.mean


class MovesInNetwork(Lazy):
    def load(self):
        return torch.nn.Sequential(Norm())

    def row(self, index):
        return self.made(self.rows[index])


class CountsToTwenty(Lazy):
    """Counts no further than a number that the first epoch reaches."""

    def load(self):
        return {"count": 0}

    def row(self, index):
        self.made["count"] = min(self.made["count"] + 1, 12)
        return self.rows[index] * (1 + 0.01 * self.made["count"])


class Visits(Filled):
    """Counts how often each row is read; it changes what is read more than twice."""

    def __getitem__(self, index):
        self.made[index] = self.made.get(index, 0) + 1
        return self.rows[index] * max(2, self.made[index]), self.targets[index]


class EpochsByARow(Lazy):
    """Counts its epochs where it is asked for its first row; the first two are alike."""

    def __getitem__(self, index):
        if index == 0:
            self.made = (self.made or 0) + 1
        return self.rows[index] * max(1, self.made or 0), self.targets[index]


class InOrder(Filled):
    """Keeps as which one a row came."""

    def make(self, index):
        return self.rows[index] + 0.01 * len(self.made)


class Drawn(Filled):
    """Keeps rows with noise."""

    def make(self, index):
        return self.rows[index] + 0.1 * torch.randn(4)


class DrawnLate(FilledLate):
    make = Drawn.make


class DrawnInAList(FilledList):
    make = Drawn.make


class DrawnOnce(Lazy):
    """Draws a shift where it is first read."""

    def load(self):
        return torch.randn(4)

    def row(self, index):
        return self.rows[index] + self.made


class DrawnByNumPy(DrawnOnce):
    def load(self):
        return np.random.randn(4)


class Collects(Lazy):
    """Mixes a row with those that came before."""

    def load(self):
        return []

    def row(self, index):
        self.made.append(self.rows[index])
        return torch.stack(self.made[-3:]).mean(0)


class CollectsFew(Collects):
    def row(self, index):
        self.made[:] = [*self.made[-2:], self.rows[index]]
        return torch.stack(self.made).mean(0)


class OfCursor(OfDatabase):
    """Reads its rows in turn."""

    def load(self):
        base = sqlite3.connect(self.folder / "rows.db")
        return base.execute("select * from r")

    def row(self, index):
        found = self.made.fetchone()
        if found is None:
            self.made = self.load()
            found = self.made.fetchone()
        return found


class InLists(Lazy):
    """Keeps what it reads in two lists that lie in one."""

    def begin(self):
        self.made = [[None] * len(self.rows), [None] * len(self.rows)]

    def cached(self, index):
        return self.rows[index]

    def __getitem__(self, index):
        if self.made[0][index] is None:
            self.made[0][index] = self.cached(index)
            self.made[1][index] = self.targets[index]
        return self.made[0][index], self.made[1][index]


class ByNumbers(InLists):
    """Keeps what it reads in a dictionary that has all its keys."""

    def begin(self):
        self.made = dict.fromkeys(range(len(self.rows)))

    def __getitem__(self, index):
        if self.made[index] is None:
            self.made[index] = self.cached(index)
        return self.made[index], self.targets[index]


class InListsDrawn(InLists):
    """Draws a few rows once, which the first batch behind a checkpoint need not have."""

    def cached(self, index):
        return self.rows[index] + (0.1 * torch.randn(4) if index in (3, 41) else 0)


class ByNumbersDrawn(InListsDrawn, ByNumbers):
    pass


CACHES = [Lazy, OfArray, OfMapping, OfRows, OfTensors, OfTable, OfNamespace, OfReader, OfNumber]
CACHES += [OfText, OfNetwork, OfDatabase, OfWriteable, InHelper, Shards]
CACHES += [Filled, FilledLate, FilledList, FilledWithNumbers, InLists, ByNumbers]
MOVING = [
    Counts,
    CountsFromFirst,
    NumberFromFirst,
    TensorFromFirst,
    CountsInATensor,
    CountsInANumber,
    Averages,
    CountsInReader,
    CountsToTwenty,
]
MOVING += [
    Visits,
    EpochsByARow,
    InOrder,
    Drawn,
    DrawnLate,
    DrawnInAList,
    DrawnOnce,
    DrawnByNumPy,
    Collects,
]
MOVING += [CollectsFew, OfCursor, MovesInNetwork, InListsDrawn, ByNumbersDrawn]


def without_attribute(kind):
    """Return a class whose attribute is not there before it is read."""

    class Absent(kind):
        def begin(self):
            kind.begin(self)
            vars(self).pop("made", None)

        def __getitem__(self, index):
            if not hasattr(self, "made"):
                self.made = self.load()
            return torch.as_tensor(self.row(index)).float().clone(), self.targets[index]

    Absent.__name__ = Absent.__qualname__ = f"Absent{kind.__name__}"
    return Absent


ABSENT = [Lazy, OfArray, OfMapping, OfTable, OfReader, OfNumber, OfDatabase]
ABSENT_MOVING = [
    Counts,
    CountsFromFirst,
    NumberFromFirst,
    TensorFromFirst,
    CountsInATensor,
    CountsInANumber,
    Averages,
    CountsInReader,
    DrawnOnce,
]
ABSENT_MOVING += [Collects]
CACHES += [without_attribute(kind) for kind in ABSENT]
MOVING += [without_attribute(kind) for kind in ABSENT_MOVING]

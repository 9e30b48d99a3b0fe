"""Datasets of many rows, each of which is given something as it is read: a cache, or state.

`keep` says what a row is given; of `Drawn` it is another one in another process, and only of two
rows, which the first batch behind a checkpoint need not have.
"""

from collections import defaultdict
from dataclasses import dataclass
from tempfile import mkdtemp

import torch
from late_data import Lazy
from torch.utils.data import Dataset

DRAWN = (3, 41)


class Records(Lazy):
    """A list of dictionaries, to each of which a key is added."""

    def begin(self):
        self.made = [{"number": index} for index in range(70)]

    def keep(self, index):
        return self.rows[index] * 2

    def kept(self, index):
        record = self.made[index]
        if "row" not in record:
            record["row"] = self.keep(index)
        return record["row"]

    def __getitem__(self, index):
        return self.kept(index), self.targets[index]


class WithNone(Records):
    """A key of which holds None."""

    def begin(self):
        self.made = [{"number": index, "row": None} for index in range(70)]

    def kept(self, index):
        if self.made[index]["row"] is None:
            self.made[index]["row"] = self.keep(index)
        return self.made[index]["row"]


class Record:
    def __init__(self, number):
        self.number, self.row = number, None


class Objects(Records):
    def begin(self):
        self.made = [Record(index) for index in range(70)]

    def kept(self, index):
        record = self.made[index]
        if record.row is None:
            record.row = self.keep(index)
        return record.row


@dataclass(slots=True)
class Slotted:
    number: int
    row: object = None


class Slots(Objects):
    def begin(self):
        self.made = [Slotted(index) for index in range(70)]


class PartlyNone(Records):
    """A list that holds a number, and else None."""

    def begin(self):
        self.made = [torch.ones(4), *[None] * 69]

    def kept(self, index):
        if self.made[index] is None:
            self.made[index] = self.keep(index)
        return self.made[index]


class Pairs(Records):
    """Lists of a row and of None."""

    def begin(self):
        self.made = [[row, None] for row in self.rows]

    def kept(self, index):
        pair = self.made[index]
        if pair[1] is None:
            pair[1] = self.keep(index)
        return pair[1]


class Helper:
    def __init__(self, rows):
        self.rows, self.shift = rows, None

    def read(self, index, make):
        if self.shift is None:
            self.shift = make(index)
        return self.rows[index] + self.shift


class Helpers(Records):
    """A hundred helpers, each of which makes something late."""

    def begin(self):
        self.made = [Helper(self.rows) for _ in range(100)]

    def kept(self, index):
        return self.made[index].read(index, self.keep)


class InSplits(Records):
    """Lists of records in a dictionary."""

    def begin(self):
        self.made = {name: [{"number": index} for index in range(70)] for name in ("train", "val")}

    def kept(self, index):
        record = self.made["train"][index]
        if "row" not in record:
            record.setdefault("row", self.keep(index))
        return record["row"]


class BesideANumber(Records):
    """A list of None beside something that is there."""

    def begin(self):
        self.made = {"rows": [None] * 70, "scale": 2.0}

    def kept(self, index):
        if self.made["rows"][index] is None:
            self.made["rows"][index] = self.keep(index)
        return self.made["rows"][index]


KINDS = [Records, WithNone, Objects, Slots, PartlyNone, Pairs, Helpers, InSplits, BesideANumber]


def drawn(kind):
    """Return a class that adds to two rows what is drawn once."""

    class Drawn(kind):
        def kept(self, index):
            return super().kept(index) if index in DRAWN else self.rows[index]

        def keep(self, index):
            return self.rows[index] + torch.randn(4)

    Drawn.__name__ = Drawn.__qualname__ = f"Drawn{kind.__name__}"
    return Drawn


class Visits(Objects):
    """Counts in each record how often it is read."""

    def kept(self, index):
        if index not in DRAWN:
            return self.rows[index]
        record = self.made[index]
        record.row = (record.row or 0) + 1
        return self.rows[index] * record.row


class VisitsInAList(BesideANumber):
    def kept(self, index):
        if index not in DRAWN:
            return self.rows[index]
        self.made["rows"][index] = (self.made["rows"][index] or 0) + 1
        return self.rows[index] * self.made["rows"][index]


DRAWING = [drawn(kind) for kind in KINDS]
COUNTING = [Visits, VisitsInAList]


# How a cache is filled.


class ByAlias(Records):
    def begin(self):
        self.store = {}

    def kept(self, index):
        kept = self.store
        if index not in kept:
            kept[index] = self.keep(index)
        return kept[index]


def fetch(kept, index, make):
    if index not in kept:
        kept[index] = make(index)
    return kept[index]


class ByFunction(ByAlias):
    def kept(self, index):
        return fetch(self.store, index, self.keep)


def tokenised(record, make):
    record.update(ids=make(record["number"]), length=4)


class Tokenised(Records):
    """Rows that a function fills once, with lists of numbers too."""

    def kept(self, index):
        record = self.made[index]
        if "ids" not in record:
            tokenised(record, lambda number: self.keep(number).tolist())
        return torch.tensor(record["ids"])


class InALoop(Records):
    """Fills all where it is first read."""

    def kept(self, index):
        if "row" not in self.made[0]:
            for turn, record in enumerate(self.made):
                record["row"] = self.keep(turn)
        return self.made[index]["row"]


class Reader:
    def __init__(self, rows):
        self.rows, self.kept = rows, {}

    def read(self, index):
        if index not in self.kept:
            self.kept[index] = self.rows[index] * 2
        return self.kept[index]


class LateReader(Records):
    """Makes a reader late that keeps what it has read."""

    def begin(self):
        self.store = None

    def kept(self, index):
        if self.store is None:
            self.store = Reader(self.rows)
        return self.store.read(index)


class ByShard(Records):
    def begin(self):
        self.store = defaultdict(dict)

    def kept(self, index):
        shard = self.store[index // 20]
        if index not in shard:
            shard[index] = self.keep(index)
        return shard[index]


class ByPath(ByAlias):
    def kept(self, index):
        return fetch(self.store, self.folder / f"{index}.png", lambda _: self.keep(index))


class InATemporaryFolder(Records):
    """Makes a folder where it is first read."""

    def begin(self):
        self.made = None

    def kept(self, index):
        if self.made is None:
            self.made = mkdtemp()
        return self.rows[index]


class RemembersItsLast(Records):
    """Sets, and never reads, which row it has read last."""

    def begin(self):
        self.read_last = None

    def kept(self, index):
        self.read_last = index
        return self.rows[index]


FILLED = [ByAlias, ByFunction, Tokenised, InALoop, LateReader, ByShard, ByPath]
FILLED += [InATemporaryFolder, RemembersItsLast]


class Given(Dataset):
    """Fills a dictionary that it was given."""

    def __init__(self, data, kept):
        self.rows, self.targets, self.kept = data.inputs, data.targets, kept

    def __len__(self):
        return 70

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.rows[index] * 2
        return self.kept[index], self.targets[index]

"""What data depend on that is there or not: a checkpoint holds it, and a resumed training has it.

Only two rows are read so, which the first batch behind a checkpoint need not have.
"""

import random
import sqlite3
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass

import late_data
import late_records
import numpy as np
import pytest
import torch
from late_fitted import MovedByValidation, called, data_of, never_wrong
from late_records import DRAWN, Given
from resumed import assert_resumed, fit
from small import Points
from torch.utils.data import DataLoader, Sampler

AT_STARTS = {"minutes": 0, "module": MovedByValidation, "max_epochs": 4}


class Rare(late_data.Lazy):
    """Adds to two rows what `state` says of them."""

    def begin(self):
        self.kept = {}

    def __getitem__(self, index):
        found = self.state(index)
        return self.rows[index] + (0.1 * found if index in DRAWN else 0), self.targets[index]


class BadIn(Rare):
    """Gives nothing for a bad row where it first comes, and later another one."""

    def __getitem__(self, index):
        if index in self.kept:
            index = self.kept[index]
        elif index in DRAWN:
            self.kept[index] = index + 1
            return self.rows[index] * 0, self.targets[index] * 0
        return self.rows[index], self.targets[index]


class FirstVisit(Rare):
    def state(self, index):
        if index in self.kept:
            return 2
        self.kept[index] = True
        return 1


class Bank(Rare):
    """Mixes rows with one of those that it has kept."""

    def state(self, index):
        if index % 10 == 0:
            self.kept[index] = self.rows[index]
        return random.choice([*self.kept.values()] or [0]) if index in DRAWN else 0


class LenCache(Rare):
    def state(self, index):
        if index not in self.kept:
            self.kept[index] = self.rows[index]
        return 0.1 * len(self.kept)


class OrderLate(Rare):
    """Has the row that was read longest ago first."""

    def state(self, index):
        self.kept[index] = self.kept.pop(index, None) or float(self.rows[index].sum())
        return 0.1 * next(iter(self.kept))


class FirstOfRecord(late_records.Records):
    """Gives a record something, and reads it where that is there."""

    def __getitem__(self, index):
        is_there = "row" in self.made[index]
        row = self.kept(index)
        return row * (2 if is_there and index in DRAWN else 1), self.targets[index]


class FirstOfObject(late_records.Objects):
    __getitem__ = late_records.Records.__getitem__

    def kept(self, index):
        is_there = self.made[index].row is not None
        return super().kept(index) * (2 if is_there and index in DRAWN else 1)


@dataclass
class Crop:
    row: object
    number: int = 0


class OfObjects(Rare):
    def state(self, index):
        if index not in self.kept:
            self.kept[index] = Crop(self.rows[index], index)
            return 1
        return self.kept[index].number


class ByArrays(Rare):
    """Makes its table late, of arrays."""

    def begin(self):
        self.kept = None

    def state(self, index):
        if self.kept is None:
            self.kept = {}
        is_there = index in self.kept
        self.kept.setdefault(index, self.rows[index].numpy()[1:])
        return is_there + float(self.kept[index].sum())


class Aliases(Rare):
    """Keeps the same lists in two attributes, one of which is there late."""

    def state(self, index):
        if not hasattr(self, "by_row"):
            self.by_row = self.kept
        is_there = index in self.kept
        self.by_row.setdefault(index, [index])
        return is_there + (self.kept is self.by_row)


THERE = [BadIn, FirstVisit, Bank, LenCache, OrderLate, FirstOfRecord, FirstOfObject]
THERE += [OfObjects, ByArrays, Aliases]
OFTEN = [BadIn, Bank, OrderLate, FirstOfObject, ByArrays]


@pytest.mark.parametrize(
    "kind",
    [k if k in OFTEN else pytest.param(k, marks=pytest.mark.exhaustive) for k in THERE],
    ids=called(THERE),
)
def test_data_that_depend_on_what_is_there_are_resumed(tmp_path, kind):
    """Red before: resumed in silence, in other bits."""
    options = {**AT_STARTS, "data": data_of(kind), "max_epochs": 5}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kill", [4, 8, 13, 14, 20])
@pytest.mark.parametrize("kind", THERE, ids=called(THERE))
def test_nor_are_they_resumed_otherwise_in_mid_epoch(tmp_path, kind, kill, is_of_validation):
    where = {"is_of_validation": is_of_validation}
    never_wrong(tmp_path, kind, kill=kill, epochs=4, **where)


MID = [FirstVisit, BadIn]


@pytest.mark.parametrize("kind", MID, ids=called(MID))
def test_they_are_resumed_in_mid_epoch_too(tmp_path, kind):
    """Red before: each resume ended."""
    options = {"data": data_of(kind), "module": MovedByValidation, "max_epochs": 4}
    assert_resumed(tmp_path, [12], kills=[13], **options)


def test_what_changes_its_order_waits_for_the_end_of_an_epoch(tmp_path):
    assert never_wrong(tmp_path, OrderLate, kill=13, epochs=4)
    said = (tmp_path / "killed/refused.txt").read_text(encoding="utf-8")
    assert "OrderLate.kept has changed since the epoch began" in said


def test_so_are_validation_data(tmp_path):
    """Red before: resumed in silence, in other bits."""
    options = {**AT_STARTS, "data": data_of(FirstVisit, is_of_validation=True), "max_epochs": 5}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


# What comes and goes.


class Toggles(Sampler):
    def __init__(self, data):
        self.size, self.phase = len(data), None

    def __len__(self):
        return self.size + 3

    def __iter__(self):
        self.phase = "b" if self.phase is None else None
        return iter(torch.randperm(self.size).tolist() + ([1, 2, 3] if self.phase else [7, 8, 9]))


class Toggled(Points):
    def train_dataloader(self):
        return self._loader(sampler=Toggles(self.inputs))


class TogDict(Rare):
    def state(self, index):
        if self.kept.pop(index, None) is None:
            self.kept[index] = True
        return float(index in self.kept)


class TogList(Rare):
    def begin(self):
        self.kept = [None] * 70

    def state(self, index):
        self.kept[index] = None if self.kept[index] else True
        return float(bool(self.kept[index]))


class TogAbsent(Rare):
    def state(self, index):
        if index == DRAWN[0]:
            if hasattr(self, "on"):
                del self.on
            else:
                self.on = True
        return float(hasattr(self, "on"))


class TogUnheld(Rare):
    """Toggles what no checkpoint can hold."""

    def begin(self):
        self.kept = None

    def state(self, index):
        if index == DRAWN[0]:
            self.kept = None if self.kept else [lambda: 1]
        return float(self.kept is not None)


@pytest.mark.parametrize("kill", [6, 16, pytest.param(21, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", [None, TogDict, TogList, TogAbsent, TogUnheld])
def test_what_comes_and_goes_is_never_resumed_otherwise(tmp_path, kind, kill):
    """Red before: in silence, in other bits."""
    if kind is not None:
        never_wrong(tmp_path, kind, kill=kill, minutes=0, epochs=5)
        return
    options = {**AT_STARTS, "data": Toggled, "max_epochs": 5}
    assert_resumed(tmp_path, [kill - 1], kills=[kill + 1], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kill", [4, 8, 13, 18])
@pytest.mark.parametrize("kind", [TogDict, TogList, TogAbsent, TogUnheld])
def test_nor_is_it_in_mid_epoch(tmp_path, kind, kill):
    never_wrong(tmp_path, kind, kill=kill, epochs=5)

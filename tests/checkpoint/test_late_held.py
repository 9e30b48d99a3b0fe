"""What data depend on that is there or not: a checkpoint holds it, and a resumed training has it.

Only two rows are read so, which the first batch behind a checkpoint need not have.
"""

import pickle
import random
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

import late_data
import late_records
import numpy as np
import pytest
import torch
from late_fitted import MovedByValidation, called, data_of, never_wrong
from late_records import DRAWN, Given
from resumed import assert_resumed, every, fit
from small import Points
from torch.utils.data import DataLoader, Sampler, TensorDataset

from twinrun.checkpoint import late_held
from twinrun.checkpoint.held_content import Part, held, made_again
from twinrun.checkpoint.held_memory import Known, UnheldError
from twinrun.errors import TwinrunError

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


class Named(NamedTuple):
    row: object


class Mode(Enum):
    FIRST = 1


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
        self.kept.setdefault(index, self.rows[index].numpy()[::-1])
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


@pytest.mark.one_in(8)
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


@pytest.mark.one_in(2)
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


class Slotted:
    """Has a slot that a property shows, to be read alone, and refuses to be set."""

    __slots__ = ("_kept",)

    def __init__(self):
        object.__setattr__(self, "_kept", None)

    @property
    def kept(self):
        return self._kept

    def __setattr__(self, name, value):
        raise AttributeError(name)

    def is_there(self, index):
        if self._kept is None:
            object.__setattr__(self, "_kept", {})
        return self._kept.setdefault(index, 1) + len(self._kept)


class InASlot(Rare):
    def begin(self):
        self.helper = Slotted()

    def state(self, index):
        return 0.1 * self.helper.is_there(index)


def test_what_lies_in_a_slot_is_put_back(tmp_path):
    options = {**AT_STARTS, "data": data_of(InASlot), "max_epochs": 5}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


class Rows(Given):
    """Fills a dictionary that it was given, and goes by what is there."""

    def __getitem__(self, index):
        is_there = index in self.kept
        row, target = super().__getitem__(index)
        return row * (2 if is_there and index in DRAWN else 1), target


class Shares(Points):
    """Gives one dictionary to its training and its validation data."""

    def __init__(self, **options):
        super().__init__(**options)
        self.kept = {}

    def train_dataloader(self):
        return DataLoader(Rows(self, self.kept), 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(Rows(self, self.kept), 16)


def test_a_cache_that_several_share_is_one_again(tmp_path):
    """Red before: resumed in silence, in other bits."""
    options = {**AT_STARTS, "data": Shares, "max_epochs": 5}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


def test_a_cache_that_is_too_large_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(late_held, "MOST_BYTES", 1 << 10)
    options = {**AT_STARTS, "data": data_of(late_data.Filled)}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [FirstVisit, BadIn])
def test_of_data_that_workers_have_nothing_comes_here(tmp_path, kind):
    options = {**AT_STARTS, "data": data_of(kind, workers=1)}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


@pytest.mark.parametrize("minutes", [0, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_where_it_cannot_be_put_back_the_attempt_ends(tmp_path, monkeypatch, minutes):
    def fails(owners, part):
        raise TypeError(part.called)

    in_epoch = every(1) if minutes else None
    options = {"data": data_of(FirstVisit), "minutes": minutes, "max_epochs": 4}
    fit(tmp_path, kill=14, in_epoch=in_epoch, **options)
    with monkeypatch.context() as patch:
        patch.setattr(late_held, "put", fails)
        with pytest.raises(TwinrunError, match=r"FirstVisit\.kept could not be put back"):
            fit(tmp_path, in_epoch=in_epoch, **options)
    _, resumed_at, _ = fit(tmp_path, in_epoch=in_epoch, **options)
    assert resumed_at == []


def test_what_is_held_is_made_again_with_its_aliases():
    row = torch.arange(12.0).reshape(3, 4)
    several = [1]
    value = {
        "row": row[1],
        "turned": row.t(),
        "array": np.arange(6).reshape(2, 3).T,
        "queue": deque([several], 3),
        "lists": defaultdict(list, {(1, "b"): several}),
        "order": OrderedDict(b=1, a=2),
        "own": Crop(several),
        "backwards": np.arange(6.0)[4:1:-2],
        "named": Named(several),
        "others": (
            Path("a"),
            np.float32(3),
            row.shape,
            torch.float16,
            {1, 2},
            Mode.FIRST,
            1j,
            b"a",
        ),
    }
    value["own"].number = value
    filled, outside = {}, object()
    parts = [Part("1 A.x", (), value), Part("1 A.y", (3,), several), Part("1 A.z", (), [outside])]
    raw = held(parts, Known({id(outside): "outside"}, ()))
    there = {"1 A.x": filled}
    found = made_again(raw, {"outside": outside}.get, lambda called, keys: there.get(called))
    again, second, third = (part.value for part in found)
    assert again is filled is again["own"].number
    assert second is again["queue"][0] is again["lists"][1, "b"] is again["own"].row
    assert second is not several
    assert third[0] is outside
    assert list(again) == list(value)
    assert list(again["order"]) == ["b", "a"]
    assert again["queue"].maxlen == 3
    assert type(again["named"]) is Named
    assert again["named"].row is second
    assert again["backwards"].tolist() == [4, 2]
    assert again["backwards"].strides == (-16,)
    assert again["lists"]["new"] == []
    assert again["others"] == value["others"]
    assert torch.equal(again["row"], row[1])
    assert again["row"].untyped_storage().data_ptr() == again["turned"].data_ptr()
    assert again["turned"].stride() == (1, 4)
    assert again["array"].strides == value["array"].strides
    assert (again["array"] == value["array"]).all()


class Raises:
    def __reduce__(self):
        raise ValueError


@pytest.mark.parametrize(
    "value",
    [
        lambda: 1,
        iter([1]),
        {object(): 1},
        Raises(),
        torch.nn.Linear(1, 1),
        torch.zeros(1).requires_grad_(),
        torch.zeros(1 << 25),
        np.array([object()]),
        bytes(1 << 26),
        Path(gettempdir()) / "rows",
    ],
)
def test_what_is_more_than_data_or_too_large_is_not_held(value):
    with pytest.raises(UnheldError):
        held([Part("1 A.x", (), [value])], Known({}, ()))


def test_a_checkpoint_that_names_code_runs_none():
    raw = pickle.dumps([]) + pickle.dumps(print)
    with pytest.raises(KeyError):
        made_again(raw, {}.get, lambda *_: None)


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


class TogglesInBatches(Toggles):
    """Toggles where its iterator is made, as a resumed training has one made before any hook."""

    def __iter__(self):
        order = list(super().__iter__())
        return iter([order[start : start + 16] for start in range(0, len(order), 16)])

    def __len__(self):
        return -(-self.size // 16)


class ToggledInBatches(Points):
    def train_dataloader(self):
        rows = TensorDataset(self.inputs, self.targets)
        return DataLoader(rows, batch_sampler=TogglesInBatches(rows))


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


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kill", [6, 16, pytest.param(21, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", [None, TogDict, TogList, TogAbsent, TogUnheld])
def test_what_comes_and_goes_is_never_resumed_otherwise(tmp_path, kind, kill):
    """Red before: in silence, in other bits."""
    if kind is not None:
        never_wrong(tmp_path, kind, kill=kill, minutes=0, epochs=5)
        return
    options = {**AT_STARTS, "data": Toggled, "max_epochs": 5}
    assert_resumed(tmp_path, [kill - 1], kills=[kill + 1], every_batches=9, **options)


def test_what_an_iterator_sets_that_nobody_reads_is_taken_back(tmp_path):
    """Red before: the first iterator of the resumed training had toggled once more."""
    options = {**AT_STARTS, "data": ToggledInBatches, "max_epochs": 5}
    assert_resumed(tmp_path, [20], kills=[23], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kill", [4, 8, 13, 18])
@pytest.mark.parametrize("kind", [TogDict, TogList, TogAbsent, TogUnheld])
def test_nor_is_it_in_mid_epoch(tmp_path, kind, kill):
    never_wrong(tmp_path, kind, kill=kill, epochs=5)

"""Of what data make as they are read a checkpoint holds all or nothing, and only what is theirs.

A copy of what something else holds too would be another object, or would not follow its changes.
And what cannot be held is made where something beside it is not there yet.
"""

import pickle

import late_data
import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from late_fitted import MovedByValidation, data_of
from late_records import DRAWN
from resumed import assert_resumed, every, fit
from small import Points
from torch.utils.data import DataLoader

from twinrun.checkpoint import late_held
from twinrun.checkpoint.held_content import Part, held, made_again
from twinrun.checkpoint.held_memory import Known, known_stretch
from twinrun.checkpoint.resumable import Resumable

MISSING = object()


class Relabels(MovedByValidation):
    """Halves what data hold from the fourth epoch on."""

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 3:
            self.trainer.train_dataloader.dataset.halve()


class Rare(late_data.Lazy):
    """Scales two rows by what `state` says of them."""

    def begin(self):
        self.kept = {}

    def __getitem__(self, index):
        return self.rows[index] * (self.state(index) if index in DRAWN else 1), self.targets[index]

    def halve(self):
        self.rows.mul_(0.5)


class Sentinel(Rare):
    """Knows again that it has found nothing."""

    def state(self, index):
        if index not in self.kept:
            self.kept[index] = MISSING
        return 1 if self.kept[index] is MISSING else 2


class OfRow:
    def __init__(self, scale):
        self.scale = scale


class Best(Rare):
    """Has the best of its own rows."""

    def begin(self):
        self.table, self.best = [OfRow(1 + index / 70) for index in range(70)], None

    def state(self, index):
        if self.best is None:
            self.best = self.table[DRAWN[0]]
        return 2 if self.table[index] is self.best else 1

    def halve(self):
        pass


class Index(Best):
    """Finds rows by their names."""

    def begin(self):
        super().begin()
        self.by = None

    def state(self, index):
        if self.by is None:
            self.by = {f"row {number}": row for number, row in enumerate(self.table)}
        return self.by[f"row {index}"].scale

    def halve(self):
        for index in DRAWN:
            self.table[index].scale = 0.5


class Views(Rare):
    """Keeps rows of a tensor."""

    def state(self, index):
        if index not in self.kept:
            self.kept[index] = self.rows[index]
        return self.kept[index] + len(self.kept)


class ArrayViews(Views):
    def begin(self):
        super().begin()
        self.scales = np.arange(70.0).reshape(70, 1) / 70

    def state(self, index):
        if index not in self.kept:
            self.kept[index] = self.scales[index], torch.from_numpy(self.scales[index])
        return sum(each.item() for each in self.kept[index]) + len(self.kept) / 70

    def halve(self):
        self.scales *= 0.5


SCALES = np.arange(70.0).reshape(70, 1) / 70


class OfAGlobal(ArrayViews):
    """Keeps tensors of an array of the file."""

    def begin(self):
        super().begin()
        SCALES[:] = self.scales
        self.scales = None

    def state(self, index):
        if index not in self.kept:
            self.kept[index] = torch.from_numpy(SCALES[index])
        return self.kept[index].item()

    def halve(self):
        SCALES[:] *= 0.5


class LateViews(Rare):
    """Keeps a tensor of its own, and rows of that."""

    def begin(self):
        self.own, self.views = None, None

    def state(self, index):
        if self.own is None:
            self.own = self.rows * 2
            self.views = list(self.own)
        return self.views[index]

    def halve(self):
        if self.own is not None:
            self.own.mul_(0.5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "kind",
    [
        Sentinel,
        Index,
        Views,
        LateViews,
        OfAGlobal,
        *[pytest.param(each, marks=pytest.mark.exhaustive) for each in (Best, ArrayViews)],
    ],
)
@pytest.mark.parametrize("in_epoch", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_what_something_else_holds_too_is_that_again(tmp_path, kind, in_epoch):
    """Red before: resumed in silence, in other bits."""
    options = {"data": data_of(kind), "module": Relabels, "max_epochs": 5}
    options |= {"minutes": 1000, "in_epoch": every(1)} if in_epoch else {"minutes": 0}
    whole, _, _ = fit(tmp_path / "whole", **{**options, "minutes": 1000, "in_epoch": None})
    fit(tmp_path / "killed", kill=13, **options)
    # Data that are written to later have no more checkpoints, which is said.
    found, resumed_at, _ = fit(tmp_path / "killed", **options)
    assert resumed_at
    assert found == whole


class TwoCaches(Rare):
    """Keeps what cannot be held beside what can, and asks for the one where it needs the other."""

    def begin(self):
        self.images, self.sizes = {}, {}

    def state(self, index):
        if index not in self.sizes:
            self.images[index], self.sizes[index] = pd.Series([index]), 4
        return float(self.images[index].iloc[0]) / 70


class LargeAndSmall(TwoCaches):
    def state(self, index):
        if index not in self.sizes:
            self.images[index], self.sizes[index] = torch.full((4096,), float(index)), 4
        return self.images[index][0] / 70


class Opened(Rare):
    """Opens a file, and makes its index with it."""

    def begin(self):
        self.file = self.index = None
        self.folder_of_file().mkdir(exist_ok=True)
        (self.folder_of_file() / "rows.pkl").write_bytes(pickle.dumps([1.5] * 70))

    def folder_of_file(self):
        return self.folder / "file"

    def state(self, index):
        if self.index is None:
            self.file = (self.folder_of_file() / "rows.pkl").open("rb")
            self.index = {number: number for number in range(70)}
        self.file.seek(0)
        return pickle.load(self.file)[self.index[index]]  # noqa: S301  its own


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "is_in_epoch"),
    [
        (TwoCaches, False),
        (LargeAndSmall, False),
        (Opened, True),
        *[
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in ((TwoCaches, True), (LargeAndSmall, True), (Opened, False))
        ],
    ],
)
def test_beside_what_cannot_be_held_nothing_is(tmp_path, monkeypatch, kind, is_in_epoch):
    """Red before: each attempt that was resumed ended, by a KeyError or of None."""
    monkeypatch.setattr(late_held, "MOST_BYTES", 1 << 16)
    options = {"data": data_of(kind), "module": MovedByValidation, "max_epochs": 4}
    if is_in_epoch:
        assert_resumed(tmp_path, [12], kills=[13], minutes=1000, **options)
    else:
        assert_resumed(tmp_path, [15], kills=[16], every_batches=9, minutes=0, **options)


def made(parts, known=(), names=()):
    memory = [stretch for each in known if (stretch := known_stretch(each)) is not None]
    by_name = dict(zip(names, known, strict=True))
    raw = held(parts, Known({id(each): name for name, each in by_name.items()}, memory))
    return [part.value for part in made_again(raw, by_name.get, lambda *_: None)]


def test_rows_of_one_tensor_are_rows_of_one_again():
    own = torch.arange(12.0).reshape(3, 4)
    array = own.numpy()
    value = [own, own[1], own.t(), array[::-1], np.arange(6)[::2], own.view(torch.int32)]
    (again,) = made([Part("1 A.x", (), value)])
    for one, other in zip(value, again, strict=True):
        assert type(one) is type(other)
        assert np.array_equal(np.asarray(one), np.asarray(other))
    again[0].mul_(2)
    assert torch.equal(again[1], again[0][1])
    assert torch.equal(again[2], again[0].t())
    assert np.array_equal(again[3], again[0].numpy()[::-1])
    assert torch.equal(again[5].view(torch.float32), again[0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_what_is_known_are_rows_of_that(order):
    rows, array = torch.randn(4, 3), np.asarray(np.random.rand(4, 3), order=order)
    value = [rows[2], rows.numpy()[::-1], array[1:3], torch.from_numpy(array[1:, 1]), array.T]
    (again,) = made([Part("1 A.x", (), value)], [rows, array], ["rows", "array"])
    rows.mul_(2)
    array *= 3
    for one, other in zip(value, again, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


def test_time_to_hold_parts_grows_with_their_number_alone(tmp_path, monkeypatch):
    """Red before: the order of a whole table was written down once for each of its rows."""
    asked = []
    order = late_held.order_of
    monkeypatch.setattr(late_held, "order_of", lambda *each: asked.append(0) or order(*each))

    def calls(rows):
        class Given(Rare):
            def begin(self):
                self.table = [{"number": number} for number in range(rows)]

            def state(self, index):
                return 1

            def __getitem__(self, index):
                for row in self.table:
                    row.setdefault("row", self.rows[index % 70].clone())
                return super().__getitem__(index)

        asked.clear()
        fit(
            tmp_path / str(rows),
            data_of(Given),
            MovedByValidation,
            kill=11,
            minutes=0,
            max_epochs=4,
        )
        return len(asked)

    assert calls(40) <= 3 * calls(20)


class Noted(pl.Callback):
    def on_train_end(self, trainer, pl_module):
        (resumable,) = (each for each in trainer.callbacks if isinstance(each, Resumable))
        self.made_anew = resumable.made_anew()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TwoCaches, ["TwoCaches.images", "TwoCaches.sizes"]),
        (Sentinel, ["Sentinel.kept"]),
        (late_data.Filled, []),
        (Views, []),
    ],
)
def test_what_is_not_held_is_named_where_it_was_resumed(tmp_path, kind, expected):
    noted = Noted()
    options = {"data": data_of(kind), "module": MovedByValidation, "minutes": 0, "max_epochs": 4}
    fit(tmp_path, kill=13, in_epoch=every(9), **options)
    fit(tmp_path, kill=18, in_epoch=every(9), **options)
    fit(tmp_path, in_epoch=every(9), callbacks=[noted], **options)
    assert noted.made_anew == expected


class Opened(late_data.Lazy):
    """Reads rows of an open file."""

    def load(self):
        (self.folder / "rows.bin").write_bytes(self.rows.numpy().tobytes())
        return (self.folder / "rows.bin").open("rb")

    def row(self, index):
        self.made.seek(16 * index)
        return np.frombuffer(self.made.read(16), np.float32)


class ForBoth(Points):
    """Trains and validates on rows of one class."""

    kind = late_data.OfRows

    def setup(self, stage):
        self.rows, self.checked = self.kind(self), self.kind(self)

    def train_dataloader(self):
        return DataLoader(self.rows, 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.checked, 16)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize("kill", [4, 9, 14])
@pytest.mark.parametrize("kind", [late_data.OfRows, Opened], ids=["data", "file"])
def test_training_and_validation_data_of_one_class_are_resumed_in_mid_epoch(
    tmp_path, kind, kill, sanity
):
    """Red before: held, and waited for as if it were not."""
    options = {"data": type("ForBoth", (ForBoth,), {"kind": kind}), "num_sanity_val_steps": sanity}
    assert_resumed(tmp_path, [kill - 1], kills=[kill], max_epochs=4, **options)

"""What rows are each given late, in lists of many: a cache is resumed, state is not.

Each training is killed behind a checkpoint and resumed; where it is resumed, the bits are compared.
"""

import functools
import multiprocessing
import sys
import types
from operator import attrgetter
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

import late_data
import late_records
import pytest
import pytorch_lightning as pl
import torch
from late_fitted import MovedByValidation, called, data_of, never_wrong
from late_records import COUNTING, DRAWING, FILLED, KINDS, Given
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

from twinrun.checkpoint import late_unread
from twinrun.checkpoint.late_content import content_of_late
from twinrun.checkpoint.late_filling import filled_by
from twinrun.checkpoint.late_spots import NewSpots, Outlines
from twinrun.checkpoint.late_texts import key_text
from twinrun.checkpoint.late_unread import read_elsewhere, set_anew

AT_STARTS = {"minutes": 0, "module": Small, "max_epochs": 4}


def of(kinds, *names):
    return [kind for kind in kinds if kind.__name__ in names]


DRAWN_OFTEN = of(DRAWING, "DrawnRecords", "DrawnObjects", "DrawnPairs")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", DRAWN_OFTEN, ids=called(DRAWN_OFTEN))
def test_what_is_drawn_into_rows_is_never_resumed_otherwise(tmp_path, kind):
    """Red before: in silence, in other bits."""
    never_wrong(tmp_path, kind, kill=16, minutes=0, epochs=4)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kill", "minutes"), [(3, 1000), (16, 0), (18, 1000)])
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", DRAWING + COUNTING, ids=called(DRAWING + COUNTING))
def test_nor_is_any_state_of_rows(tmp_path, kind, is_of_validation, kill, minutes):
    where = {"is_of_validation": is_of_validation}
    never_wrong(tmp_path, kind, kill=kill, minutes=minutes, epochs=4, **where)


def test_a_count_in_each_row_is_refused_by_name(tmp_path):
    """Red before: resumed, with counts that began anew."""
    _, _, (said, *_) = fit(tmp_path, data_of(late_records.Visits), Small, max_epochs=3, minutes=0)
    assert "Visits.made changes while the training runs, and no checkpoint holds it" in said


KEPT_OFTEN = of(KINDS, "Records", "Helpers") + of(FILLED, "Tokenised", "ByAlias", "ByShard")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KEPT_OFTEN, ids=called(KEPT_OFTEN))
def test_what_rows_keep_is_resumed(tmp_path, kind):
    assert_resumed(tmp_path, [10], kills=[13], data=data_of(kind), every_batches=9, **AT_STARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", KINDS + FILLED, ids=called(KINDS + FILLED))
def test_each_is_resumed(tmp_path, kind, is_of_validation, workers):
    data = data_of(kind, is_of_validation=is_of_validation, workers=workers)
    options = {"module": MovedByValidation, "max_epochs": 4, "data": data}
    assert_resumed(tmp_path / "in", [3, 12], kills=[4, 13], **options)
    options |= {"minutes": 0, "max_epochs": 5}
    assert_resumed(tmp_path / "at", [15], kills=[18], every_batches=9, **options)


class Weighs(Small):
    """Sets in rows what their data only read."""

    def on_train_epoch_end(self):
        for record in self.trainer.train_dataloader.dataset.made:
            record["weight"] = 1.0


class Weighed(late_records.Records):
    def __getitem__(self, index):
        return self.kept(index) * self.made[index].get("weight", 1.0), self.targets[index]


def test_what_others_set_in_rows_is_refused_with_a_cure(tmp_path):
    options = {**AT_STARTS, "module": Weighs}
    _, _, (said, *_) = fit(tmp_path, data_of(Weighed), **options)
    assert "Weighed.made changes while the training runs" in said
    assert "fill it in `__init__`" in said


class HasTheCache(Points):
    """Gives its dictionary to the data that it makes."""

    is_validated = False

    def __init__(self, **options):
        super().__init__(**options)
        self.kept = {}

    def train_dataloader(self):
        return DataLoader(Given(self, self.kept), 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(Given(self, self.kept), 16) if self.is_validated else self._loader()


class SharesTheCache(HasTheCache):
    is_validated = True


@pytest.mark.parametrize("data", [HasTheCache, SharesTheCache])
def test_a_cache_may_be_the_data_modules(tmp_path, data):
    """Red before: refused, by a cure that could not be followed."""
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)


class Shuffles(Sampler):
    """Keeps the order that it draws where it is begun."""

    def __init__(self, data):
        self.size, self.drawn_order = len(data), None

    def __len__(self):
        return self.size

    def __iter__(self):
        self.drawn_order = torch.randperm(self.size).tolist()
        return iter(self.drawn_order)


class InBatches(Shuffles):
    """Makes its batches in a method, which it reads there."""

    def __len__(self):
        return -(-self.size // 16)

    def batches(self):
        order = torch.randperm(self.size).tolist()
        self.drawn_order = [order[start : start + 16] for start in range(0, self.size, 16)]
        return self.drawn_order

    def __iter__(self):
        yield from self.batches()


class ByLength(InBatches):
    """Makes its batches in a method, and reads them where that was called."""

    def batches(self):
        order = torch.randperm(self.size).tolist()
        self.drawn_order = [order[start : start + 16] for start in range(0, self.size, 16)]

    def __iter__(self):
        self.batches()
        return iter(self.drawn_order)


class Buffers(IterableDataset):
    """Shuffles in a list that it keeps."""

    def __init__(self, data):
        self.rows, self.targets = data.inputs, data.targets

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        self.buffered = []
        for row, target in zip(self.rows, self.targets, strict=True):
            self.buffered.append((row, target))
            if len(self.buffered) > 16:
                yield self.buffered.pop(int(torch.randint(16, ())))
        while self.buffered:
            yield self.buffered.pop()


class Begun(Points):
    def __init__(self, kind, **options):
        super().__init__(**options)
        self.kind = kind

    def train_dataloader(self):
        rows = TensorDataset(self.inputs, self.targets)
        if issubclass(self.kind, InBatches):
            return DataLoader(rows, batch_sampler=self.kind(rows))
        if self.kind is Buffers:
            return DataLoader(Buffers(self), 16)
        return DataLoader(rows, 16, sampler=Shuffles(rows))


BEGUN = [Shuffles, InBatches, ByLength, Buffers]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", BEGUN)
def test_what_an_iteration_sets_before_it_reads_it_is_no_state(tmp_path, kind):
    """Red before: a checkpoint was written, and its resume ended; of a buffer none was written."""
    options = {"data": functools.partial(Begun, kind), **AT_STARTS}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", BEGUN)
def test_nor_is_it_in_mid_epoch(tmp_path, kind):
    options = {"data": functools.partial(Begun, kind), "module": Small, "max_epochs": 4}
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], **options)


class ReadsLater(Shuffles):
    """Is as long as the order that it had last."""

    def __len__(self):
        return len(self.drawn_order or range(self.size))


def test_an_order_that_is_read_elsewhere_is_state(tmp_path):
    class Data(Points):
        def train_dataloader(self):
            return self._loader(sampler=ReadsLater(self.inputs))

    _, _, (said, *_) = fit(tmp_path, Data, Small, minutes=0, max_epochs=3)
    assert "ReadsLater.drawn_order changes while the training runs" in said


class Hard(late_data.Lazy):
    """Is told by a callback which rows are read once more."""

    def begin(self):
        self.hard_rows = [3, 41]

    def __getitem__(self, index):
        return self.rows[index], self.targets[index]

    def told(self, number):
        self.hard_rows = [number % 40, number % 40 + 1]


class WithHard(Sampler):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data) + 2

    def __iter__(self):
        yield from torch.randperm(len(self.data)).tolist()
        yield from self.data.hard_rows


class Tells(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        sampler = trainer.train_dataloader.sampler
        sampler.data.told(int(pl_module.output.weight.sum().item() * 1e6))


def test_what_another_class_reads_is_state(tmp_path):
    """Red before: a checkpoint was written, and the resumed training ended in other bits."""

    class Data(Points):
        def train_dataloader(self):
            rows = Hard(self)
            return DataLoader(rows, 16, sampler=WithHard(rows))

    _, _, (said, *_) = fit(tmp_path, Data, Small, minutes=0, max_epochs=3, callbacks=[Tells()])
    assert "Hard.hard_rows changes while the training runs" in said


class LastChunk(late_data.Lazy):
    """Keeps the rows around the one that was asked for last."""

    def begin(self):
        self.first, self.chunk = None, None

    def __getitem__(self, index):
        if self.first != index // 20:
            self.first = index // 20
            self.chunk = self.rows[self.first * 20 : self.first * 20 + 20].clone()
        return self.chunk[index % 20], self.targets[index]


class LastRows(late_data.Lazy):
    """Keeps eight rows."""

    def begin(self):
        self.kept = {}

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.rows[index] * 2
            if len(self.kept) > 8:
                self.kept.pop(next(iter(self.kept)))
        return self.kept[index], self.targets[index]


class SaysItsRows(LastRows):
    """Says what it keeps."""

    def state_dict(self):
        return {"kept": dict(self.kept)}

    def load_state_dict(self, state):
        self.kept = dict(state["kept"])


class SaysItsChunk(LastChunk):
    def state_dict(self):
        return {"first": self.first, "chunk": self.chunk}

    def load_state_dict(self, state):
        self.first, self.chunk = state["first"], state["chunk"]


@pytest.mark.parametrize(("kind", "what"), [(LastChunk, ""), (LastRows, "kept")])
def test_what_lets_go_of_what_it_read_is_refused_before_a_checkpoint_is_written(
    tmp_path, kind, what
):
    """Red before: the first checkpoint's resume ended, or a checkpoint waited for ever."""
    _, _, said = fit(tmp_path, data_of(kind), Small, in_epoch=every(1), kill=4)
    assert not list(tmp_path.glob("*.ckpt"))
    assert f"{kind.__name__}.{what}" in said[0]
    assert "`state_dict` and `load_state_dict`" in said[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [SaysItsRows, SaysItsChunk])
def test_and_resumed_where_it_says_what_it_keeps(tmp_path, kind):
    data = data_of(kind)
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)


class SaysHowMany(late_records.ByAlias):
    """Names what it keeps in its state, which has not it, but how much it is."""

    def keep(self, index):
        return self.rows[index] + (torch.randn(4) if index in late_records.DRAWN else 0)

    def state_dict(self):
        return {"many": len(self.store)}

    def load_state_dict(self, state):
        pass


def test_what_a_state_only_names_is_refused(tmp_path):
    assert not never_wrong(tmp_path, SaysHowMany, kill=16, minutes=0, epochs=4)


class SharedCount(late_data.Lazy):
    """Counts in a number that processes share."""

    def begin(self):
        self.count = multiprocessing.Value("d", 0.0)

    def __getitem__(self, index):
        with self.count.get_lock():
            self.count.value += 0.1
        return self.rows[index] * (1 + self.count.value), self.targets[index]


class SharedCountLate(SharedCount):
    def begin(self):
        self.count = None

    def __getitem__(self, index):
        if self.count is None:
            super().begin()
        return super().__getitem__(index)


class SharedNumber(SharedCount):
    def __getitem__(self, index):
        return self.rows[index] * (1 + self.count.value), self.targets[index]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_count_that_processes_share_is_refused_and_a_number_is_not(tmp_path, workers):
    """Red before: resumed in silence, with a count that began anew."""
    options = {**AT_STARTS, "max_epochs": 3}
    _, _, (said, *_) = fit(tmp_path, data_of(SharedCount, workers=workers), **options)
    assert "SharedCount.count changes while the training runs" in said
    data = data_of(SharedNumber, workers=workers)
    assert_resumed(tmp_path / "same", [10], kills=[13], every_batches=9, data=data, **AT_STARTS)


def test_nor_is_one_that_is_made_late_resumed(tmp_path):
    _, _, (said, *_) = fit(tmp_path, data_of(SharedCountLate), **AT_STARTS)
    assert "SharedCountLate.count" in said


class FillsByOtherNames:
    def __getitem__(self, index):
        kept = self.by_alias
        kept[index] = 1
        row = self.rows[index]
        row["ids"] = self.read[index]
        self.records[index].crop = 2
        for record in self.all_of_them:
            record.setdefault("seen", 1)
        put(self.by_function, index)
        self.put_by_method(self.given)
        first, second = self.pair
        second.append(first)
        return [each for each in self.read_too if row]

    def put_by_method(self, rows):
        rows[0]["length"] = 1


def put(kept, index):
    kept[index] = 1


def test_code_is_seen_to_fill_by_other_names():
    filled, _ = filled_by(FillsByOtherNames, frozenset({"__getitem__"}))
    assert filled == {
        "by_alias": {"*"},
        "rows": {"ids"},
        "records": {".crop"},
        "crop": {"="},
        "all_of_them": {"seen"},
        "by_function": {"*"},
        "given": {"length"},
        "pair": {"*"},
    }


class SetsAnew:
    def __iter__(self):
        for self.turn in range(3):
            if self.turn:
                self.branch = 1
            self.before = 2
            self.here = [self.before]
        return iter([self.branch])

    def other(self):
        return self.here[0] + self.elsewhere

    def third(self):
        self.elsewhere = 1


class Mined:
    """Is filled by others, and emptied by nobody."""

    def reset(self):
        self.found = []

    def __len__(self):
        return 1


def test_what_nothing_sets_that_reads_is_state():
    """Red before: a method that nobody calls set it before anything read it."""
    assert set_anew(Mined) == set()


class Strategy:
    def pick(self, kept):
        return kept.of_strategy


class Kept:
    of_lambda = functools.partialmethod(lambda self, more: self.in_a_lambda + more, 7)
    of_getter = property(attrgetter("by_getter"))

    def __iter__(self):
        self.own_alone = 1
        return self.own_alone

    def of_other(self, other):
        match other:
            case Kept(in_match=found):
                return found
        return self.peer.of_peer


def test_what_is_read_of_another_object_is_named():
    read = read_elsewhere([Kept()])
    assert read >= {"of_strategy", "in_a_lambda", "by_getter", "in_match", "of_peer"}
    assert "own_alone" not in read


class SetsByMethods:
    """Sets attributes in methods that it calls, or that others may."""

    def make(self):
        self.batches = [1]

    def make_some(self, number):
        if number:
            self.some = [1]

    def make_later(self):
        yield 1
        self.later = [1]

    def make_or_fail(self):
        if self.make_some(1):
            raise ValueError
        self.tried = 1

    def __iter__(self):
        self.make()
        self.make_some(0)
        self.make_later()
        return iter(self.batches + self.some + self.later)

    def __len__(self):
        try:
            self.make_or_fail()
        except ValueError:
            return self.tried
        return 1


def test_methods_that_are_called_set_what_they_set_whichever_way_they_go():
    assert set_anew(SetsByMethods) == {"batches"}


def test_attributes_that_are_set_before_they_are_read():
    assert set_anew(SetsAnew) == {"turn", "before"}


def new(value, before):
    looked = content_of_late(value, NewSpots({}), Outlines({}).before(before))
    return [spot.path for spot in looked.spots.values()]


def test_new_are_the_spots_where_nothing_lay():
    rows = [{"number": turn, "row": None} for turn in range(40)]
    after = [dict(row) for row in rows]
    after[7]["row"], after[9]["more"] = torch.ones(2), 1
    assert new(after, rows) == ["7, 'row'", "9, 'more'"]
    assert new(rows, rows) == []
    assert new({"a": [1, None, 2]}, {"a": [1, None, None]}) == ["'a', 2"]


@pytest.mark.parametrize("count", [20_000, 40_000])
def test_of_many_rows_both_looks_come_to_the_same(count):
    rows = [{"number": turn, "ids": [1, 2], "row": None} for turn in range(count)]
    filled = [{**row, "row": 1.0} for row in rows]
    assert len(new(filled, rows)) in range(1 << 13, (1 << 14) + 1)
    assert new(rows, rows) == []


def test_rows_that_refer_to_each_other_have_an_end():
    first, second = late_records.Record(1), late_records.Record(2)
    first.row, second.row = second, first
    assert Outlines({}).before([first, second] * 40).outline


def test_keys_of_temporary_paths_are_known_again():
    folders = [Path(mkdtemp()) for _ in range(2)]
    first, second = (key_text(folder / "a") for folder in folders)
    assert first == second != key_text(Path("a"))


class Raises(Dataset):
    """Has rows of a class of which nothing can be asked."""

    class Row:
        def __getattr__(self, name):
            raise ValueError

        def __eq__(self, other):
            raise ValueError

        __hash__ = None

    def __init__(self, data):
        self.tensors, self.targets = data.inputs, data.targets
        self.rows = [self.Row() for _ in range(70)]

    def __len__(self):
        return 70

    def __getitem__(self, index):
        return self.tensors[index], self.targets[index]


def test_rows_that_raise_end_no_training(tmp_path):
    whole, _, _ = fit(tmp_path, data_of(Raises), Small, in_epoch=every(2))
    assert len(whole[0]) == 10


class InItsClass(late_data.Lazy):
    """Keeps its rows in its class."""

    rows_kept: ClassVar = {}

    def begin(self):
        self.rows_kept.clear()

    def __getitem__(self, index):
        if index not in self.rows_kept:
            self.rows_kept[index] = self.rows[index] * 2
        return self.rows_kept[index], self.targets[index]


def test_a_cache_in_a_class_is_refused_with_a_cure(tmp_path):
    """Red before: without one."""
    _, _, (said, *_) = fit(tmp_path, data_of(InItsClass), Small, minutes=0)
    assert "InItsClass.rows_kept" in said
    assert "may be an attribute that `__init__` sets" in said


def test_what_a_compiler_has_made_and_taken_away_is_no_file_of_a_users(tmp_path, monkeypatch):
    """Red before: after a module was compiled no code could be read, for want of its file."""
    made = types.ModuleType("cno7bycpm4ssz3")
    made.__file__ = str(tmp_path / "cno7bycpm4ssz3.py")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    late_unread._files_of.cache_clear()
    assert made.__name__ not in late_unread.users_files()
    late_unread._files_of.cache_clear()

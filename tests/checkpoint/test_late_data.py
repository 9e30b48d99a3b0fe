"""What datasets make where they are first read: a cache is resumed, state that moves is not.

Each training is done straight, and killed and resumed; where it is resumed, the bits are compared.
"""

from collections import deque
from types import SimpleNamespace

import late_data
import numpy as np
import pandas as pd
import pytest
import torch
from late_data import CACHES, MOVING
from late_fitted import MovedByValidation, called, data_of, never_wrong
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset

from twinrun.checkpoint import late_held
from twinrun.checkpoint.late_compared import first_other, lacks, more_than, with_more
from twinrun.checkpoint.late_content import MOST_ENTRIES, UnseenError, content_of_late
from twinrun.checkpoint.late_filling import filled_by
from twinrun.checkpoint.late_spots import NewSpots, Outlines
from twinrun.checkpoint.users_attributes import READING


def of_names(*names):
    return [kind for kind in (*CACHES, *MOVING) if kind.__name__ in names]


OFTEN = of_names("Lazy", "OfDatabase", "AbsentOfMapping")
MOVED_OFTEN = of_names("AbsentCounts", "CountsInANumber", "Drawn", "Visits", "EpochsByARow")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", OFTEN, ids=called(OFTEN))
def test_a_cache_that_is_made_late_is_resumed(tmp_path, kind):
    """Red before: refused at each checkpoint, without a cure that could be used."""
    options = {"data": data_of(kind), "module": Small}
    assert_resumed(tmp_path, [7], kills=[8], **options)


FILLED = of_names("Filled", "FilledList", "Shards")


@pytest.mark.parametrize("kind", FILLED, ids=called(FILLED))
def test_one_that_is_filled_as_it_is_read_is_resumed_in_the_first_epoch(tmp_path, kind):
    assert_resumed(tmp_path, [3], kills=[4], data=data_of(kind), module=Small)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", FILLED[:1], ids=called(FILLED[:1]))
@pytest.mark.parametrize("is_held", [True, False])
def test_and_from_the_second_on_if_it_is_held_else_from_the_third(
    tmp_path, monkeypatch, kind, is_held
):
    """Red before: from the third on in any case."""
    if not is_held:
        monkeypatch.setattr(late_held, "MOST_BYTES", 1)
    options = {"data": data_of(kind), "module": Small, "max_epochs": 3}
    whole, _, _ = fit(tmp_path / "whole", **options)
    for kill, at in ((8, [7] if is_held else []), (12, [11])):
        folder = tmp_path / f"killed{kill}"
        fit(folder, kill=kill, in_epoch=not_at_first, **options)
        found, resumed_at, said = fit(folder, in_epoch=not_at_first, **options)
        assert (found, resumed_at, said) == (whole, at, [])


def not_at_first(trainer, done):
    return trainer.current_epoch > 0


def test_a_checkpoint_that_waits_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(late_held, "MOST_BYTES", 1)
    kind = of_names("Filled")[0]
    fit(tmp_path, data_of(kind), Small, kill=8, in_epoch=not_at_first)
    assert "Filled.made is first set as data are read: a checkpoint waits until it has stayed" in (
        tmp_path / "refused.txt"
    ).read_text(encoding="utf-8")


class KeepsLazyDataset(Points):
    """Makes its validation data where they are asked for, and keeps them."""

    kept = None

    def val_dataloader(self):
        if self.kept is None:
            self.kept = of_names("Lazy")[0](self)
        return DataLoader(self.kept, 16)


def test_a_data_module_may_keep_validation_data_that_load_late(tmp_path):
    """Red before: they were first read as content, later as data, and so refused for ever."""
    told = {"data": KeepsLazyDataset, "module": MovedByValidation, "max_epochs": 4}
    assert_resumed(tmp_path, [12], kills=[13], **told)


NESTED = of_names("InListsDrawn", "ByNumbersDrawn")


@pytest.mark.parametrize("kind", NESTED, ids=called(NESTED))
def test_what_is_drawn_into_inner_containers_of_nothing_is_never_resumed_otherwise(tmp_path, kind):
    """A list of None was known to be nothing, and these were not."""
    never_wrong(tmp_path, kind, kill=11, minutes=0)


NESTED_CACHES = of_names("InLists", "ByNumbers")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", NESTED_CACHES, ids=called(NESTED_CACHES))
def test_a_cache_of_inner_containers_of_nothing_is_resumed(tmp_path, kind):
    options = {"data": data_of(kind), "module": Small, "minutes": 0, "max_epochs": 4}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", CACHES, ids=called(CACHES))
def test_each_cache_is_resumed(tmp_path, kind, is_of_validation, workers):
    data = data_of(kind, is_of_validation=is_of_validation, workers=workers)
    options = {"data": data, "module": MovedByValidation, "max_epochs": 4}
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", CACHES, ids=called(CACHES))
def test_each_cache_is_resumed_where_an_epoch_starts(tmp_path, kind, is_of_validation):
    data = data_of(kind, is_of_validation=is_of_validation)
    options = {"data": data, "module": MovedByValidation, "minutes": 0, "max_epochs": 4}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", MOVED_OFTEN, ids=called(MOVED_OFTEN))
def test_state_that_is_made_late_and_moves_is_never_resumed_otherwise(tmp_path, kind):
    """Red before of a count in a mapping: resumed in silence with a count that began anew."""
    never_wrong(tmp_path, kind, kill=7, minutes=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "unnoted"])
@pytest.mark.parametrize(("kill", "minutes"), [(3, 1000), (7, 1000), (7, 0), (12, 1000), (12, 0)])
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", MOVING, ids=called(MOVING))
def test_no_state_is_resumed_otherwise(tmp_path, kind, is_of_validation, kill, minutes, is_noted):
    where = {"is_of_validation": is_of_validation}
    never_wrong(tmp_path, kind, kill=kill, minutes=minutes, is_noted=is_noted, **where)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kill", [2, 7])
@pytest.mark.parametrize("kind", MOVING, ids=called(MOVING))
def test_nor_is_any_that_data_workers_have(tmp_path, kind, kill):
    never_wrong(tmp_path, kind, kill=kill, workers=1)


def test_a_cache_whose_first_batch_was_not_noted_is_not_resumed(tmp_path):
    """Nobody could tell whether the first mini-batch was made by it as it had been."""
    assert not never_wrong(tmp_path, late_data.OfTable, kill=6, minutes=0, is_noted=False)


def test_and_is_where_the_checkpoint_holds_it(tmp_path):
    """Red before: what was held nowhere might have been made otherwise."""
    assert never_wrong(tmp_path, late_data.Lazy, kill=6, minutes=0, is_noted=False)


def test_what_moves_behind_the_first_look_is_refused_by_name(tmp_path):
    kind = of_names("AbsentCounts")[0]
    _, _, (said, *_) = fit(tmp_path, data_of(kind), Small, in_epoch=every(1))
    assert "AbsentCounts.made changes while the training runs, and no checkpoint holds it" in said
    assert "a resumed training would make it anew" in said


class KeptByName(Points):
    kept = None

    def val_dataloader(self):
        if self.kept is None:
            self.kept = TensorDataset(self.inputs, self.targets)
        return DataLoader(self.kept, 16)


class KeptIfAbsent(Points):
    def val_dataloader(self):
        if not hasattr(self, "kept"):
            self.kept = TensorDataset(self.inputs, self.targets)
        return DataLoader(self.kept, 16)


class KeptAnew(Points):
    def val_dataloader(self):
        self.kept = TensorDataset(self.inputs, self.targets)
        return DataLoader(self.kept, 16)


class KeepsItsLoader(Points):
    def val_dataloader(self):
        self.kept = self._loader()
        return self.kept


@pytest.mark.one_in(2)
@pytest.mark.parametrize("data", [KeptByName, KeptIfAbsent, KeptAnew, KeepsItsLoader])
def test_a_data_module_that_keeps_what_it_validates_on_is_resumed(tmp_path, data):
    """Red before: refused, as if the dataset changed where its loader had come."""
    options = {"data": data, "module": Small, "minutes": 0, "max_epochs": 4}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


class Weighted(Small):
    """Sets something in its data where an epoch ends, which these have not had before."""

    def on_train_epoch_end(self):
        self.trainer.train_dataloader.dataset.weights = torch.ones(70)


class ReadsWeights(late_data.Lazy):
    def begin(self):
        self.made = self.load()

    def row(self, index):
        return self.made[index] * getattr(self, "weights", self.targets)[index]


def test_what_others_set_in_data_under_way_is_refused_with_a_cure(tmp_path):
    _, _, (said, *_) = fit(tmp_path, data_of(ReadsWeights), Weighted, minutes=0, max_epochs=3)
    assert "ReadsWeights.weights changes while the training runs" in said
    assert "not seen to be by `self.weights = ...`" in said


def test_a_cursor_that_is_kept_is_refused_with_a_cure(tmp_path):
    """Red before: without a cure."""
    _, _, said = fit(tmp_path, data_of(late_data.OfCursor), Small, minutes=0)
    assert "is an iterator (Cursor), whose position nobody can save" in said[0]
    assert "`__getitem__` may make one" in said[0]


class Seedable(torch.utils.data.RandomSampler):
    """As one in wide use: makes a generator as it is first read, which epochs seed."""

    epoch = 0

    def __iter__(self):
        if self.generator is None:
            self.generator = torch.Generator()
        self.generator.manual_seed(self.epoch + 1)
        yield from super().__iter__()
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch):
        self.epoch = epoch


def seeded(kind, **options):
    class Seeded(Points):
        def train_dataloader(self):
            sampler = kind(self.inputs, **{k: make() for k, make in options.items()})
            return self._loader(sampler=sampler)

    return Seeded


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [__name__, "torch.utils.data.sampler"], ids=["own", "library"])
def test_a_generator_that_a_sampler_makes_late_is_refused_and_one_it_is_given_is_not(
    tmp_path, module
):
    """Red before: a checkpoint was written, and each resume of it failed."""
    kind = type("Seedable", (Seedable,), {"__module__": module})
    _, _, (said, *_) = fit(tmp_path / "late", seeded(kind), Small, in_epoch=every(1))
    assert "Seedable.generator" in said
    assert "random number generator" in said
    options = {"data": seeded(kind, generator=torch.Generator), "module": Small}
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], **options)


def content(value, before=None):
    return content_of_late(value, NewSpots({}), Outlines({}).before(before)).content


class Own:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.full((3,), x),
        lambda x: np.full(3, x),
        lambda x: pd.DataFrame({"a": [x]}),
        lambda x: [torch.full((3,), x)],
        lambda x: ({"a": deque([x])},),
        lambda x: Own([Own(x)]),
        lambda x: SimpleNamespace(x=x, table=pd.Series([x])),
        lambda x: torch.nn.Sequential(torch.nn.Dropout(x)),
        lambda x: {x},
        lambda x: lambda: x,
        lambda x: Own(x).__init__,
        float,
    ],
)
def test_a_content_tells_values_apart_and_knows_them_again(make):
    assert content(make(0.5)) == content(make(0.5)) != content(make(0.25))


def test_what_is_filled_is_compared_by_its_keys():
    rows = torch.arange(20000.0).reshape(100, 200)
    few = {"made": content({index: rows[index] for index in (7, 3)})}
    many = {"made": content({index: rows[index] for index in range(100)})}
    assert first_other(few, many) is None is first_other(many, few)
    other = {"made": content({3: rows[3], 7: rows[7] + 1})}
    assert first_other(many, other) == "made" == lacks(few, many)
    assert lacks(many, few) is None is lacks(with_more(few, many), many)
    assert len(more_than(few, many)["made"]) == 98
    assert more_than(many, few) == {}
    with_nothing = [rows[0], None, None]
    assert len(content(with_nothing, [None] * 3)) == 2


def test_of_many_entries_those_are_looked_at_that_others_look_at_too():
    many = content({index: float(index) for index in range(3 * MOST_ENTRIES)})
    fewer = content({index: float(index) for index in range(MOST_ENTRIES // 2)})
    assert len(many) < MOST_ENTRIES
    assert len(many.keys() & fewer.keys()) > MOST_ENTRIES // 16
    assert first_other({"a": many}, {"a": fewer}) is None


@pytest.mark.parametrize(
    "value", [iter([1]), np.random.default_rng(1), [torch.Generator()], Own(zip([1], strict=True))]
)
def test_what_moves_unseen_has_no_content(value):
    with pytest.raises(UnseenError):
        content(value)


class Fills:
    def __init__(self):
        self.first = 0

    def __getitem__(self, index):
        self.set = index
        self.by_key[index] = index
        self.counted[str(index)] += 1
        self.by_method.append(index)
        row = {"read": self.read[index]}
        row["weight"] = self.weights.get(index)
        row["other"] = self.others[index]
        return self.more(row)

    def more(self, row):
        self.inside = row
        return row

    def apart(self):
        self.elsewhere = 1


def test_code_that_reads_is_seen_to_fill():
    filled, _ = filled_by(Fills, frozenset(READING))
    assert filled == {
        "set": {"="},
        "by_key": {"*"},
        "counted": {"*"},
        "by_method": {"*"},
        "inside": {"="},
    }

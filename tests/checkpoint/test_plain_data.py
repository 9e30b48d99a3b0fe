"""What a checkpoint holds as data alone comes back as it was."""

import argparse
import collections
import datetime
import doctest
import enum
import pathlib
import sys
import types

import numpy as np
import pytest
import torch
from lightning_fabric.utilities.data import AttributeDict
from resumed import assert_resumed, fit
from small import Points, Small

from twinrun.checkpoint import plain_data
from twinrun.checkpoint.looks import handles, look
from twinrun.checkpoint.plain_data import given_back, is_plain, kept
from twinrun.errors import TwinrunError


class Phase(enum.Enum):
    A = 1
    B = 2


class Mode(enum.StrEnum):
    FAST = "fast"


VALUES = [
    torch.Size([2, 3]),
    (torch.device("cpu"), torch.float16),
    {(8, (8, "b")): 1, torch.Size([4]): 2, (torch.float32, torch.device("cpu")): 3},
    {Phase.B: [Phase.A], Mode.FAST: 1, 1: Mode.FAST},
    collections.Counter([("a", "b"), ("a", "b")]),
    collections.defaultdict(list, {("a", 1): [1]}),
    collections.OrderedDict(b=1, a=[2]),
    collections.Counter({"a": 2, "b": -1}),
    collections.Counter({"a": 0.5}),
    collections.defaultdict(list, {1: [0.5], 0: []}),
    collections.defaultdict(None, {"a": {"b": (1, None)}}),
    collections.deque([1, "a", collections.deque([2])], maxlen=3),
    collections.deque(),
    {3, 1, 2},
    {"a", 1, None},
    frozenset({2.5}),
    pathlib.Path("a/b"),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
    {"one": datetime.timedelta(seconds=1)},
    [({"a": pathlib.Path()},), {}],
    [complex(-0.0, float("inf")), {1j: b""}],
    bytearray(range(256)),
    (bytes(range(256)), bytearray()),
    argparse.Namespace(rate=0.5, sizes=[torch.Size([2])]),
    types.SimpleNamespace(phase=Phase.A),
    AttributeDict(rate=0.5, of=AttributeDict({"a": (1,)})),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_it_comes_back_from_a_file_of_data(tmp_path, value):
    assert is_plain(value)
    torch.save({"kept": kept(value)}, tmp_path / "file")
    found = given_back(
        torch.load(tmp_path / "file", weights_only=True)["kept"], torch.device("cpu")
    )
    assert found == value
    assert repr(found) == repr(value)
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.zeros(0, np.uint16), np.array(1j), np.ones(2, ">f4")],
    ids=lambda array: str(array.dtype),
)
def test_an_array_comes_back_from_a_file_of_data(tmp_path, array):
    assert is_plain([array])
    torch.save({"kept": kept([array])}, tmp_path / "file")
    (found,) = given_back(
        torch.load(tmp_path / "file", weights_only=True)["kept"], torch.device("cpu")
    )
    assert look(found, ()) == look(array, ())
    assert is_plain(found)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ({(4, 4): 1}, {(8, 8): 1}),
        ({Phase.A: 1}, {Phase.B: 1}),
        ({(1, torch.float32): 1}, {(1, torch.float64): 1}),
        (np.zeros(2), np.ones(2)),
    ],
    ids=str,
)
def test_another_key_is_another_value(value, other):
    """Red before: of a key that is a tuple its place alone was looked at."""
    assert look(value, ()) != look(other, ())


def test_an_array_shares_its_memory_with_its_views_and_tensors():
    array = np.ones(5)
    found = {next(handles(each, ())) for each in (array, array[1:], torch.from_numpy(array))}
    assert len(found) == 1


def test_a_member_that_this_process_has_not_is_no_none(monkeypatch):
    """Red before: a value that is missing came back as None, without a word."""
    saved = kept(Phase.A)
    monkeypatch.delattr(sys.modules[__name__], "Phase")
    with pytest.raises(TwinrunError, match="which a checkpoint names, is not there"):
        given_back(saved, torch.device("cpu"))


def test_tensors_in_it_are_copies():
    value = collections.deque([torch.ones(2)])
    (found,) = given_back(kept(value), torch.device("cpu"))
    value[0].zero_()
    assert found.tolist() == [1, 1]


class Own(dict):
    pass


def emptied(numbers):
    """Give a set with a table for many more."""
    value = set(range(100))
    for each in set(range(100)) - set(numbers):
        value.discard(each)
    return value


@pytest.mark.parametrize(
    "value",
    [
        Own(a=1),
        collections.defaultdict(lambda: 1),
        collections.defaultdict(Own),
        collections.deque([object()]),
        {(1, 2)},
        [{object()}],
        np.ones((2, 2), order="F"),
        np.ones(4)[::2],
        np.array([{}]),
        {np.float64(1): object()},
        emptied([1, 64]),  # of which a copy gives 64 first
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_copy_does_not_stand_for_is_no_plain_data(value):
    assert not is_plain(value)


class Gathers(Small):
    """Keeps what it has seen in Python's own containers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.history, self.seen = collections.defaultdict(list), collections.Counter()
        self.last, self.names = collections.deque(maxlen=3), {"begun"}
        self.order, self.file = collections.OrderedDict(), pathlib.Path("0")

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.history[batch_idx].append(loss.item())
        self.seen["steps"] += 1
        self.last.append(loss.detach())
        self.names.add(f"{batch_idx}")
        self.order[f"{self.seen['steps'] % 3}"] = 0.1
        self.order.move_to_end("1")
        self.file = pathlib.Path(str(self.seen["steps"]))
        scale = sum(map(sum, self.history.values())) + self.seen["steps"] + sum(self.last)
        scale += len(self.names) + int(next(iter(self.order))) + int(self.file.name)
        return loss * (1 + scale / 1000)


def test_containers_of_pythons_own_are_resumed(tmp_path):
    """Red before: no checkpoint was written of a module that kept one."""
    assert_resumed(tmp_path, [3, 6], kills=[4, 7], module=Gathers)


class Caches(Small):
    """Fills what it has not met before, by the shape of a batch; counts in an array."""

    def __init__(self, **options):
        super().__init__(**options)
        self.grid, self.like, self.phase = {}, None, Phase.A
        self.counts = np.zeros(4)

    def training_step(self, batch, batch_idx):
        self.like = (batch[0].shape, batch[0].dtype, batch[0].device)
        self.counts[batch_idx % 4] += 1
        if self.current_epoch:
            self.phase = Phase.B
        key = (self.phase, *self.like[0])
        if key not in self.grid:
            self.grid[key] = torch.full((1,), len(self.grid) + float(self.counts.sum()))
        return super().training_step(batch, batch_idx) * (1 + self.grid[key] / 100).squeeze()


def test_caches_and_arrays_are_resumed(tmp_path):
    """Red before: no checkpoint was written, "and no checkpoint holds it"."""
    assert_resumed(tmp_path, [3, 6], kills=[4, 7], module=Caches)


class Anneals(Small):
    """Lowers options as they are given: of the command line, and hyperparameters."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.save_hyperparameters()
        self.options = argparse.Namespace(scale=1.0, names=["a"])

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.hparams.scale * self.options.scale

    def on_train_batch_end(self, *_):
        self.hparams.scale *= 0.97
        self.options.scale *= 0.9


def test_options_are_resumed(tmp_path):
    """Red before: refused, though numbers in a dictionary are kept."""
    assert_resumed(tmp_path, [3, 6], kills=[4, 7], module=Anneals)


class SharesOptions(Anneals):
    """Has its options in a layer, too."""

    def __init__(self):
        super().__init__()
        self.hidden.options = self.options


def test_options_that_two_hold_are_refused(tmp_path):
    _, _, said = fit(tmp_path, Points, SharesOptions, minutes=0)
    assert "options changes, and is shared with another attribute" in said[0]


class HasTwoNames(Small):
    """Has one queue, and one set, by two names."""

    def __init__(self, **options):
        super().__init__(**options)
        self.last = collections.deque([0.0], maxlen=3)
        self.seen = {0}
        self.same = {"last": self.last}
        self.also = (self.seen,)

    def training_step(self, batch, batch_idx):
        self.last.append(self.last[-1] + 0.1)
        self.seen.add(len(self.seen))
        return super().training_step(batch, batch_idx) * (1 + self.same["last"][-1])


def test_what_has_two_names_is_refused(tmp_path):
    _, _, said = fit(tmp_path, Points, HasTwoNames, minutes=0)
    (found,) = said
    assert found.endswith(
        "HasTwoNames.last changes, and is shared with another attribute or tensor"
        " (HasTwoNames.same)"
    )


class KeepsAPool(Small):
    """Keeps images of the batches before, each a view of its batch."""

    def __init__(self, **options):
        super().__init__(**options)
        self.pool = []

    def training_step(self, batch, batch_idx):
        self.pool = [*self.pool, *batch[0]][-6:]
        return super().training_step(batch, batch_idx)


def test_views_of_one_batch_are_said_to_be_what_they_are(tmp_path):
    """Red before: "is shared with another attribute or tensor", of which nobody had one."""
    _, _, said = fit(tmp_path, Points, KeepsAPool, minutes=0)
    (found,) = said
    assert found.endswith(
        "KeepsAPool.pool changes, and holds one object twice, or two tensors that share their "
        "memory (views of one): keep copies, such as `tensor.clone()`"
    )


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(plain_data)
    assert found.attempted
    assert found.failed == 0

"""Streams that keep what they are told for their next iterator, and begin each one anew."""

import importlib
import inspect

import pytest
import pytorch_lightning as pl
import torch
from resumed import Killed, every, fit
from small import Points, Restless
from streams import Ending
from torch.utils.data import DataLoader, IterableDataset

from twinrun.errors import TwinrunError

ROWS = 40


class Streamed(IterableDataset):
    """As Hugging Face's: says where its last iterator is, and is told where the next one begins."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.epoch = inputs, targets, 0
        self.told, self.said = None, {"row": 0, "before": None, "epoch": 0}

    def __iter__(self):
        self.said = {"row": 0, "before": None, "epoch": self.epoch}
        if self.told is not None and self.told["epoch"] == self.epoch:
            self.said = dict(self.told)
        drawn = torch.Generator().manual_seed(self.epoch)
        for index in torch.randperm(ROWS, generator=drawn)[self.said["row"] :].tolist():
            self.said["before"] = {"row": self.said["row"]}
            self.said["row"] += 1
            yield self.inputs[index], self.targets[index]

    def set_epoch(self, epoch):
        self.epoch = epoch

    def state_dict(self):
        return dict(self.said)

    def load_state_dict(self, state):
        self.told = state


class Resuming(IterableDataset):
    """Uses up where it was told to begin."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.start, self.place = inputs, targets, 0, 0

    def __iter__(self):
        start, self.start = self.start, 0
        for self.place in range(start + 1, ROWS + 1):
            yield self.inputs[self.place - 1], self.targets[self.place - 1]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.start = state["place"]


class SetsBoth(Resuming):
    def load_state_dict(self, state):
        self.start = self.place = state["place"]


class SetsInADictionary(Resuming):
    def load_state_dict(self, state):
        self.__dict__.update(start=state["place"])


class SetsByName(Resuming):
    def load_state_dict(self, state):
        setattr(self, "st" + "art", state["place"])


class Puts(IterableDataset):
    """Puts into a list where it is to begin."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.told, self.place = inputs, targets, [], 0

    def __iter__(self):
        start = self.told.pop() if self.told else 0
        for self.place in range(start + 1, ROWS + 1):
            yield self.inputs[self.place - 1], self.targets[self.place - 1]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.told.append(state["place"])


class Flagged(Resuming):
    """Counts its turns, but for the one that it was told of."""

    def __init__(self, inputs, targets):
        super().__init__(inputs, targets)
        self.is_told = False

    def __iter__(self):
        self.place = self.place if self.is_told else 0
        self.is_told = False
        while self.place < ROWS:
            self.place += 1
            yield self.inputs[self.place - 1], self.targets[self.place - 1]

    def load_state_dict(self, state):
        self.place, self.is_told = state["place"], True


class Wrapping(IterableDataset):
    """Says what the stream in it says, which is an installed one."""

    def __init__(self, inputs, targets):
        self.inner = importlib.import_module("streams_installed").Streamed(inputs, targets)

    def __iter__(self):
        for inputs, targets in self.inner:
            yield 2 * inputs, targets

    def state_dict(self):
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state):
        self.inner.load_state_dict(state["inner"])


class GoesOn(Streamed):
    """Goes on in each epoch where the last one ended, and keeps what it is told until then."""

    def __iter__(self):
        self.said, self.told = dict(self.told or self.said), None
        for _ in range(ROWS - 8):
            self.said["row"] += 1
            index = self.said["row"] % ROWS
            yield self.inputs[index], self.targets[index]


def trained_on(kind):
    class Trained(Points):
        def train_dataloader(self):
            return DataLoader(kind(self.inputs[:ROWS], self.targets[:ROWS]), 8)

    return Trained


def validated_by(kind):
    class Validated(Points):
        def val_dataloader(self):
            return DataLoader(kind(self.inputs[:ROWS], self.targets[:ROWS]), 8)

    return Validated


class Moved(Restless):
    """Trains by what its validations come to."""

    @torch.no_grad()
    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.output.bias += 1e-2 * self.trainer.callback_metrics["val_loss"]


class KilledAtStart(pl.Callback):
    """Kills where an epoch starts, before its first mini-batch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch == self.epoch:
            raise Killed


class SetsTurn(pl.Callback):
    """Tells the stream one of two numbers in turn."""

    def on_train_epoch_start(self, trainer, module):
        trainer.train_dataloader.dataset.set_epoch(trainer.current_epoch % 2)


def assert_same(folder, at, kill, *, mid_epoch, callbacks=list, **told):
    told["max_epochs"] = 4
    whole, _, _ = fit(folder / "whole", callbacks=callbacks(), **told)
    told |= {"in_epoch": every(1)} if mid_epoch else {"minutes": 0}
    fit(folder / "killed", kill=kill, callbacks=callbacks(), **told)
    found, resumed_at, said = fit(folder / "killed", callbacks=callbacks(), **told)
    assert (resumed_at, said, found == whole) == ([at], [], True)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("mid_epoch", "at"), [(False, 10), (True, 11)])
@pytest.mark.parametrize("kind", [Streamed, Resuming, SetsBoth])
def test_a_stream_of_training_begins_anew_in_a_resumed_training(tmp_path, kind, mid_epoch, at):
    """Red before: it gave nothing, as it had been told that it was at its end."""
    assert_same(tmp_path, at, 12, mid_epoch=mid_epoch, data=trained_on(kind))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("mid_epoch", "at"), [(False, 10), (True, 11)])
def test_a_stream_of_ones_own_that_reads_an_installed_one_does(
    tmp_path, monkeypatch, mid_epoch, at
):
    """Red before: it gave nothing."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    used = "import torch\nfrom torch.utils.data import IterableDataset\n\nROWS = 40\n\n"
    (folder / "streams_installed.py").write_text(used + inspect.getsource(Streamed))
    monkeypatch.syspath_prepend(str(folder))
    assert_same(tmp_path, at, 12, mid_epoch=mid_epoch, data=trained_on(Wrapping))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize(("mid_epoch", "at"), [(False, 15), (True, 16)])
@pytest.mark.parametrize("kind", [Streamed, SetsBoth])
def test_a_stream_of_validation_begins_anew(tmp_path, kind, mid_epoch, at, sanity):
    """Red before: each validation behind the resume was empty, in silence."""
    told = {"data": validated_by(kind), "module": Moved, "num_sanity_val_steps": sanity}
    assert_same(tmp_path, at, 17, mid_epoch=mid_epoch, **told)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mid_epoch", [False, True])
def test_a_stream_that_goes_on_does_so(tmp_path, mid_epoch):
    assert_same(tmp_path, 11 if mid_epoch else 8, 12, mid_epoch=mid_epoch, data=trained_on(GoesOn))


def test_a_stream_forgets_what_it_was_told_once_it_has_begun(tmp_path):
    """Red before: in the second epoch behind the resume nothing came, as its number came again."""
    told = {"data": trained_on(Streamed), "callbacks": lambda: [SetsTurn()]}
    assert_same(tmp_path, 10, 12, mid_epoch=False, **told)


def killed_at_start(folder, epoch):
    told = {"data": trained_on(Streamed), "minutes": 0, "max_epochs": 4}
    whole, _, _ = fit(folder / "whole", **told)
    fit(folder / "killed", callbacks=[KilledAtStart(epoch)], **told)
    return whole, lambda: fit(folder / "killed", **told)


def test_nobody_guesses_how_a_stream_begins_whose_process_was_killed_before_that(tmp_path):
    """Red before: the epoch was empty, in silence."""
    _, resumed = killed_at_start(tmp_path, epoch=1)
    with pytest.raises(TwinrunError, match=r"killed before the first mini-batch.*Streamed begins"):
        resumed()


def test_what_was_seen_in_an_earlier_epoch_is_known_in_a_later_one(tmp_path):
    whole, resumed = killed_at_start(tmp_path, epoch=2)
    found, at, said = resumed()
    assert (at, said, found == whole) == ([10], [], True)


def test_a_validation_waits_until_it_is_known_how_its_stream_begins(tmp_path):
    told = {"data": validated_by(Streamed), "minutes": 0, "kill": 8}
    fit(tmp_path, **told)
    assert "Streamed keeps what it is told" in (tmp_path / "refused.txt").read_text()
    assert not list(tmp_path.glob("*.ckpt"))


UNREAD = [
    SetsInADictionary,
    pytest.param(SetsByName, marks=pytest.mark.exhaustive),
    pytest.param(Puts, marks=pytest.mark.one_in(2)),
]


@pytest.mark.parametrize("kind", UNREAD)
def test_a_validation_waits_for_a_stream_whose_code_says_not_what_it_keeps(tmp_path, kind):
    """Red before: the first validation behind the resume was of other rows, in silence."""
    told = {"data": validated_by(kind), "in_epoch": every(1), "num_sanity_val_steps": 2}
    fit(tmp_path, kill=4, **told)
    assert f"{kind.__name__} keeps what it is told" in (tmp_path / "refused.txt").read_text()
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", UNREAD)
def test_a_stream_whose_code_says_not_what_it_keeps_begins_anew(tmp_path, kind):
    told = {"data": validated_by(kind), "module": Moved, "num_sanity_val_steps": 2}
    assert_same(tmp_path, 16, 17, mid_epoch=True, **told)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", UNREAD)
def test_it_does_so_as_data_of_training(tmp_path, kind):
    """Red before: the attempt ended."""
    assert_same(tmp_path, 10, 12, mid_epoch=False, data=trained_on(kind))


def test_a_stream_is_not_told_what_it_says_already(tmp_path):
    """Red before: `is_told` was another one than before the stop, and the attempt ended."""
    told = {"data": validated_by(Flagged), "module": Moved, "num_sanity_val_steps": 0}
    assert_same(tmp_path, 3, 4, mid_epoch=True, **told)


def test_a_validation_that_is_empty_behind_the_stop_ends_the_attempt(tmp_path):
    """Red before: the training went on without it."""
    told = {"data": validated_by(Ending), "minutes": 0, "max_epochs": 4}
    fit(tmp_path, kill=12, **told)
    with pytest.raises(TwinrunError, match="no mini-batch of validation data came after the stop"):
        fit(tmp_path, **told)

"""An epoch that lasts longer than was foreseen has a checkpoint all the same, when one is due."""

from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
from in_a_team import NoisyPoints
from resumed import fit
from small import Points, Restless, Small
from streams import Telling
from torch.utils.data import TensorDataset

from twinrun.checkpoint import replayed_data, resumable, running_epoch
from twinrun.checkpoint.together import Alone

BATCHES = 40
FAST = 8


class Clock(pl.Callback):
    """Has each batch take its seconds; what a process begins with is 0."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds = 0.0, seconds
        for module in (resumable, running_epoch):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.now += self.seconds(trainer.current_epoch, batch_idx)

    def state_dict(self):
        return {}


def short_ones_first(epoch, index):
    """As of batches that are sorted by length."""
    return 0.1 if index < FAST else 5


def second_epoch(epoch, index):
    """As where a module trains more of itself from the second epoch on."""
    return 5 if epoch else 0.01


def last_ones(epoch, index):
    return 0.1 if index < BATCHES - 4 else 40


def many_points(size):
    return Points(size=BATCHES * 16)


LATE = [
    (short_ones_first, "epoch0-batch20.ckpt"),
    (second_epoch, "epoch1-batch12.ckpt"),
    (last_ones, "epoch0-batch39.ckpt"),
]


def trained(folder, monkeypatch, seconds, *, module=Small, data=many_points, **options):
    clock = Clock(monkeypatch, seconds)
    told = {"minutes": 1, "max_epochs": 1 + (seconds is second_epoch), "callbacks": [clock]}
    return fit(folder, data, module, **{**told, **options})


def files_written(monkeypatch):
    """Note the name of each checkpoint that is written."""
    written = []
    own = resumable.Folder.write
    monkeypatch.setattr(
        resumable.Folder, "write", lambda *given: written.append(given[1]) or own(*given)
    )
    return written


@pytest.mark.parametrize(("seconds", "name"), LATE)
def test_a_checkpoint_is_written_when_it_is_due(tmp_path, monkeypatch, seconds, name):
    """Red before: an epoch was left for good where it seemed short."""
    written = files_written(monkeypatch)
    _, _, said = trained(tmp_path, monkeypatch, seconds)
    assert said == []
    assert written[:1] == [name]


class TellingPoints(Points):
    def train_dataloader(self):
        return Telling(TensorDataset(self.inputs, self.targets), 16)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("seconds", "name"), LATE)
@pytest.mark.parametrize("data", [Points, TellingPoints])
def test_it_is_resumed_in_the_same_bits(tmp_path, monkeypatch, seconds, name, data):
    told = {"module": Restless, "data": lambda size: data(size=BATCHES * 16)}
    whole, _, _ = trained(tmp_path / "whole", monkeypatch, seconds, **told)
    kill = BATCHES * (seconds is second_epoch) + 36 + 4 * (seconds is last_ones)
    trained(tmp_path / "killed", monkeypatch, seconds, kill=kill, **told)
    found, resumed_at, said = trained(tmp_path / "killed", monkeypatch, seconds, **told)
    assert said == []
    assert len(resumed_at) == 1
    assert resumed_at[0] > FAST
    assert found == whole


def few_long_ones(epoch, index):
    return 70 if epoch and index > 10 else 0.01


def test_samples_that_steps_draw_beside_are_refused_there_too(tmp_path, monkeypatch):
    """Where one is due already when the batches are looked at, it waits until that is known."""
    clock = Clock(monkeypatch, few_long_ones)
    told = {"minutes": 1, "max_epochs": 2, "callbacks": [clock]}
    _, _, said = fit(tmp_path, lambda size: NoisyPoints(size=BATCHES * 16), Restless, **told)
    assert len(said) == 1
    assert "samples are drawn in this process" in said[0]
    assert not list(tmp_path.glob("*.ckpt"))


class Other(Points):
    """Its rows are others in the second process."""

    processes = 0

    def setup(self, stage):
        type(self).processes += 1
        self.inputs = self.inputs + type(self).processes


def test_other_data_are_noticed(tmp_path, monkeypatch):
    told = {"data": lambda size: Other(size=BATCHES * 16)}
    trained(tmp_path, monkeypatch, short_ones_first, kill=36, **told)
    with pytest.raises(resumable.TwinrunError, match="is another one in the loaders"):
        trained(tmp_path, monkeypatch, short_ones_first, **told)


def even_ones(epoch, index):
    return 0.1


def tiny_epochs(epoch, index):
    return 0.001


@pytest.mark.parametrize(
    ("seconds", "looked"),
    [
        (even_ones, [FAST, 0, 0]),
        # Each is too short for what it would keep from its start.
        (tiny_epochs, [FAST, 0, 0]),
    ],
)
def test_an_epoch_that_is_short_is_not_looked_at(tmp_path, monkeypatch, seconds, looked):
    seen = []

    def count(self, found):
        seen[-1] += 1
        return own(self, found)

    class Counts(pl.Callback):
        def state_dict(self):
            return {}

        def on_train_epoch_start(self, *_):
            seen.append(0)

    clock = Clock(monkeypatch, seconds)
    own = replayed_data.Batches._note
    monkeypatch.setattr(replayed_data.Batches, "_note", count)
    trained(tmp_path, monkeypatch, seconds, max_epochs=3, callbacks=[clock, Counts()])
    assert seen == looked


class First(Alone):
    """The first of two workers: what it says is noted."""

    count = 2

    def __init__(self):
        self.said = []

    def firsts_number(self, value):
        self.said.append(float(value))
        return value


class Second(First):
    """The second one: it is told what the first one said."""

    rank = 0  # its files are as the first one's

    def __init__(self, told):
        self.told = told

    def firsts_number(self, value):
        return self.told.pop(0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seconds", [short_ones_first, second_epoch])
def test_workers_decide_alike_by_the_first_ones_clock(tmp_path, monkeypatch, seconds):
    first = First()
    written = files_written(monkeypatch)
    trained(tmp_path / "first", monkeypatch, seconds, together=first)
    files, second = written.copy(), Second([*first.said])
    written.clear()
    told = {"callbacks": [Clock(monkeypatch, lambda *_: 0.0)], "together": second}
    epochs = 1 + (seconds is second_epoch)
    trained(tmp_path / "second", monkeypatch, seconds, max_epochs=epochs, **told)
    assert written == files
    assert files
    assert second.told == []


def test_workers_exchange_little_in_an_epoch_that_is_short(tmp_path, monkeypatch):
    first = First()
    trained(tmp_path, monkeypatch, even_ones, together=first, max_epochs=3)
    # Two where each epoch starts, one for each batch until the first one's length is known.
    assert len(first.said) <= 3 * 2 + FAST + 3 * BATCHES // running_epoch.EVERY

"""A training that was killed in mid-epoch goes on there, in the same bits, or says why not."""

import functools
import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import FILES, HERE, VARIANT, WORKLOAD, arguments
from resumed import STEPS, assert_resumed, every, fit
from small import Points, Restless, Small
from streams import ContinuingStreams, Cycle, DrawingStreams, Reads, StatefulLoaders, Telling
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset
from torchmetrics import MeanMetric

from twinrun import artifacts
from twinrun.checkpoint import data_in_place, interrupt, resumable, running_epoch
from twinrun.checkpoint.resumable import Resumable
from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch

EXHAUSTIVE = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("kills", "at"),
    [((3,), [2]), ((7,), [6]), pytest.param((3, 4, 9), [2, 3, 8], marks=EXHAUSTIVE)],
)
def test_a_training_killed_in_mid_epoch_ends_in_the_same_bits(tmp_path, kills, at):
    """Its order is drawn from the global RNG state; its module draws wherever one can."""
    assert_resumed(tmp_path, at, kills=kills)


class OwnGenerators(Points):
    """Loader and sampler have a generator, and no two rows of a batch come from one draw."""

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(3)
        sampler = RandomSampler(self.inputs, replacement=True, generator=generator)
        return self._loader(sampler=sampler, generator=torch.Generator().manual_seed(4))


class Workers(Points):
    kept = False

    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(
            Noisy(data), 16, shuffle=True, num_workers=2, persistent_workers=self.kept
        )


class KeptWorkers(Workers):
    kept = True


class Noisy(Dataset):
    """Draws for each sample."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        inputs, targets = self.data[index]
        return inputs + 0.1 * torch.randn_like(inputs), targets


class NoisyPoints(Points):
    def train_dataloader(self):
        return DataLoader(Noisy(TensorDataset(self.inputs, self.targets)), 16, shuffle=True)


class OnMove(Points):
    """Draws where a batch is moved."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] + torch.randn_like(batch[0]), batch[1]] if self.trainer.training else batch


class TellingLoaders(Points):
    workers = 0

    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return Telling(data, 16, num_workers=self.workers)


class Logs(Restless):
    """Logs in each way, and at some steps alone; a schedule moves with each step."""

    def __init__(self):
        super().__init__()
        self.mean = MeanMetric()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.mean.update(loss.detach())
        self.log("mean", self.mean, on_step=True, on_epoch=True)
        self.log("both", loss, on_step=True, on_epoch=True, prog_bar=True)
        for name in ("min", "max", "sum"):
            self.log(name, loss, on_step=False, on_epoch=True, reduce_fx=name)
        if batch_idx < 2:
            self.log("early", loss, on_step=False, on_epoch=True)
        if self.current_epoch == 0:
            self.log("first", loss, on_step=False, on_epoch=True)
        shown = self.trainer.callback_metrics.get("both", 0.0)
        return loss * (1 + 0.01 * float(shown))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def configure_callbacks(self):
        return [Counts()]


class Counts(pl.Callback):
    """Lowers the rate with each batch, by a count that it saves."""

    count = 0

    def on_train_epoch_start(self, *_):
        self.count += 100

    def on_train_batch_end(self, trainer, *_):
        self.count += 1
        trainer.optimizers[0].param_groups[0]["weight_decay"] = 1e-4 * self.count

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]


class Manual(Small):
    """Adds gradients up over two batches by itself."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        if batch_idx % 2:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return loss.detach()


class Remembers(Small):
    """Reads what it kept of the batch before, in plain attributes."""

    kept = 0.0

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * (1 + 0.1 * self.kept)
        self.kept = loss.item()
        return loss


MID = [
    ({"data": OwnGenerators}, 8, 7),
    ({"data": Workers}, 8, 7),
    ({"data": KeptWorkers}, 4, 3),
    ({"data": NoisyPoints, "module": Small}, 8, 7),
    pytest.param({"data": OnMove}, 8, 7, marks=EXHAUSTIVE),
    ({"data": ContinuingStreams}, 8, 7),
    ({"data": TellingLoaders}, 8, 7),
    pytest.param({"data": DrawingStreams}, 8, 7, marks=EXHAUSTIVE),
    pytest.param({"data": Cycle, "module": Reads}, 4, 3, marks=EXHAUSTIVE),
    ({"module": Logs}, 8, 7),
    ({"module": Manual}, 7, 6),
    ({"module": Remembers}, 8, 7),
    ({"accumulate_grad_batches": 2}, 9, 7),
    ({"val_check_interval": 2}, 9, 8),
    pytest.param({"max_steps": 9, "max_epochs": -1}, 8, 7, marks=EXHAUSTIVE),
    ({"reload_dataloaders_every_n_epochs": 1}, 8, 7),
    pytest.param({"limit_train_batches": 4}, 7, 6, marks=EXHAUSTIVE),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("told", "kill", "at"), MID, ids=lambda value: str(value)[:60])
def test_it_does_so_whatever_is_trained(tmp_path, told, kill, at):
    assert_resumed(tmp_path, [at], kills=[kill], **told)


def test_a_loader_that_is_told_where_it_was_reads_nothing_twice(tmp_path, monkeypatch):
    fit(tmp_path, TellingLoaders, kill=8, in_epoch=every(1))
    monkeypatch.setattr(Telling, "reads", 0)
    assert fit(tmp_path, TellingLoaders)[1] == [7]
    assert Telling.reads == 2 * STEPS - 7


class DrawingPoints(NoisyPoints):
    """Restless draws between the samples too."""


class StreamsWithoutLength(StatefulLoaders):
    """Its loader has a state of its own."""


class TellingWorkers(TellingLoaders):
    workers = 2


class Toggles(Manual):
    def training_step(self, batch, batch_idx):
        self.toggle_optimizer(self.optimizers())
        return super().training_step(batch, batch_idx)


class HoldsAGraph(Small):
    def training_step(self, batch, batch_idx):
        self.last = super().training_step(batch, batch_idx)
        return self.last


class FetchesItself(Small):
    def training_step(self, dataloader_iter):
        (inputs, targets), _, _ = next(dataloader_iter)
        return (self(inputs) - targets).square().mean()


RANDOM = np.random.default_rng(3)
COUNTS = {"seen": 0}


def of_closure(kind):
    """Make a function with a generator in its closure."""
    random = kind()

    def collate(rows):
        return noisy(rows, random)

    return collate


def noisy(rows, random):
    inputs, targets = torch.utils.data.default_collate(rows)
    draw = random.standard_normal() if hasattr(random, "standard_normal") else random.random()
    # As an augmentation that is seldom: the first batch behind a checkpoint may not show it.
    return inputs + (draw > 1.5), targets


def of_global(rows):
    return noisy(rows, RANDOM)


def of_default(rows, random=np.random.default_rng(3)):  # noqa: B008
    return noisy(rows, random)


class Collates:
    def __init__(self):
        self.inner = SimpleNamespace(random=np.random.default_rng(3))

    def __call__(self, rows):
        return noisy(rows, self.inner.random)


class Transformed(Dataset):
    """Its transform is a function of another one."""

    def __init__(self, data, transform):
        self.data, self.transform = data, transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.transform(self.data[index])


def counts(rows):
    COUNTS["seen"] += 1
    return torch.utils.data.default_collate(rows)


class CountsBatches:
    seen = 0

    def __call__(self, rows):
        self.seen += 1
        return torch.utils.data.default_collate(rows)


class CachesInRows(Dataset):
    """Writes to its rows while they are read."""

    def __init__(self, inputs, targets):
        self.rows, self.targets = inputs.clone(), targets.numpy().copy()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        self.rows[index] *= 1.01
        return self.rows[index].clone(), torch.from_numpy(self.targets[index])


def with_loader(**options):
    """Make a data module whose loader is given options, by functions of its points."""

    class Given(Points):
        def train_dataloader(self):
            data = TensorDataset(self.inputs, self.targets)
            given = {name: make(data) for name, make in options.items()}
            return DataLoader(given.pop("dataset", data), 16, shuffle=True, **given)

    return Given


def collate_by(make):
    return with_loader(collate_fn=lambda _: make())


RNG = "is a random number generator"
REFUSED = {
    "closure": (collate_by(lambda: of_closure(lambda: np.random.default_rng(3))), RNG),
    "torch": (collate_by(lambda: of_closure(lambda: Drawn(3))), RNG),
    "global": (collate_by(lambda: of_global), f"test_mid_epoch.RANDOM {RNG}"),
    "default": (collate_by(lambda: of_default), f"a default of of_default[0] {RNG}"),
    "partial": (
        collate_by(lambda: functools.partial(noisy, random=np.random.default_rng(3))),
        RNG,
    ),
    "attribute": (collate_by(Collates), RNG),
    "transform": (
        with_loader(dataset=lambda data: Transformed(data, of_closure_of_rows())),
        f"random of of_closure_of_rows.<locals>.move {RNG}",
    ),
    "worker_init_fn": (with_loader(worker_init_fn=lambda _: Collates()), RNG),
    "iterator": (
        with_loader(dataset=lambda data: Transformed(data, of_cycle())),
        "is an iterator (cycle), whose position nobody can save",
    ),
    "number": (collate_by(CountsBatches), "CountsBatches.seen changes while the training runs"),
    "global number": (collate_by(lambda: counts), "COUNTS['seen'] changes while the training runs"),
    "rows": (
        with_loader(dataset=lambda data: CachesInRows(*data.tensors)),
        "CachesInRows.rows changes while the training runs, and no checkpoint holds it",
    ),
}


class Drawn:
    """Draws by a generator of torch's."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def random(self):
        return torch.rand((), generator=self.generator).item()


def of_closure_of_rows():
    random = np.random.default_rng(3)

    def move(row):
        return row[0] + (random.standard_normal() > 1.5), row[1]

    return move


def of_cycle():
    scales = itertools.cycle([1.0, 2.0])
    return lambda row: (row[0] * next(scales), row[1])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "is_in_epoch"),
    [
        *(
            pytest.param(name, True, marks=[EXHAUSTIVE] * (name in ("torch", "default")))
            for name in REFUSED
        ),
        ("closure", False),
        ("rows", False),
        *(
            pytest.param(name, False, marks=EXHAUSTIVE)
            for name in REFUSED
            if name not in ("closure", "rows")
        ),
    ],
)
def test_what_makes_batches_and_remembers_is_refused_by_name(tmp_path, name, is_in_epoch):
    """Red before: a resumed training drew the first numbers again, and nobody noticed."""
    data, words = REFUSED[name]
    if is_in_epoch:
        _, _, said = fit(tmp_path, data, Small, in_epoch=every(2), max_epochs=1)
    else:
        _, _, said = fit(tmp_path, data, Small, minutes=0, max_epochs=2)
    where = " in mid-epoch" * is_in_epoch
    assert [text.partition(": ")[0] for text in said] == [f"no checkpoints are written{where}"]
    assert words in said[0]
    assert not list(tmp_path.glob("*.ckpt"))
    other = Resumable(tmp_path)
    assert other.last() is None
    assert words in other.refused


@pytest.mark.parametrize(
    ("data", "module", "words"),
    [
        (DrawingPoints, Restless, "samples are drawn in this process"),
        (StreamsWithoutLength, Small, "Replaying has a state of its own, and no length"),
        (TellingWorkers, Small, "Telling has a state of its own, and data workers"),
        (Points, Toggles, "Toggles leaves an optimizer toggled between two batches"),
        (Points, HoldsAGraph, "HoldsAGraph.last holds the graph of an earlier step"),
        (Points, FetchesItself, "FetchesItself.training_step fetches batches by itself"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stands_against_mid_epoch_alone_leaves_the_starts_of_epochs(
    tmp_path, data, module, words
):
    told = {"data": data, "module": module}
    _, _, said = fit(tmp_path, in_epoch=every(2), minutes=0, max_epochs=3, **told)
    assert len(said) == 1
    assert said[0].startswith(f"no checkpoints are written in mid-epoch: {words}")
    assert [file.name for file in tmp_path.glob("*.ckpt")] == ["epoch2.ckpt"]


class ReadsAFile(TensorDataset):
    def __getitem__(self, row):
        inputs, targets = super().__getitem__(row)
        return inputs + float(Path("shift").read_text()), targets


class OtherData(Points):
    """Its rows follow from a file."""

    def train_dataloader(self):
        return DataLoader(ReadsAFile(self.inputs, self.targets), 16, shuffle=True)


def test_data_that_are_others_cost_one_attempt(tmp_path, monkeypatch):
    """Wherever the difference comes from: all that was read is compared, and not the next alone."""
    monkeypatch.chdir(tmp_path)
    Path("shift").write_text("0")
    fit(tmp_path, OtherData, Small, kill=3, in_epoch=every(2))
    Path("shift").write_text("1")
    how = "the data does not go on where it was: the batches before the stop were other ones"
    with pytest.raises(TwinrunError, match=how):
        fit(tmp_path, OtherData, Small)
    other = Resumable(tmp_path)
    assert other.last() is None
    assert how in other.refused
    (rows, *_), resumed_at, _ = fit(tmp_path, OtherData, Small)
    assert (rows[0]["step"], resumed_at) == (1, [])


def test_random_numbers_that_are_others_cost_one_attempt(tmp_path):
    """The entry has a look at the RNG states with the first batch, at both kinds of checkpoint."""
    for name, kill, told in (("mid", 8, {"in_epoch": every(2)}), ("start", 8, {"minutes": 0})):
        folder = tmp_path / name
        fit(folder, kill=kill, **told)
        entry = artifacts.read_json(folder / "checkpoint.json")
        batch, states, told = entry["batch"].split(" ", 2)
        others = entry | {"batch": f"{batch} {states[::-1]} {told}"}
        artifacts.write_json(folder / "checkpoint.json", others)
        with pytest.raises(TwinrunError, match="other random numbers had been drawn"):
            fit(folder)
        assert fit(folder)[1] == []


class Forgetting(Telling):
    """Says where it is, and does not go there."""

    def load_state_dict(self, state):
        pass


class ForgettingLoaders(Points):
    def train_dataloader(self):
        return Forgetting(TensorDataset(self.inputs, self.targets), 16)


@pytest.mark.parametrize("in_epoch", [None, every(1)])
def test_the_first_batch_behind_a_stop_is_compared_also_where_a_checkpoint_is_due(
    tmp_path, in_epoch
):
    """Red before: one was written at once, and that of which the batch was expected forgotten."""
    fit(tmp_path, ForgettingLoaders, Small, kill=3, in_epoch=every(2))
    with pytest.raises(TwinrunError, match="the first batch after the stop is another one"):
        fit(tmp_path, ForgettingLoaders, Small, in_epoch=in_epoch)
    assert fit(tmp_path, ForgettingLoaders, Small)[1] == []


class Clock(pl.Callback):
    """Has each batch take so many seconds, and an epoch's end none."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds = 0.0, seconds
        for module in (resumable, running_epoch):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def on_train_batch_end(self, *_):
        self.now += self.seconds

    def state_dict(self):
        return {}


@pytest.mark.parametrize(
    ("minutes", "seconds", "files"),
    [
        # 5 batches an epoch, of 2 epochs.
        (1, 20, ["epoch1-batch4.ckpt"]),  # due behind 3, 6 and 9
        (1, 35, ["epoch1-batch3.ckpt"]),  # behind 2, 4, 6 and 8
        (1, 12, ["epoch1.ckpt"]),  # where the epoch starts
        (1, 10, ["epoch1-batch1.ckpt"]),
        (10, 20, []),
        (0, 1000, ["epoch1.ckpt"]),  # at starts alone
    ],
)
def test_a_checkpoint_is_written_when_it_is_due(tmp_path, monkeypatch, minutes, seconds, files):
    fit(tmp_path, Points, Small, minutes=minutes, callbacks=[Clock(monkeypatch, seconds)])
    assert [file.name for file in tmp_path.glob("*.ckpt")] == files


@pytest.mark.parametrize(
    ("minutes", "seconds", "looked"),
    [
        # Of 3 epochs of 9 batches: the first is looked at until its length is known.
        (10, 1, [8, 0, 0]),
        (1, 2, [8, 0, 9]),
        (1, 3, [9, 9, 9]),
    ],
)
def test_data_are_looked_at_where_a_checkpoint_may_be_due(
    tmp_path, monkeypatch, minutes, seconds, looked
):
    seen = []
    clock = Clock(monkeypatch, seconds)

    class Counts(pl.Callback):
        def state_dict(self):
            return {}

        def on_train_epoch_start(self, *_):
            seen.append(0)

    def count(self, found):
        seen[-1] += 1
        return own(self, found)

    own = running_epoch.Batches._note
    monkeypatch.setattr(running_epoch.Batches, "_note", count)
    fit(
        tmp_path,
        lambda size: Points(size=9 * 16),
        Small,
        minutes=minutes,
        callbacks=[clock, Counts()],
        max_epochs=3,
    )
    assert seen == looked


def start(folder, death):
    workload = {
        **WORKLOAD,
        "module": "small:Restless",
        "hyperparameters": {"size": 70, "death": str(death)},
        "epochs": 1,
    }
    launch(
        "killed_in_epoch:train",
        arguments(folder, workload, VARIANT, minutes=1),
        environment_of(seed=1, deterministic=True, threads=1)
        | {"PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])},
    )


@pytest.mark.exhaustive  # three processes
def test_a_run_of_one_epoch_killed_with_signal_9_ends_in_the_same_files(tmp_path):
    death, folders = tmp_path / "death", [tmp_path / "whole", tmp_path / "killed"]
    start(folders[0], death)
    death.write_text("4")
    with pytest.raises(TwinrunError, match="SIGKILL"):
        start(folders[1], death)
    start(folders[1], death)
    for name in ("weights", "steps", "epochs", "fingerprints", "predictions"):
        left, right = ((folder / FILES[name]).read_bytes() for folder in folders)
        assert left == right, name
    manifest = artifacts.read_json(folders[1] / "run.json")
    assert manifest["resumed_at"] == [4]
    assert manifest["ended"] == "finished"
    assert len(manifest["seconds"]["epochs"]) == 1


@pytest.mark.parametrize(
    ("stop", "parts", "at"),
    [
        ("mid_epoch", 1, 3),
        ("mid_epoch", 2, 2),
        ("mid_accumulation", 2, 4),
        ("last_batch", 1, 7),
        ("last_batch", 3, 6),
        ("epoch_end", 2, 4),
        ("after_validation", 1, 4),
    ],
)
def test_before_a_stop_lies_one_checkpoint(stop, parts, at):
    """Of 8 micro-batches: behind which is decided by their numbers, and by no clock."""
    is_there = interrupt.checkpoint_before(stop)
    for epoch in (0, 1, 2):
        trainer = SimpleNamespace(
            accumulate_grad_batches=parts, num_training_batches=8, current_epoch=epoch
        )
        expected = [at] if epoch == 1 else []
        assert [done for done in range(1, 8) if is_there(trainer, done)] == expected


@pytest.mark.parametrize("kind", [torch.from_numpy, np.asarray], ids=["tensor", "array"])
def test_of_a_large_array_a_part_is_looked_at(monkeypatch, kind):
    monkeypatch.setattr(data_in_place, "MOST_BYTES", 64)
    values = np.zeros(1000, np.float32)
    before = data_in_place.content_of_array(kind(values))
    assert data_in_place.content_of_array(kind(values.copy())) == before
    values[:] = 1
    assert data_in_place.content_of_array(kind(values)) != before
    assert data_in_place.content_of_array(kind(values.reshape(20, 50)).T) is not None


@pytest.mark.parametrize("most", [64, 1 << 20])
def test_a_tensor_on_a_gpu_is_known_by_its_content(monkeypatch, most):
    """Red before: by its version, which that of another tensor in its place is, too."""
    monkeypatch.setattr(data_in_place, "MOST_BYTES", most)
    one, other = torch.zeros(1000), torch.full((1000,), 0.5)
    assert one._version == other._version
    found = [data_in_place._content_on_gpu(each, "0") for each in (one, one.clone(), other)]
    assert found[0] == found[1] != found[2]

"""Loaders that are made from what a training has learnt, drawn or been told, and made again."""

import functools

import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from twinrun.checkpoint import late_held
from twinrun.errors import TwinrunError


class Weighs(Small):
    """Weighs its samples where an epoch ends."""

    def __init__(self, **options):
        super().__init__(**options)
        self.weights, self.last = torch.ones(70), 0.0

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.last = float(loss)
        return loss

    def on_train_epoch_end(self):
        self.weights = self.weights + self.last * torch.arange(70)


class WeighsInSteps(Weighs):
    def on_train_batch_end(self, *_):
        self.on_train_epoch_end()


class Weighed(Points):
    def sampler(self):
        return WeightedRandomSampler(self.trainer.lightning_module.weights, 70)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=self.sampler())


class Hardest(Points):
    """Takes the samples that the network is worst at."""

    def train_dataloader(self):
        with torch.no_grad():
            found = self.trainer.lightning_module.forward(self.inputs)
        order = (found - self.targets).abs().flatten().argsort()
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), 16)


class HardestByCall(Hardest):
    """Asks the network as one does, which names nothing of it."""

    def train_dataloader(self):
        return self.sorted_by(self.trainer.lightning_module)

    def sorted_by(self, scores):
        with torch.no_grad():
            order = (scores(self.inputs) - self.targets).abs().flatten().argsort()
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), 16)


class Split(Points):
    """Draws which samples an epoch is of."""

    def train_dataloader(self):
        return DataLoader(random_split(TensorDataset(self.inputs, self.targets), [50, 20])[0], 16)


class Skips(Points):
    """Begins its data behind what has been trained, where it is told so."""

    consumed = 0

    def train_dataloader(self):
        rows = range(self.consumed % 70, 70)
        return DataLoader(Subset(TensorDataset(self.inputs, self.targets), list(rows)), 16)

    def state_dict(self):
        return {"consumed": 16 * self.trainer.global_step}

    def load_state_dict(self, state):
        self.consumed = state["consumed"]


class SkipsByName(Skips):
    def load_state_dict(self, state):
        for name, value in state.items():
            setattr(self, name, value)


class SkipsByDictionary(Skips):
    def load_state_dict(self, state):
        vars(self).update(state)


class SkipsByMethod(Skips):
    def load_state_dict(self, state):
        self.skip(state["consumed"])

    def skip(self, count):
        self.consumed = count


class SortedPoints(Points):
    """Takes as many of its samples as it says, beginning with the least."""

    def rows(self):
        return self.inputs.norm(dim=1).argsort()[: self.count()].tolist()

    def train_dataloader(self):
        return DataLoader(Subset(TensorDataset(self.inputs, self.targets), self.rows()), 16)


class ByMetric(SortedPoints):
    def count(self):
        loss = float(self.trainer.callback_metrics.get("train_loss", 1.0))
        return 40 + int(1000 * loss) % 30


class ByStep(SortedPoints):
    def count(self):
        return 40 + 2 * self.trainer.global_step


class ByEpoch(SortedPoints):
    def count(self):
        return 40 + self.trainer.current_epoch


class Counts(pl.Callback):
    """Says itself what is to be kept."""

    count = 0

    def on_train_batch_end(self, *_):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Counted(Small):
    def configure_callbacks(self):
        return [Counts()]


class ByCallback(SortedPoints):
    def count(self):
        found = [each for each in self.trainer.callbacks if isinstance(each, Counts)]
        return 40 + 2 * found[0].count


def seen_by(trainer):
    """Read what no name in the code that makes loaders tells."""
    return vars(trainer)["fit_loop"].epoch_loop._batches_that_stepped


class ByHelper(SortedPoints):
    def count(self):
        return 40 + 2 * seen_by(self.trainer)


def loader_of(data):
    """Make a loader of as many samples as the training has steps, of a data module."""
    rows = data.inputs.norm(dim=1).argsort()[: 40 + 2 * data.trainer.global_step]
    return DataLoader(Subset(TensorDataset(data.inputs, data.targets), rows.tolist()), 16)


class Maker:
    """Has the work of a data module's method."""

    def __init__(self, data):
        self.data = data

    def make(self):
        return loader_of(self.data)

    __call__ = make


class ByMaker(Points):
    def setup(self, stage):
        self.maker = Maker(self)

    def train_dataloader(self):
        return self.maker.make()


class ByCalling(ByMaker):
    def train_dataloader(self):
        return self.maker()


class ByPartial(Points):
    def setup(self, stage):
        self.train_dataloader = functools.partial(loader_of, self)


class ByCached(Points):
    @functools.cached_property
    def loader(self):
        return loader_of(self)

    def train_dataloader(self):
        return self.loader


class ByBuffer(SortedPoints):
    """Asks a buffer of the network, by no name of the Trainer's."""

    def setup(self, stage):
        self.networks = [self.trainer.lightning_module]

    def count(self):
        return 40 + 2 * int(self.networks[0].calls)


def consumed_of(data):
    return data.consumed


class SkipsByHelper(SortedPoints):
    """Is told where it is, which a function reads."""

    consumed = 0

    def count(self):
        return 65 + consumed_of(self) % 5

    def state_dict(self):
        return {"consumed": 2 * self.trainer.global_step}

    def load_state_dict(self, state):
        self.consumed = state["consumed"]


class Relabelled(TensorDataset):
    def __init__(self, inputs, targets, trainer):
        super().__init__(inputs, targets.clone())
        self.tensors[1][48:] += seen_by(trainer)


class ByDataset(Points):
    def train_dataloader(self):
        return DataLoader(Relabelled(self.inputs, self.targets, self.trainer), 16)


class BySampler(Points):
    def train_dataloader(self):
        rows = TensorDataset(self.inputs, self.targets)
        drawn = RandomSampler(rows, num_samples=40 + seen_by(self.trainer))
        return DataLoader(rows, 16, sampler=drawn)


class Reads(Dataset):
    """Keeps what it has read."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets
        self.known = [None] * len(inputs)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, row):
        self.known[row] = self.inputs[row], self.targets[row]
        return self.known[row]


class Kept(Points):
    """Makes its loader anew, of a dataset that it keeps."""

    def setup(self, stage):
        self.data = Reads(self.inputs, self.targets)

    def train_dataloader(self):
        return DataLoader(Subset(self.data, range(40 + 10 * self.trainer.current_epoch)), 16)


RELOAD = {"reload_dataloaders_every_n_epochs": 1}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("data", "module", "options"),
    [
        (Weighed, Weighs, RELOAD),
        (Hardest, Small, RELOAD),
        (HardestByCall, Small, RELOAD),
        (Split, Small, RELOAD),
        (ByMetric, Small, RELOAD),
        (ByStep, Small, RELOAD),
        (ByHelper, Small, RELOAD),
        (ByCallback, Counted, RELOAD),
        (Kept, Small, RELOAD),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_loaders_are_made_from_what_they_were_made_from(tmp_path, data, module, options):
    """Red before: a resumed training made them from what it begins with."""
    told = {"data": data, "module": module, "max_epochs": 3, **options}
    whole, _, _ = fit(tmp_path / "whole", **told)
    for kill in (7, 12):
        fit(tmp_path / "killed", kill=kill, minutes=0, **told)
    found, _, said = fit(tmp_path / "killed", minutes=0, **told)
    assert (found, said) == (whole, [])


@pytest.mark.parametrize(("data", "module"), [(Weighed, Weighs), (Split, Small)])
def test_they_are_so_in_mid_epoch(tmp_path, data, module):
    assert_resumed(tmp_path, [7], kills=[8], data=data, module=module, **RELOAD)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kill", "at"), [(4, 3), (8, 7)])
@pytest.mark.parametrize(
    "data", [Skips, SkipsByHelper, SkipsByName, SkipsByDictionary, SkipsByMethod]
)
def test_a_data_module_is_told_what_it_was_told(tmp_path, data, kill, at):
    """Red before: it began behind what had been trained, and that was replayed beside."""
    assert_resumed(tmp_path, [at], kills=[kill], data=data, module=Small)


@pytest.mark.parametrize(
    ("data", "module", "name"),
    [
        (Weighed, WeighsInSteps, "WeighsInSteps.weights"),
        (Hardest, Small, "Small.forward"),
        (HardestByCall, Small, "Small.forward"),
        (ByStep, Small, "global_step of the Trainer"),
        (ByMetric, Small, "callback_metrics of the Trainer"),
        (ByCallback, Counted, "callbacks of the Trainer"),
        (ByMaker, Small, "global_step of the Trainer"),
        (ByCalling, Small, "global_step of the Trainer"),
        (ByPartial, Small, "global_step of the Trainer"),
    ],
)
def test_what_changes_in_the_epoch_has_none_in_mid_epoch(tmp_path, data, module, name):
    """Red before: one was written, and the batches behind it were other ones."""
    told = {"data": data, "module": module, "in_epoch": every(2), **RELOAD}
    _, _, said = fit(tmp_path, **told)
    assert [text.partition(" changes")[0] for text in said] == [
        f"no checkpoints are written in mid-epoch: {name}"
    ]


@pytest.mark.parametrize(
    ("data", "kill", "name"),
    [
        (ByHelper, 5, "Subset.indices"),
        (ByDataset, 7, "Relabelled.tensors"),
        (BySampler, 5, "RandomSampler._num_samples"),
    ],
)
def test_loaders_that_are_made_otherwise_are_noticed(tmp_path, data, kill, name):
    """Red before: the training went on, and what came later in the epoch was other data."""
    told = {"data": data, "module": Small, "max_epochs": 3, **RELOAD}
    fit(tmp_path, kill=kill, in_epoch=every(1), **told)
    with pytest.raises(TwinrunError, match=f"{name}.* is another one in the loaders"):
        fit(tmp_path, in_epoch=every(1), **told)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("data", "kill", "options", "name"),
    [
        (ByHelper, 2, RELOAD, "Subset.indices"),
        (ByStep, 2, {}, "Subset.indices"),
        (ByEpoch, 5, {}, "Subset.indices"),
        (HardestByCall, 7, {}, "TensorDataset.tensors"),
        (ByMaker, 2, {}, "Subset.indices"),
        (ByPartial, 5, {}, "Subset.indices"),
        (ByCached, 2, {}, "Subset.indices"),
        (ByBuffer, 2, {}, "Subset.indices"),
    ],
)
def test_those_of_the_first_epoch_are_compared_too(tmp_path, data, kill, options, name):
    """Red before: a resumed training made them from what it had by then."""
    told = {"data": data, "module": Small, "max_epochs": 3, **options}
    fit(tmp_path, kill=kill, in_epoch=every(1), **told)
    with pytest.raises(TwinrunError, match=f"{name}.* is another one in the loaders"):
        fit(tmp_path, in_epoch=every(1), **told)


class KeptWhole(Kept):
    def train_dataloader(self):
        return DataLoader(self.data, 16)


def test_a_dataset_that_is_kept_may_have_caches(tmp_path):
    told = {"module": Small, "max_epochs": 4, **RELOAD}
    assert_resumed(tmp_path, [12], kills=[13], data=KeptWhole, **told)


class KeptByFour(Kept):
    """An epoch of it is longer than the three mini-batches that are looked at first."""

    def train_dataloader(self):
        return DataLoader(Subset(self.data, range(20 + 5 * self.trainer.current_epoch)), 4)


def test_a_checkpoint_waits_while_a_cache_of_a_kept_dataset_grows(tmp_path, monkeypatch):
    """Nobody could tell yet whether its new entries would be made anew as they were."""
    monkeypatch.setattr(late_held, "MOST_BYTES", 1)
    told = {"module": Small, "max_epochs": 3, **RELOAD}
    assert_resumed(tmp_path, [4], kills=[9], data=KeptByFour, **told)

"""What can be called and lies in an attribute of a data module: it may count, draw, be exchanged.

Red at 918010a8, but for what says otherwise: resumed to other weights, in silence.
"""

import functools
import random

import numpy as np
import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import Dataset
from torchmetrics import MeanMetric


def turned(inputs, generator):
    return -inputs if generator.random() < 0.12 else inputs


class Measures(MeanMetric):
    """Gives back what it has measured."""

    def forward(self, inputs):
        self.update(inputs)
        return inputs


class Turns:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, inputs):
        return turned(inputs, self.generator)


class TurningLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(7)

    forward = Turns.__call__


class Warms:
    """Counts its calls, and does nothing for some steps."""

    def __init__(self):
        self.calls = 0

    def __call__(self, inputs):
        self.calls += 1
        return inputs / 2 if self.calls > 16 else inputs


class Times:
    def __init__(self, by):
        self.by = by

    def __call__(self, inputs):
        return inputs * self.by


class Moves(Points):
    """Changes the mini-batches of training where they are on the device."""

    make = staticmethod(Warms)

    def __init__(self, size):
        super().__init__(size)
        self.move = self.make()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [self.move(batch[0]), batch[1]] if self.trainer.training else batch


def in_a_lambda():
    generator = np.random.default_rng(7)
    return lambda inputs: turned(inputs, generator)


CHANGING = {
    "calls": (Warms, "Warms.calls changes while"),
    "layer": (TurningLayer, "TurningLayer.generator is a random number generator"),
    "object": (lambda: Turns(random.Random(3)), "Turns.generator is a random number generator"),
    "bound": (lambda: Turns(np.random.default_rng(7)).__call__, "Turns.generator is a random"),
    "partial": (
        lambda: functools.partial(turned, generator=np.random.default_rng(7)),
        "Takes.move.keywords['generator'] is a random number generator",
    ),
    "lambda": (in_a_lambda, "generator of in_a_lambda.<locals>.<lambda> is a random number"),
    "mean": (lambda: torch.nn.BatchNorm1d(4, affine=False), "BatchNorm1d._buffers['running_mean']"),
    "metric": (Measures, "Measures.mean_value changes while"),
}


def assert_refused(folder, kind, make, says):
    class Takes(kind):
        pass

    Takes.make = staticmethod(make)
    _, _, said = fit(folder, data=Takes, module=Small, in_epoch=every(1))
    assert said[0].startswith(f"no checkpoints are written in mid-epoch: {says}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("make", "says"), CHANGING.values(), ids=CHANGING)
def test_what_changes_in_it_is_refused(tmp_path, make, says):
    assert_refused(tmp_path, Moves, make, says)


def in_a_list(by):
    return [Times(by)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "make",
    [
        Times,
        in_a_list,
        lambda by: Times(by).__call__,
        lambda by: functools.partial(torch.mul, other=by),
        lambda by: torch.abs if by == 1 else torch.neg,
        lambda by: torch.nn.Identity() if by == 1 else torch.nn.Tanh(),
        lambda by: torch.nn.Hardtanh(-by, by),  # red at cde3cbf9, and so is the last
        lambda by: torch.nn.Sequential(torch.nn.Identity(), torch.nn.Hardtanh(-by, by)),
    ],
    ids=["object", "list", "bound", "partial", "function", "layer", "setting", "inside"],
)
def test_another_one_in_its_place_is_refused(tmp_path, make):
    class Exchanges(Moves):
        def make(self):
            return make(1.0)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            if self.trainer.global_step == 6:
                self.move = make(0.5)
            move = self.move[0] if isinstance(self.move, list) else self.move
            return [move(batch[0]), batch[1]] if self.trainer.training else batch

    _, _, said = fit(tmp_path, data=Exchanges, module=Small, in_epoch=every(1))
    assert said == [
        "no checkpoints are written in mid-epoch: Exchanges.move changes while the training runs, "
        "and no checkpoint holds it"
    ]


class Begins(Small):
    """Has the data module move them from the second epoch on."""

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.trainer.datamodule.move = Times(0.5)


def test_what_others_put_there_late_may_be_set_at_first(tmp_path):
    """Red before: told to fill it in `__getitem__`, which a data module has not."""

    class Waits(Moves):
        make = staticmethod(lambda: None)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return batch if self.move is None else [self.move(batch[0]), batch[1]]

    _, _, said = fit(tmp_path, data=Waits, module=Begins, in_epoch=every(1))
    assert said == [
        "no checkpoints are written in mid-epoch: Waits.move changes while the training runs, and "
        "no checkpoint holds it (it is first set under way: `__init__` may set it, if it stays "
        "what it is)"
    ]


class Noise(Dataset):
    """Is read by no loader."""

    def __init__(self):
        self.generator = np.random.default_rng(5)
        self.reads = 0

    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.from_numpy(self.generator.normal(size=4)).float()


class Reads(Noise):
    """Counts how often it is read, where others draw."""

    def __init__(self):
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return torch.full((4,), 0.01 * self.reads)


class Keeps(Reads):
    """Keeps what it has read."""

    def __init__(self):
        super().__init__()
        self.rows, self.table = {}, None

    def __getitem__(self, index):
        if self.table is None:
            self.table = torch.randn(100, 4, generator=torch.Generator().manual_seed(3))
        if index not in self.rows:
            self.rows[index] = self.table[index] * 0.1
        return self.rows[index]


class Noisy(Moves):
    """Mixes noise in, but in the second epoch."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        is_noisy = self.trainer.training and self.trainer.current_epoch != 1
        return [batch[0] + self.move[dataloader_idx], batch[1]] if is_noisy else batch


class Rows(Keeps):
    """Gives targets, too, and counts."""

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index), torch.ones(1)


class NamesRows(Moves):
    """Names in a hook what is validated, in every second epoch."""

    make = staticmethod(Rows)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(self.move, 16)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        assert len(self.move) == 100
        return batch


NOISE = {
    "draws": (Noise, "Noise.generator is a random number generator"),
    "counts": (Reads, "Reads.reads changes while the training runs"),
}


@pytest.mark.parametrize(("make", "says"), NOISE.values(), ids=NOISE)
def test_a_dataset_that_no_loader_reads_is_looked_at(tmp_path, make, says):
    """Red before: in silence, if none of it was read as the training went on."""
    assert_refused(tmp_path, Noisy, make, says)


class Background(Moves):
    """Gives noise by a method, or a property."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch

    def background(self, index):
        return self.move[index]

    @property
    def first(self):
        return self.move[0]


class Mixes(Small):
    """Asks the data module for it, but in the second epoch."""

    def training_step(self, batch, batch_idx):
        is_noisy = self.current_epoch != 1
        noise = self.noise(batch_idx) if is_noisy else 0
        return super().training_step([batch[0] + noise, batch[1]], batch_idx)

    def noise(self, batch_idx):
        return self.trainer.datamodule.background(batch_idx)


class MixesFirst(Mixes):
    def noise(self, batch_idx):
        return self.trainer.datamodule.first


class Mixer:
    """A helper in another object."""

    def noise(self, data, index):
        return data.move[index]


class MixesByAHelper(Mixes):
    def __init__(self):
        super().__init__()
        self.mixer = Mixer()

    def noise(self, batch_idx):
        return self.mixer.noise(self.trainer.datamodule, batch_idx)


@pytest.mark.parametrize("module", [Mixes, MixesFirst, MixesByAHelper])
@pytest.mark.parametrize(("make", "says"), NOISE.values(), ids=NOISE)
def test_so_is_one_that_others_give(tmp_path, module, make, says):
    """Red before: likewise."""

    class Gives(Background):
        pass

    Gives.make = staticmethod(make)
    _, _, said = fit(tmp_path, data=Gives, module=module, in_epoch=every(1))
    assert said[0].startswith(f"no checkpoints are written in mid-epoch: {says}")


class Sampled(torch.utils.data.Sampler):
    """Draws, in an iterator of its own each time."""

    def __init__(self):
        self.generator = np.random.default_rng(5)

    def __iter__(self):
        yield from self.generator.permutation(100).tolist()


ASIDE = {
    "loader": lambda: torch.utils.data.DataLoader(
        torch.arange(100.0), shuffle=True, generator=torch.Generator().manual_seed(1)
    ),
    "sampler": Sampled,
}


class MixesNext(Mixes):
    def noise(self, batch_idx):
        return 0.01 * float(next(iter(self.trainer.datamodule.move)))


@pytest.mark.parametrize("make", ASIDE.values(), ids=ASIDE)
def test_so_is_a_loader_or_sampler_that_steps_read(tmp_path, make):
    """Red before: likewise."""

    class Gives(Background):
        pass

    Gives.make = staticmethod(make)
    _, _, said = fit(tmp_path, data=Gives, module=MixesNext, in_epoch=every(1))
    assert said
    assert "generator" in said[0]


class Tests(NamesRows):
    """Likewise, what is tested, and read in a hook that is no step's."""

    def setup(self, stage):
        assert self.move[0][0].shape == (4,)

    def val_dataloader(self):
        return Points.val_dataloader(self)

    def test_dataloader(self):
        return NamesRows.val_dataloader(self)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("data", [NamesRows, Tests])
def test_a_dataset_of_another_loader_is_not(tmp_path, data):
    """Green before."""
    options = {"data": data, "module": Small, "max_epochs": 4, "check_val_every_n_epoch": 2}
    assert_resumed(tmp_path, [7], kills=[8], **options)


def test_a_cache_in_one_is_made_anew(tmp_path):
    """Green before."""

    class Takes(Noisy):
        make = staticmethod(Keeps)

    assert_resumed(tmp_path, [7], kills=[8], data=Takes, module=Small, max_epochs=4)


FACTORS = {"by": 2.0}


def by_a_global(inputs):
    return inputs * FACTORS["by"]


class OfTheModule(Moves):
    """Holds parts of the module, and methods of them: those are looked at elsewhere."""

    def make(self):
        return torch.nn.Identity()

    def setup(self, stage):
        self.module = self.trainer.lightning_module
        self.hidden, self.forward = self.module.hidden, self.module.output.forward


class MakesAgain(Moves):
    """Makes the same anew, under way."""

    def make(self):
        return torch.nn.Sequential(torch.nn.Identity(), torch.nn.Hardtanh(-0.5, 0.5))

    def on_before_batch_transfer(self, batch, dataloader_idx):
        self.move = self.make()
        return batch


class Reloads(Moves):
    """Makes what it calls with its loaders."""

    def train_dataloader(self):
        self.move = Times(1 + self.trainer.current_epoch)
        return super().train_dataloader()


def weak(inputs):
    return inputs * 0.9


class Weakens(Small):
    """Has the data module move them less from the third epoch on."""

    def on_train_epoch_start(self):
        if self.current_epoch == 2:
            self.trainer.datamodule.move = weak


class ByItself(Moves):
    """Does so with its loaders."""

    def train_dataloader(self):
        self.move = weak if self.trainer.current_epoch >= 2 else by_a_global
        return super().train_dataloader()


class Filled(Moves):
    """Puts it into a list there."""

    def make(self):
        return [by_a_global]

    def train_dataloader(self):
        self.move[0] = weak if self.trainer.current_epoch >= 2 else by_a_global
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [self.move[0](batch[0]), batch[1]] if self.trainer.training else batch


def test_one_that_a_hook_exchanges_between_reloads_is_refused(tmp_path):
    """Red before: in silence, if the training was stopped in that epoch."""

    class Takes(Moves):
        make = staticmethod(lambda: by_a_global)

    options = {"data": Takes, "module": Weakens, "in_epoch": every(1), "max_epochs": 3}
    _, _, said = fit(tmp_path, reload_dataloaders_every_n_epochs=1, **options)
    assert said == [
        "no checkpoints are written in mid-epoch: Takes.move changes while the training runs, and "
        "no checkpoint holds it (with loaders that are made anew, `train_dataloader` may set it "
        "each time, by `self.trainer.current_epoch`)"
    ]


class Turned(torch.utils.data.Dataset):
    """Has attributes of the names that a data module may have."""

    def __init__(self, rows, move):
        self.rows, self.move = rows, move

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class GivesOn(Moves):
    """Gives it to its dataset, too."""

    make = staticmethod(lambda: by_a_global)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(
            Turned(super().train_dataloader().dataset, self.move), 16
        )


class HasSeveral(Moves):
    """Asks for them by name."""

    make = staticmethod(lambda: {"train": by_a_global})

    def train_dataloader(self):
        assert self.move["train"]
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [self.move["train"](batch[0]), batch[1]] if self.trainer.training else batch


class WeakensOne(Small):
    def on_train_epoch_start(self):
        if self.current_epoch == 2:
            self.trainer.datamodule.move["train"] = weak


@pytest.mark.parametrize(("data", "module"), [(GivesOn, Weakens), (HasSeveral, WeakensOne)])
def test_so_is_one_that_making_loaders_only_reads(tmp_path, data, module):
    """Red before: in silence, as a dataset sets an attribute of the name, or as it was named."""
    options = {"data": data, "module": module, "in_epoch": every(1), "max_epochs": 3}
    _, _, said = fit(tmp_path, reload_dataloaders_every_n_epochs=1, **options)
    assert "move" in said[0]
    assert "changes while the training runs" in said[0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("data", [ByItself, Filled])
@pytest.mark.parametrize(("kill", "at"), [(12, 11), (14, 13)])
def test_one_that_making_loaders_sets_is_not(tmp_path, data, kill, at):
    """Green before."""
    options = {"data": data, "module": Small, "reload_dataloaders_every_n_epochs": 1}
    assert_resumed(tmp_path, [at], kills=[kill], max_epochs=4, **options)


UNCHANGING = {
    "function": lambda: by_a_global,
    "partial": lambda: functools.partial(torch.mul, other=2),
    "object": lambda: Times(2),
    "layers": lambda: torch.nn.Sequential(torch.nn.Identity(), torch.nn.Linear(4, 4)),
    "cache": lambda: functools.lru_cache(by_a_global),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", UNCHANGING.values(), ids=UNCHANGING)
def test_what_does_not_change_is_resumed(tmp_path, make):
    """Green before."""

    class Takes(Moves):
        pass

    Takes.make = staticmethod(make)
    assert_resumed(tmp_path, [7], kills=[8], data=Takes, module=Small)


def test_so_are_parts_of_the_module_and_what_is_made_with_loaders(tmp_path):
    """Green before."""
    assert_resumed(tmp_path / "parts", [7], kills=[8], data=OfTheModule, module=Small)
    assert_resumed(tmp_path / "again", [7], kills=[8], data=MakesAgain, module=Small)
    options = {"data": Reloads, "module": Small, "reload_dataloaders_every_n_epochs": 1}
    assert_resumed(tmp_path / "reloads", [7], kills=[8], **options)


class TestsWithIt(Background):
    """The pool is tested with, or its length says how much is trained on."""

    def test_dataloader(self):
        return torch.utils.data.DataLoader(self.move, 16)

    def predict_dataloader(self):
        return torch.utils.data.DataLoader(self.move, 16)


class CountsIt(Background):
    def train_dataloader(self):
        assert len(self.move) == 100
        return super().train_dataloader()


@pytest.mark.parametrize("data", [TestsWithIt, CountsIt])
@pytest.mark.parametrize(("make", "says"), NOISE.values(), ids=NOISE)
def test_so_is_one_that_code_which_makes_loaders_names(tmp_path, data, make, says):
    """Red at 959891d6: any loader's code that named it had it left alone, in silence."""

    class Gives(data):
        pass

    Gives.make = staticmethod(make)
    _, _, said = fit(tmp_path, data=Gives, module=Mixes, in_epoch=every(1))
    assert said[0].startswith(f"no checkpoints are written in mid-epoch: {says}")


class NamesWhatItReads(Moves):
    """A hook names the training data, which keep what they have read, also within others."""

    make = staticmethod(Rows)
    within = staticmethod(lambda rows: rows)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.within(self.move), 16)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        assert len(self.move) == 100
        return batch


class Within(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.rows[index]


WITHIN = {
    "itself": lambda rows: rows,
    "a subset": lambda rows: torch.utils.data.Subset(rows, range(64)),
    "another one": Within,
}


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN)
def test_what_a_training_loader_reads_is_looked_at_there(tmp_path, within):
    class Names(NamesWhatItReads):
        pass

    Names.within = staticmethod(within)
    assert_resumed(tmp_path, [5], kills=[6], data=Names)

"""What the functions reach that make the steps: a resumed training would find it as it was made."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset

RANDOM = np.random.default_rng(3)
TORCHS = torch.Generator().manual_seed(3)
PYTHONS = random.Random(3)
UNUSED = np.random.default_rng(4)
COUNTS = itertools.count()
SCALES = itertools.cycle([1.0, 1.1])
SEEN = {"steps": 0}
TABLE = torch.ones(4)
SCALE = 1.01


def noise():
    return RANDOM.standard_normal() / 100


class Plain(Small):
    """Scales its loss by what it is given."""

    def scale(self):
        return 1.0

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.scale()


class Numpys(Plain):
    def scale(self):
        return 1 + noise()


class Torchs(Plain):
    def scale(self):
        return 1 + torch.rand((), generator=TORCHS)


class Counts(Plain):
    def scale(self):
        return 1 + next(COUNTS) / 100


class Cycles(Plain):
    def scale(self):
        return next(SCALES)


class CountsInAGlobal(Plain):
    def scale(self):
        SEEN["steps"] += 1
        return 1 + SEEN["steps"] / 100


class WritesATable(Plain):
    def scale(self):
        return TABLE.mul_(1.01).mean()


class OfTheClass(Plain):
    random = np.random.default_rng(3)

    def scale(self):
        return 1 + self.random.standard_normal() / 100


class Augments:
    def __init__(self):
        self.random = np.random.default_rng(3)

    def __call__(self, value):
        return value + self.random.standard_normal() / 100


class OfAnObject(Plain):
    def __init__(self, **options):
        super().__init__(**options)
        self.augment = Augments()

    def scale(self):
        return self.augment(1.0)


class OfAHook(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.hidden.register_forward_hook(lambda module, inputs, output: output * (1 + noise()))


class OfAGradient(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.hidden.weight.register_hook(lambda gradient: gradient * (1 + noise()))


class OfASchedule(Small):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 + noise())
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Descends(torch.optim.SGD):
    def step(self, closure=None):
        found = super().step(closure)
        self.param_groups[0]["params"][0].data.mul_(1 + PYTHONS.gauss(0, 0.01))
        return found


class OfAnOptimizer(Small):
    def configure_optimizers(self):
        return Descends(self.parameters(), lr=0.05)


class Shakes(pl.Callback):
    def on_train_batch_end(self, trainer, pl_module, *_):
        with torch.no_grad():
            pl_module.output.bias.add_(noise())


CHANGES = "changes while the training runs, and no checkpoint holds it"
HELD = {
    Numpys: f"{__name__}.RANDOM {CHANGES}",
    Torchs: f"{__name__}.TORCHS {CHANGES}",
    Counts: f"{__name__}.COUNTS {CHANGES}",
    Cycles: f"{__name__}.SCALES is an iterator (cycle), whose position nobody can save",
    CountsInAGlobal: f"{__name__}.SEEN['steps'] {CHANGES}",
    WritesATable: f"{__name__}.TABLE {CHANGES}",
    OfTheClass: f"OfTheClass.random {CHANGES}",
    OfAnObject: f"Augments.random {CHANGES}",
    OfAHook: f"{__name__}.RANDOM {CHANGES}",
    OfAGradient: f"{__name__}.RANDOM {CHANGES}",
    OfASchedule: f"{__name__}.RANDOM {CHANGES}",
    OfAnOptimizer: f"{__name__}.PYTHONS {CHANGES}",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", HELD, ids=lambda kind: kind.__name__)
def test_what_steps_reach_and_change_is_refused_by_name(tmp_path, module):
    """Red before: a resumed training drew its first numbers again, and was called the same."""
    _, _, said = fit(tmp_path, Points, module, minutes=0, max_epochs=2)
    assert said == [f"no checkpoints are written: {HELD[module]}"]
    assert not list(tmp_path.glob("*.ckpt"))


def test_so_it_is_in_mid_epoch_and_of_a_callback(tmp_path):
    options = {"in_epoch": every(2), "max_epochs": 1}
    _, _, said = fit(tmp_path, Points, Small, callbacks=[Shakes()], **options)
    assert said == [f"no checkpoints are written in mid-epoch: {__name__}.RANDOM {CHANGES}"]


class Rated(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.learning_rate = 0.05


def test_steps_that_are_tried_before_the_first_are_a_reason_to_write_none(tmp_path, monkeypatch):
    """Red before: a resumed training tried them again, and got other batches."""
    monkeypatch.chdir(tmp_path)  # where the callback writes
    finder = pl.callbacks.LearningRateFinder(num_training_steps=8)
    _, _, said = fit(tmp_path, Points, Rated, minutes=0, max_epochs=2, callbacks=[finder])
    assert said[0].startswith("no checkpoints are written: LearningRateFinder tries steps")


def test_while_they_are_tried_none_is_written(tmp_path, monkeypatch):
    """Red before: an AssertionError, where the trial passed its first epoch."""
    monkeypatch.chdir(tmp_path)
    finder = pl.callbacks.LearningRateFinder(num_training_steps=20)
    told = {"minutes": 1000, "in_epoch": every(1), "max_epochs": 2}
    _, _, said = fit(tmp_path, Points, Rated, callbacks=[finder], **told)
    assert said[0].startswith("no checkpoints are written in mid-epoch: LearningRateFinder tries")


class Reads(Plain):
    """Reads globals, and draws from a generator where it is made."""

    def __init__(self, **options):
        super().__init__(**options)
        self.scales = [SCALE + UNUSED.standard_normal() / 100 for _ in range(2)]
        self.first = lambda: (UNUSED, TABLE.mean())

    def scale(self):
        self.first()
        return SCALE


def test_what_stays_as_it_is_does_not_matter(tmp_path):
    UNUSED.bit_generator.state = np.random.default_rng(4).bit_generator.state

    class Anew(Reads):
        def __init__(self, **options):
            UNUSED.bit_generator.state = np.random.default_rng(4).bit_generator.state
            super().__init__(**options)

    assert_resumed(tmp_path, [3], kills=[4], module=Anew)


class Relabelled(Dataset):
    """Its targets are exchanged for others as it is read; another object holds them, too."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.originals = inputs, targets, [targets]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        self.targets = self.targets * 1.01
        return self.inputs[index], self.targets[index]


class Relabels(Points):
    def train_dataloader(self):
        return DataLoader(Relabelled(self.inputs, self.targets), 16)


def test_an_array_that_is_exchanged_for_another_is_refused(tmp_path):
    """Red before: only the array that had been there was looked at."""
    _, _, said = fit(tmp_path, Relabels, Small, minutes=0, max_epochs=2)
    assert said == [f"no checkpoints are written: Relabelled.targets {CHANGES}"]


def test_a_walk_that_ends_early_is_a_reason_to_write_none(tmp_path, monkeypatch):
    """Red before: it ended at 2,000 objects without a word."""
    monkeypatch.setattr("twinrun.checkpoint.walk.MOST", 5)
    _, _, said = fit(tmp_path, Points, Small, minutes=0, max_epochs=2)
    assert said == [
        "no checkpoints are written: what makes batches reaches 5 objects, and no more of them are "
        "looked at"
    ]


MANY = [[SimpleNamespace() for _ in range(16)] for _ in range(16)]


class ReachesMany(Plain):
    def scale(self):
        return 1 + len(MANY)


def test_so_is_one_of_the_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("twinrun.checkpoint.walk.MOST", 200)
    _, _, said = fit(tmp_path, Points, ReachesMany, minutes=0, max_epochs=2)
    assert said == [
        "no checkpoints are written: what makes steps reaches 200 objects, and no more of them are "
        "looked at"
    ]

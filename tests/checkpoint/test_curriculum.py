"""A number of data that hooks move, by which samples are made harder from epoch to epoch."""

import pytest
import pytorch_lightning as pl
from late_fitted import MovedByValidation
from resumed import assert_resumed
from small import Points
from torch.utils.data import DataLoader, Dataset, Subset


class Harder(Dataset):
    """Gives rows that grow with its level."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.level = inputs, targets, 0
        self.kinds = set()
        self.noise = Noise()

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        inputs = self.inputs[index] * (1 + self.level) + self.noise.strength
        return inputs - len(self.kinds), self.targets[index]


class Noise:
    strength = 0.0

    def __init__(self):
        self.strength = 0.0


class Course(Points):
    workers = 0

    def setup(self, stage):
        self.rows = Harder(self.inputs, self.targets)
        self.checked = Harder(self.inputs, self.targets)

    def train_dataloader(self):
        rows = Subset(self.rows, range(70))
        return DataLoader(rows, 16, shuffle=True, num_workers=self.workers)

    def val_dataloader(self):
        return DataLoader(self.checked, 16, num_workers=self.workers)


class Moves(pl.Callback):
    """Makes data harder at a hook; of validation data the noise."""

    def __init__(self, hook, step=lambda level, epoch: level + 1):
        self._step = step
        setattr(self, hook, self._move)

    def _move(self, trainer, *_):
        data = trainer.datamodule
        data.rows.level = self._step(data.rows.level, trainer.current_epoch)
        data.rows.noise.strength += 0.25
        data.checked.noise.strength -= 0.125
        data.rows.kinds.add(trainer.current_epoch)


def to_epoch(level, epoch):
    return epoch


HOOKS = ["on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_validation_end"]
KILLS = {
    "first epoch": (4, 3, {}),
    "later epoch": (13, 12, {}),
    "start of an epoch": (13, 10, {"minutes": 0, "every_batches": 9}),
}
SMALL = {"module": MovedByValidation, "max_epochs": 4}


@pytest.mark.parametrize("when", KILLS)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_hook_moves_is_resumed(tmp_path, hook, workers, when):
    """Red before: no checkpoint where data workers have copies, or in mid-epoch."""
    kill, at, options = KILLS[when]
    data = type("Course", (Course,), {"workers": workers})
    told = {**SMALL, **options, "data": data, "callbacks": [Moves(hook)]}
    assert_resumed(tmp_path, [at], kills=[kill], **told)


@pytest.mark.parametrize("workers", [0, 1])
def test_so_is_what_it_sets_to_the_epoch(tmp_path, workers):
    data = type("Course", (Course,), {"workers": workers})
    moves = Moves("on_train_epoch_start", to_epoch)
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], data=data, callbacks=[moves], **SMALL)

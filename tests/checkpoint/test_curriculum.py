"""A number of data that hooks move, by which samples are made harder from epoch to epoch."""

import pytest
import pytorch_lightning as pl
from late_fitted import MovedByValidation
from resumed import assert_resumed, every, fit
from small import Points
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    Subset,
    TensorDataset,
    default_collate,
)


class Harder(Dataset):
    """Gives rows that grow with its level."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.level = inputs, targets, 0
        self.seen_in = set()
        self.noise = Noise()

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        inputs = self.inputs[index] * (1 + self.level) + self.noise.strength
        return inputs - len(self.seen_in), self.targets[index]


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
        data.rows.seen_in.add(trainer.current_epoch)


def to_epoch(level, epoch):
    return epoch


HOOKS = ["on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_validation_end"]
KILLS = {
    "first epoch": (4, 3, {}),
    "later epoch": (13, 12, {}),
    "start of an epoch": (13, 10, {"minutes": 0, "every_batches": 9}),
}
SMALL = {"module": MovedByValidation, "max_epochs": 4}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("when", KILLS)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_hook_moves_is_resumed(tmp_path, hook, workers, when):
    """Red before: no checkpoint where data workers have copies, or in mid-epoch."""
    kill, at, options = KILLS[when]
    data = type("Course", (Course,), {"workers": workers})
    told = {**SMALL, **options, "data": data, "callbacks": [Moves(hook)]}
    assert_resumed(tmp_path, [at], kills=[kill], **told)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workers", [0, 1])
def test_so_is_what_it_sets_to_the_epoch(tmp_path, workers):
    data = type("Course", (Course,), {"workers": workers})
    moves = Moves("on_train_epoch_start", to_epoch)
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], data=data, callbacks=[moves], **SMALL)


class ReadByBoth(Course):
    """Gives parts of the same rows to training, in data workers, and to validation, in none."""

    def setup(self, stage):
        super().setup(stage)
        self.rows.transform, self.rows.cache = None, {}
        self.checked = self.rows

    def train_dataloader(self):
        return DataLoader(Subset(self.rows, range(10, 70)), 12, shuffle=True, num_workers=1)

    def val_dataloader(self):
        return DataLoader(Subset(self.rows, range(10)), 5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize("when", KILLS)
def test_data_that_are_read_in_workers_and_here_are_known_by_both(tmp_path, when, sanity):
    """Red before: an attribute of `__init__` was taken for one that had come late."""
    kill, at, options = KILLS[when]
    told = {**SMALL, **options, "data": ReadByBoth, "num_sanity_val_steps": sanity}
    told["callbacks"] = [Moves("on_train_epoch_start")]
    assert_resumed(tmp_path, [at], kills=[kill], **told)


class BySampler(Course):
    """Draws rows by a sampler that reads the level as it goes, ahead of data workers."""

    def train_dataloader(self):
        return DataLoader(self.rows, 16, sampler=LooksAhead(self.rows), num_workers=1)


class LooksAhead(Sampler):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 70

    def __iter__(self):
        for index in range(70):
            yield (index * 3 + self.rows.level) % 70


def test_what_steps_move_and_a_sampler_reads_is_refused_in_mid_epoch(tmp_path):
    """Red before: resumed with another order, in silence."""
    moves = Moves("on_train_batch_end")
    told = {**SMALL, "data": BySampler, "callbacks": [moves], "minutes": 0}
    _, _, said = fit(tmp_path, in_epoch=every(1), kill=13, **told)
    assert any(" changes between the batches of an epoch, by steps" in each for each in said)
    assert [each.name for each in tmp_path.glob("*.ckpt")] == ["epoch2.ckpt"]


class Remembers(Noise):
    def __init__(self):
        super().__init__()
        self.known = {}

    def __call__(self, row):
        return self.known.setdefault(row, row * 0.01)


class Uses(Harder):
    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return inputs + self.noise(index), targets


class OfHelper(Course):
    """Has one helper with a cache in data that workers have copies of, and in data read here."""

    workers = 1

    def setup(self, stage):
        self.rows, self.checked = (Uses(self.inputs, self.targets) for _ in range(2))
        self.checked.noise = self.rows.noise = Remembers()

    def val_dataloader(self):
        return DataLoader(self.checked, 16)


def test_so_are_helpers_of_both(tmp_path):
    """Red before: the cache was taken for state."""
    moves = Moves("on_train_epoch_start")
    assert_resumed(tmp_path, [17], kills=[18], data=OfHelper, callbacks=[moves], **SMALL)


class Level:
    """Harder mini-batches: a collate function, or what one calls."""

    def __init__(self):
        self.level = 0

    def __call__(self, rows):
        inputs, targets = default_collate(rows)
        return inputs * (1 + self.level), targets


class Collates(Points):
    wrapped = staticmethod(lambda function: function)

    def setup(self, stage):
        self.rows = Level()

    def train_dataloader(self):
        data, collate = TensorDataset(self.inputs, self.targets), self.wrapped(self.rows)
        return DataLoader(data, 16, shuffle=True, num_workers=1, collate_fn=collate)


class CollatesBehind(Collates):
    wrapped = staticmethod(lambda function: lambda rows: function(rows))


class Streams(IterableDataset):
    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.level = inputs, targets, 0

    def __iter__(self):
        yield from zip(self.inputs * (1 + self.level), self.targets, strict=True)


class OfStream(Points):
    def setup(self, stage):
        self.rows = Streams(self.inputs, self.targets)

    def train_dataloader(self):
        return DataLoader(self.rows, 16, num_workers=1)


class Rows(list):
    level = 0

    def __init__(self, rows):
        super().__init__(rows)
        self.level = 0

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return inputs * (1 + self.level), targets


class OfList(Points):
    workers = 0

    def setup(self, stage):
        self.rows = Rows(zip(self.inputs, self.targets, strict=True))

    def train_dataloader(self):
        return DataLoader(self.rows, 16, shuffle=True, num_workers=self.workers)


class OfListInWorkers(OfList):
    workers = 1


class Told(Harder):
    """Is told its level."""

    def set_epoch(self, epoch):
        self.level = epoch


class IsTold(OfList):
    workers = 1

    def setup(self, stage):
        self.rows = Told(self.inputs, self.targets)


class Raises(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        rows = trainer.datamodule.rows
        rows.level += 1


class Tells(pl.Callback):
    def on_train_epoch_start(self, trainer, module):
        trainer.datamodule.rows.set_epoch(trainer.current_epoch)


HELD = {
    "collate": (Collates, Raises),
    "stream": (OfStream, Raises),
    "list": (OfList, Raises),
    "list in workers": (OfListInWorkers, Raises),
    "told": (IsTold, Tells),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("when", ["later epoch", "start of an epoch"])
@pytest.mark.parametrize("what", HELD)
def test_so_is_it_wherever_workers_have_it_from(tmp_path, what, when):
    """Red before: resumed with the first level, in silence; what is told was refused."""
    kill, at, options = KILLS[when]
    data, moves = HELD[what]
    told = {**SMALL, **options, "data": data, "callbacks": [moves()]}
    assert_resumed(tmp_path, [at], kills=[kill], **told)


class Chooses(Points):
    """Trains on part of its rows, which a hook may exchange."""

    def setup(self, stage):
        self.kept = TensorDataset(self.inputs, self.targets)

    def train_dataloader(self):
        self.subset = Subset(self.kept, [*range(70)])
        return DataLoader(self.subset, 16, shuffle=True, num_workers=1)


class Mines(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        trainer.datamodule.subset.indices[45] = 3


class Relabels(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        data = trainer.datamodule
        data.kept.tensors = data.inputs, data.kept.tensors[1] + 1


EXCHANGED = [(Chooses, Mines), (Chooses, Relabels), (CollatesBehind, Raises)]


@pytest.mark.parametrize(("data", "moves"), EXCHANGED, ids=["rows", "labels", "in a function"])
def test_what_else_a_hook_exchanges_is_refused_where_workers_have_copies(tmp_path, data, moves):
    """Red before: resumed with what there was in the beginning, in silence."""
    told = {**SMALL, "data": data, "callbacks": [moves()], "minutes": 0}
    _, _, said = fit(tmp_path, **told)
    assert "changes while the training runs, and no checkpoint holds it" in said[0]

"""What a refused checkpoint says can be done against it is true, and works."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Episodes(Sampler):
    """Draws the rows of each batch as it comes to it."""

    generator: torch.Generator | None = None

    def __len__(self):
        return 12

    def __iter__(self):
        for _ in range(12):
            yield torch.randperm(70, generator=self.generator)[:16].tolist()


class OwnGenerator(Episodes):
    def __init__(self):
        self.generator = torch.Generator().manual_seed(3)


class AtOnce(Episodes):
    def __iter__(self):
        yield from [*super().__iter__()]


class EpisodePoints(Points):
    workers, sampler, generator = 0, Episodes, False

    def train_dataloader(self):
        return DataLoader(
            TensorDataset(self.inputs, self.targets),
            batch_sampler=self.sampler(),
            num_workers=self.workers,
            generator=torch.Generator().manual_seed(4) if self.generator else None,
        )


@pytest.mark.parametrize(
    ("workers", "generator", "ways"),
    [(0, False, "with data workers and "), (2, False, ""), (2, True, "")],
)
def test_a_sampler_that_draws_as_it_goes_is_named_with_its_cure(tmp_path, workers, generator, ways):
    """Red before: it said `with data workers they can`, and with these `by a generator`."""
    data = type("Data", (EpisodePoints,), {"workers": workers, "generator": generator})
    _, _, said = fit(tmp_path, data, in_epoch=every(4))
    assert len(said) == 1
    where = "where all that Episodes draws comes from a torch.Generator in its attribute `gen"
    assert f"({ways}{where}" in said[0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("sampler", [OwnGenerator, AtOnce])
def test_the_cures_of_a_sampler_that_draws_as_it_goes_work(tmp_path, workers, sampler):
    data = type("Data", (EpisodePoints,), {"workers": workers, "sampler": sampler})
    assert_resumed(tmp_path, [8, 20], kills=(9, 21), every_batches=4, data=data)


class ClosesMosaic(Small):
    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.trainer.train_dataloader.dataset.shift = None


class Shifted(TensorDataset):
    def __init__(self, *tensors, shift):
        super().__init__(*tensors)
        self.shift = shift

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return (self.shift(inputs) if self.shift else inputs), targets


class ShiftedPoints(Points):
    def train_dataloader(self):
        return DataLoader(Shifted(self.inputs, self.targets, shift=torch.neg), 16, shuffle=True)


def test_what_init_has_set_to_a_function_is_not_said_to_be_first_set_under_way(tmp_path):
    """Red before: `__init__` had set it to a function."""
    _, _, said = fit(tmp_path, ShiftedPoints, ClosesMosaic, minutes=0, max_epochs=3)
    why = (
        "Shifted.shift changes while the training runs, and no checkpoint holds it (its class's "
        "`state_dict` and `load_state_dict` may hold it)"
    )
    assert said == [f"no checkpoints are written: {why}"]


class Meter:
    """A running mean, as many write one, and the level that it comes to."""

    def __init__(self):
        super().__init__()
        self.count, self.total, self.seen = 0, torch.zeros(()), []

    def update(self, value):
        self.count += 1
        self.total = self.total + value
        self.seen.append(float(value))
        return self.total / self.count


class HeldMeter(Meter, torch.nn.Module):
    """The same as a module."""


class Metered(Small):
    """Weighs its loss by what the meter says."""

    kind = Meter

    def __init__(self):
        super().__init__()
        self.meter = self.kind()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * (1 + self.meter.update(loss.detach()))


class HeldMetered(Metered):
    kind = HeldMeter


def test_an_object_in_a_module_is_named_with_its_cure(tmp_path):
    """Red before: the sentence ended where a user begins to ask."""
    _, _, said = fit(tmp_path, module=Metered, minutes=0)
    why = "Metered.meter changes while the training runs, and no checkpoint holds it"
    assert f"{why} (a torch.nn.Module in its place is held, if its attributes" in said[0]


def test_a_module_in_its_place_is_held(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=HeldMetered)

"""What lies in `__slots__` of data, samplers and modules is looked at as what lies beside them."""

from dataclasses import dataclass

import late_data
import pytest
from late_fitted import MovedByValidation, data_of
from resumed import assert_resumed, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, IterableDataset

AT_STARTS = {"minutes": 0, "module": MovedByValidation, "max_epochs": 4}


class Counted(late_data.Lazy):
    """Counts its rows in a slot, beside the attributes of its base."""

    __slots__ = ("__seen",)

    def begin(self):
        self.__seen = 0.0

    def __getitem__(self, index):
        self.__seen += 0.1
        return self.rows[index] * (1 + 0.01 * self.__seen), self.targets[index]


@dataclass(slots=True)
class InSlots(Dataset):
    """Has nothing but slots, and counts its rows in one."""

    rows: object
    targets: object
    seen: int = 0

    def __len__(self):
        return 70

    def __getitem__(self, index):
        self.seen += 1
        return self.rows[index] * (1 + 0.001 * self.seen), self.targets[index]


class Sorted:
    """Counts its epochs."""

    __slots__ = ("data_source", "turn")

    def __init__(self, data):
        self.data_source, self.turn = data, 0

    def __len__(self):
        return 70

    def __iter__(self):
        self.turn += 7
        return iter([*range(self.turn, 70), *range(self.turn)])


class Wraps:
    """Wraps in a slot a dataset that counts."""

    __slots__ = ("dataset",)

    def __init__(self, data):
        self.dataset = OfNumbers(data)

    def __len__(self):
        return 70

    def __getitem__(self, index):
        return self.dataset[index]


class OfNumbers(late_data.Lazy):
    def begin(self):
        self.seen = 0

    def __getitem__(self, index):
        self.seen += 1
        return self.rows[index] * (1 + 0.001 * self.seen), self.targets[index]


class Streams(IterableDataset):
    """Goes on where it was."""

    __slots__ = ("place",)

    def __init__(self, data):
        self.rows, self.targets, self.place = data.inputs, data.targets, 0

    def __iter__(self):
        for _ in range(70):
            self.place = (self.place + 3) % 70
            yield self.rows[self.place], self.targets[self.place]


def of_slots(data):
    return InSlots(data.inputs, data.targets)


class Sampled(Points):
    def train_dataloader(self):
        return self._loader(sampler=Sorted(self.inputs))


class Begun(Points):
    def train_dataloader(self):
        return DataLoader(Streams(self), 16)


class CountsLoaders(Points):
    __slots__ = ("made",)

    def __init__(self, **options):
        super().__init__(**options)
        self.made = 0

    def on_before_batch_transfer(self, batch, index):
        self.made += 1
        return [each * self.made for each in batch]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("data", "name"),
    [
        (Begun, "Streams.place"),
        (CountsLoaders, "CountsLoaders.made"),
    ],
    ids=["stream", "data module"],
)
def test_a_number_in_a_slot_that_changes_is_refused_by_name(tmp_path, data, name):
    """Red before: resumed in silence, with a number that began anew."""
    _, _, said = fit(tmp_path, data, **AT_STARTS)
    assert not list(tmp_path.glob("*.ckpt"))
    assert f"{name} changes while the training runs" in said[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "data",
    [data_of(Counted), data_of(of_slots), data_of(Wraps), Sampled],
    ids=["beside attributes", "alone", "wrapped", "sampler"],
)
def test_or_put_back(tmp_path, data):
    """Red before: resumed in silence, with a number that began anew."""
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)


class Kept(late_data.Lazy):
    """Has a setting and a cache in slots."""

    __slots__ = ("cached", "scale")

    def begin(self):
        self.cached, self.scale = {}, 2.0

    def __getitem__(self, index):
        if index not in self.cached:
            self.cached[index] = self.rows[index] * self.scale
        return self.cached[index], self.targets[index]


class SaysItsSlots(Sorted):
    """Says where it is."""

    __slots__ = ()

    def state_dict(self):
        return {"turn": self.turn}

    def load_state_dict(self, state):
        self.turn = state["turn"]


class Says(Points):
    def train_dataloader(self):
        return self._loader(sampler=SaysItsSlots(self.inputs))


@pytest.mark.parametrize("data", [data_of(Kept), Says], ids=["cache", "state"])
def test_what_stays_or_says_itself_in_slots_is_resumed(tmp_path, data):
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)


class Steps(Small):
    """Counts its steps in a slot."""

    __slots__ = ("steps",)

    def __init__(self):
        super().__init__()
        self.steps = 0

    def training_step(self, batch, batch_idx):
        self.steps += 1
        return super().training_step(batch, batch_idx) * self.steps


def test_a_number_in_a_slot_of_the_module_is_put_back(tmp_path):
    """Red before: it began anew, in silence."""
    options = {**AT_STARTS, "module": Steps}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)

"""States of callbacks and data are loaded as often as needed, and are then what they were."""

from collections import Counter

import pytest
import pytorch_lightning as pl
from resumed import assert_resumed, every, fit
from small import Points, Restless
from torch.utils.data import DataLoader, Sampler, TensorDataset

from twinrun.errors import TwinrunError


class Counts(pl.Callback):
    """Logs how many batches it has seen; adds to what it has where a state is loaded."""

    def __init__(self):
        self.seen = Counter()

    def on_train_batch_end(self, *_):
        self.seen["batches"] += 1

    def state_dict(self):
        return {"seen": dict(self.seen)}

    def load_state_dict(self, state_dict):
        self.seen.update(state_dict["seen"])

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.log("seen", float(sum(self.seen.values())))


class CountsEpochs(Counts):
    """Changes its state where an epoch begins, which is then under way."""

    def on_train_epoch_start(self, *_):
        self.seen["epochs"] += 1


class Applies(Counts):
    """Keeps a loaded state for the hook that begins the training."""

    loaded = 0

    def load_state_dict(self, state_dict):
        self.loaded = state_dict["seen"]["batches"]

    def on_train_start(self, *_):
        self.seen["batches"] = self.loaded


class Derives(Counts):
    """Has a number beside its state, which begins anew where a training does."""

    def on_train_start(self, *_):
        self.number = 0

    def on_train_batch_end(self, *_):
        super().on_train_batch_end()
        self.number += 1

    def load_state_dict(self, state_dict):
        self.seen = Counter(state_dict["seen"])
        self.number = self.seen["batches"]

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.log("number", float(self.number))


class Waits(Counts):
    """Keeps a loaded state for the hook that begins an epoch."""

    loaded = None

    def load_state_dict(self, state_dict):
        self.loaded = state_dict["seen"]

    def on_train_epoch_start(self, *_):
        if self.loaded is not None:
            self.seen, self.loaded = Counter(self.loaded), None


class SaysWhatWaits(Waits):
    """Gives a loaded state also as long as it waits."""

    def state_dict(self):
        return {"seen": dict(self.seen if self.loaded is None else self.loaded)}


class Forgets(Counts):
    """Loads another state than it was given."""

    def load_state_dict(self, state_dict):
        self.seen = Counter(batches=state_dict["seen"]["batches"] // 2)


class NeverLoads(Counts):
    load_state_dict = pl.Callback.load_state_dict


class Stops(pl.callbacks.EarlyStopping):
    """Saves more than it loads."""

    def __init__(self):
        super().__init__("val_loss", patience=9)

    def state_dict(self):
        return {**super().state_dict(), "mine": 1}


class Clocked(Counts):
    """Has a state that is another one whenever it is asked for."""

    asked = 0

    def state_dict(self):
        self.asked += 1
        return {"seen": dict(self.seen), "asked": self.asked}

    def load_state_dict(self, state_dict):
        self.seen = Counter(state_dict["seen"])


class Bearing(Restless):
    kind: type

    def configure_callbacks(self):
        return [self.kind()]


def bearing(kind):
    return type(f"Bearing{kind.__name__}", (Bearing,), {"kind": kind})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("in_epoch", [None, every(1)], ids=["where an epoch starts", "in it"])
@pytest.mark.parametrize(
    "kind", [Counts, Applies, Derives, Clocked], ids=lambda kind: kind.__name__
)
def test_a_state_is_loaded_as_often_as_hooks_undo_it(tmp_path, kind, in_epoch):
    """Red before: what adds to its state was given it two or three times, and logged the sum."""
    module = bearing(kind)
    whole, _, _ = fit(tmp_path / "whole", module=module)
    told = {"minutes": 1000, "in_epoch": in_epoch} if in_epoch else {"minutes": 0}
    fit(tmp_path / "killed", module=module, kill=8, **told)
    found, at, said = fit(tmp_path / "killed", module=module, **told)
    assert (at, said) == ([7] if in_epoch else [5], [])
    assert found == whole


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [Waits, SaysWhatWaits])
def test_a_state_that_waited_for_the_epochs_start_is_not_loaded_once_more(tmp_path, kind):
    """Red before: it fell back to what it had been at the stop where the next epoch began."""
    module, told = bearing(kind), {"minutes": 1000, "in_epoch": every(1), "max_epochs": 4}
    whole, _, _ = fit(tmp_path / "whole", module=module, max_epochs=4)
    fit(tmp_path / "killed", module=module, kill=8, **told)
    found, at, said = fit(tmp_path / "killed", module=module, **told)
    assert (at, said, found == whole) == ([7], [], True)


def test_it_is_loaded_alike_at_a_second_stop(tmp_path):
    assert_resumed(tmp_path, [4, 7], kills=[5, 8], module=bearing(Counts))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "in_epoch"), [(Forgets, None), (CountsEpochs, every(1))])
def test_another_state_ends_the_attempt(tmp_path, kind, in_epoch):
    """Red before: the training went on with it."""
    module = bearing(kind)
    told = {"minutes": 1000, "in_epoch": in_epoch} if in_epoch else {"minutes": 0}
    fit(tmp_path, module=module, kill=8, **told)
    with pytest.raises(TwinrunError, match=f"{kind.__name__} does not come back to"):
        fit(tmp_path, module=module, **told)
    _, at, _ = fit(tmp_path, module=module, **told)
    assert at == []


@pytest.mark.parametrize("kind", [NeverLoads, Stops])
def test_a_state_that_nobody_loads_is_refused(tmp_path, kind):
    """Red before: the resumed training began to count anew."""
    _, _, said = fit(tmp_path, module=bearing(kind), minutes=0)
    assert said == [
        f"no checkpoints are written: {kind.__name__} has a state_dict of its own, and no "
        f"load_state_dict that would load what it adds"
    ]


class CountedBatches(Points):
    """Scales each batch by how many there were, which its state has, as in Lightning's docs."""

    index = 0

    def on_after_batch_transfer(self, batch, dataloader_idx):
        if self.trainer.training:
            self.index += 1
        return batch[0] * (1 + self.index / 10), batch[1]

    def state_dict(self):
        return {"current_train_batch_index": self.index}

    def load_state_dict(self, state_dict):
        self.index = state_dict["current_train_batch_index"]


class BeginsWithItsLoader(CountedBatches):
    """Counts from where its loader is made, which is behind the loading of a checkpoint."""

    def train_dataloader(self):
        self.index = 0
        return super().train_dataloader()


class KeepsAList(CountedBatches):
    """Keeps more than a number."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = []

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.seen.append(len(batch[0]))
        return batch[0] * (1 + sum(self.seen) / 1000), batch[1]

    def state_dict(self):
        return {"seen": list(self.seen)}

    def load_state_dict(self, state_dict):
        self.seen = list(state_dict["seen"])


class HalfLoads(CountedBatches):
    def load_state_dict(self, state_dict):
        self.index = state_dict["current_train_batch_index"] // 2


class SavesLess(CountedBatches):
    """Keeps of its number in which ten it is."""

    def state_dict(self):
        return {"tens": self.index // 10}

    def load_state_dict(self, state_dict):
        self.index = 10 * state_dict["tens"]


class LeavesOut(CountedBatches):
    """Counts by another number, which its state does not have."""

    turn = 0

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.turn += 1
        return batch[0] * (1 + self.turn / 10), batch[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("in_epoch", [None, every(1)], ids=["where an epoch starts", "in it"])
@pytest.mark.parametrize(
    "data", [CountedBatches, BeginsWithItsLoader, KeepsAList], ids=lambda kind: kind.__name__
)
def test_what_data_say_themselves_is_resumed(tmp_path, data, in_epoch):
    """Red before: a number in the state was refused as one that no checkpoint holds."""
    whole, _, _ = fit(tmp_path / "whole", data)
    told = {"minutes": 1000, "in_epoch": in_epoch} if in_epoch else {"minutes": 0}
    fit(tmp_path / "killed", data, kill=8, **told)
    found, at, said = fit(tmp_path / "killed", data, **told)
    assert (at, said) == ([7] if in_epoch else [5], [])
    assert found == whole


def test_data_that_load_another_state_end_the_attempt(tmp_path):
    fit(tmp_path, HalfLoads, kill=8, minutes=0)
    with pytest.raises(TwinrunError, match="HalfLoads does not come back to"):
        fit(tmp_path, HalfLoads, minutes=0)


@pytest.mark.parametrize(("data", "name"), [(LeavesOut, "turn"), (SavesLess, "index")])
def test_a_number_that_data_leave_out_of_their_state_is_refused(tmp_path, data, name):
    _, _, said = fit(tmp_path, data, minutes=0)
    # Of what is a class's at first a cure is named, too.
    (sentence,) = said
    assert sentence.startswith(
        f"no checkpoints are written: {data.__name__}.{name} changes while the training runs, and "
        f"no checkpoint holds it"
    )


class SetsByName(CountedBatches):
    """Sets what its state has by no name of it."""

    def load_state_dict(self, state_dict):
        for name, value in {"index": state_dict["current_train_batch_index"]}.items():
            setattr(self, name, value)


class SetsByMethod(CountedBatches):
    def go_to(self, index):
        self.index = index

    def load_state_dict(self, state_dict):
        self.go_to(state_dict["current_train_batch_index"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("data", [SetsByName, SetsByMethod])
def test_what_data_set_in_another_way_is_resumed(tmp_path, data):
    """Red before: refused as a number that no checkpoint holds."""
    assert_resumed(tmp_path, [7], kills=[8], data=data)


class Harder(Sampler):
    """Says where it is, and not how hard it makes it, which grows where an epoch ends."""

    def __init__(self):
        self.position, self.level, self.order = 0, 1, None

    def __len__(self):
        return 70

    def __iter__(self):
        self.order = [self.level * row % 71 - 1 for row in range(1, 71)]
        for row in self.order:
            self.position += 1
            yield row
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state_dict):
        self.position = state_dict["position"]


class LevelToo(Harder):
    def state_dict(self):
        return {**super().state_dict(), "level": self.level}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.level = state_dict["level"]


class HardPoints(Points):
    kind = Harder

    def setup(self, stage):
        self.order = self.kind()

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=self.order)


class HardPointsAndLevel(HardPoints):
    kind = LevelToo


class Hardens(Restless):
    def on_train_epoch_end(self):
        self.trainer.train_dataloader.sampler.level += 1


def test_a_number_that_a_sampler_leaves_out_of_its_state_is_refused(tmp_path):
    """Red before: a resumed training went on with the level of the beginning."""
    _, _, said = fit(tmp_path, HardPoints, Hardens, minutes=0)
    assert said == [
        "no checkpoints are written: Harder.level changes while the training runs, and no "
        "checkpoint holds it (its class's `state_dict` and `load_state_dict` may hold it)"
    ]


def test_one_that_it_says_is_resumed(tmp_path):
    assert_resumed(tmp_path, [7], kills=[8], data=HardPointsAndLevel, module=Hardens)

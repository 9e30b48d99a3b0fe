"""What callbacks keep is told from what a checkpoint holds, and Lightning keeps itself."""

import copy
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torchmetrics import MeanMetric

from twinrun.checkpoint.unsaved_state import changed_callbacks, states_of_callbacks


class Watches(pl.Callback):
    """Keeps hold of what the checkpoint holds."""

    def __init__(self, module, optimizer, scheduler):
        self.encoder, self.parameters = module.encoder, list(module.parameters())
        self.by_name = {"optimizer": optimizer, "scheduler": scheduler}
        self.optimizer, self.scheduler = optimizer, scheduler
        self.late = None

    def change(self):
        self.late = [self.encoder]


class Accumulates(pl.Callback):
    def __init__(self, *_):
        self.mean = MeanMetric()

    def change(self):
        self.mean.update(3.0)


class Counts(pl.Callback):
    def __init__(self, *_):
        self.counts = [lambda: 1, 0]

    def change(self):
        self.counts[1] += 1


class Clock(pl.Callback):
    def __init__(self, *_):
        self.began = 0.0

    def change(self):
        self.began = time.time()


class SaysNothingIsKept(Clock):
    def state_dict(self):
        return {}


class Rates(pl.callbacks.LearningRateMonitor):
    def __init__(self, *_):
        super().__init__()
        self.lrs, self.last_momentum_values = {}, {}

    def change(self):
        self.lrs["SGD"], self.last_momentum_values["SGD"] = [0.1], 0.9


class Stops(pl.callbacks.EarlyStopping):
    def __init__(self, *_):
        super().__init__("loss")

    def change(self):
        self.wait_count, self.best_score = 2, torch.tensor(1.0)


class StopsAndCounts(Stops):
    seen = 0

    def change(self):
        super().change()
        self.seen += 1


class Averages(pl.Callback):
    """Saves an average, and not the count by which it warms up."""

    def __init__(self, *_):
        self.average, self.count, self.rate = None, 0, 0.1

    def change(self):
        self.count += 1
        self.average = {"weight": torch.full((2,), 0.5)}

    def state_dict(self):
        return {"average": self.average}

    def load_state_dict(self, state_dict):
        self.average = state_dict["average"]


class AveragesAll(Averages):
    """Saves what it has by way of another method, a number of a tensor, and a path as a text."""

    def __init__(self, *_):
        super().__init__()
        self.best, self.file, self.seen = torch.tensor(0.0), Path("a"), deque(maxlen=2)

    def change(self):
        super().change()
        self.best, self.file = torch.tensor(2.5), Path("b")
        self.seen.append(3)

    def mine(self):
        return {"n": self.count, "best": self.best.item(), "file": str(self.file)}

    def state_dict(self):
        return {**super().state_dict(), **self.mine(), "seen": list(self.seen)}


class Coincides(Averages):
    """Saves a number that is by chance like the one that it forgets."""

    def state_dict(self):
        return {**super().state_dict(), "version": 1}


class AveragesANetwork(Averages):
    """Keeps an average in a network, and counts in an object."""

    def __init__(self, module, *_):
        self.network, self.of = copy.deepcopy(module.encoder), SimpleNamespace(updates=0, rate=0.5)

    def change(self):
        self.network.weight.data.add_(1)
        self.network.eval()
        self.of.updates += 1

    def state_dict(self):
        return {"network": self.network.state_dict(), "rate": self.of.rate}

    def load_state_dict(self, state_dict):
        self.network.load_state_dict(state_dict["network"])
        self.of.rate = state_dict["rate"]


class AveragesANetworkAndSaysSo(AveragesANetwork):
    def state_dict(self):
        return {**super().state_dict(), "of": vars(self.of).copy()}


class WaitsForItsState(AveragesAll):
    """Has no state before there is one."""

    def state_dict(self):
        return super().state_dict() if self.count else {}


class WaitsAndCounts(Averages):
    """Has no state before there is an average, and counts by then."""

    def change(self):
        self.count += 1

    def state_dict(self):
        return {} if self.average is None else {"average": self.average, "count": self.count}


class NeverHasAState(Averages):
    """Says that nothing is to be kept, and loads nothing."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


class SaysAllByItsDictionary(AveragesAll):
    def state_dict(self):
        return dict(self.__dict__)


class Derived(Averages):
    """Has its count from what is saved."""

    def change(self):
        super().change()
        self.average["count"] = self.count

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.count = self.average["count"]


class NestsACount(Averages):
    """Saves the count of another object, and not its own."""

    def __init__(self, *_):
        super().__init__()
        self.helper = SimpleNamespace(count=0)

    def change(self):
        self.count += 1
        self.helper.count += 1

    def state_dict(self):
        return {"inner": vars(self.helper).copy()}

    def load_state_dict(self, state_dict):
        vars(self.helper).update(state_dict["inner"])


class NestsBoth(NestsACount):
    def state_dict(self):
        return {"inner": {"helper": super().state_dict()["inner"], "count": self.count}}

    def load_state_dict(self, state_dict):
        super().load_state_dict({"inner": state_dict["inner"]["helper"]})
        self.count = state_dict["inner"]["count"]


class Shadow:
    """Has a copy of the weights from the first update on."""

    def __init__(self):
        self.updates, self.weights = 0, None


class AveragesInAnObject(Averages):
    """Saves all that another object has, which holds no tensors at first."""

    def __init__(self, *_):
        super().__init__()
        self.shadow = Shadow()

    def change(self):
        self.shadow.updates, self.shadow.weights = 1, {"weight": torch.full((2,), 0.5)}

    def state_dict(self):
        return {"inner": vars(self.shadow).copy()}

    def load_state_dict(self, state_dict):
        vars(self.shadow).update(state_dict["inner"])


class SaysLists(Averages):
    """Saves an array and a tensor as lists, beside an object that is no plain data."""

    def __init__(self, *_):
        super().__init__()
        self.array, self.tensor, self.shadow = np.ones(2), torch.ones(2, 2), Shadow()

    def change(self):
        self.array, self.tensor = self.array * 0.3, self.tensor * 0.3
        self.shadow.updates = 3

    def state_dict(self):
        lists = {"array": self.array.tolist(), "tensor": self.tensor.tolist()}
        return {**lists, "shadow": {"updates": self.shadow.updates}}

    def load_state_dict(self, state_dict):
        self.array, self.tensor = np.array(state_dict["array"]), torch.tensor(state_dict["tensor"])
        self.shadow = Shadow()
        self.shadow.updates = state_dict["shadow"]["updates"]


class LoadsLessExactly(SaysLists):
    """Loads an array of 32 bits as one of 64."""

    def __init__(self, *_):
        super().__init__()
        self.array = np.ones(2, dtype=np.float32)


class StopsAndSaysSo(StopsAndCounts):
    def state_dict(self):
        return {**super().state_dict(), "mine": 1}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Averages, ["count"]),
        (AveragesAll, []),
        (Coincides, ["count"]),
        (AveragesANetwork, ["of.updates"]),
        (AveragesANetworkAndSaysSo, []),
        (WaitsForItsState, []),
        (WaitsAndCounts, ["count"]),
        (NeverHasAState, []),
        (NestsACount, ["count"]),
        (NestsBoth, []),
        (SaysAllByItsDictionary, []),
        (Derived, []),
        (AveragesInAnObject, []),
        (SaysLists, []),
        (LoadsLessExactly, ["array"]),
        (StopsAndSaysSo, ["seen"]),
        (Watches, []),
        (Accumulates, ["mean"]),
        (Counts, ["counts"]),
        (Clock, ["began"]),
        (SaysNothingIsKept, []),
        (Rates, []),
        (Stops, []),
        (StopsAndCounts, ["seen"]),
    ],
)
def test_only_what_a_callback_keeps_and_nobody_saves_is_named(kind, names):
    module = pl.LightningModule()
    module.encoder = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(module.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    callback = kind(module, optimizer, scheduler)
    trainer = SimpleNamespace(
        callbacks=[callback],
        lightning_module=module,
        optimizers=[optimizer],
        lr_scheduler_configs=[SimpleNamespace(scheduler=scheduler)],
    )
    before = states_of_callbacks(trainer)
    assert list(changed_callbacks(before, states_of_callbacks(trainer))) == []
    module.encoder(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    scheduler.step()
    callback.change()
    found = list(changed_callbacks(before, states_of_callbacks(trainer)))
    assert len(found) == len(names)
    for name, sentence in zip(names, found, strict=True):
        assert sentence.startswith(f"{kind.__name__}.{name} changes while the training runs")
        is_own = "no state_dict" not in sentence
        assert ("returns {}" if not is_own else "the state_dict does not hold it") in sentence
        assert is_own == ("state_dict" in vars(kind) or isinstance(callback, Averages))


class SavesItsDelta(pl.callbacks.EarlyStopping):
    def state_dict(self):
        return {**super().state_dict(), "min_delta": self.min_delta}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.min_delta = state_dict["min_delta"]


class SavesItAll(SavesItsDelta):
    def load_state_dict(self, state_dict):
        vars(self).update(state_dict)


@pytest.mark.parametrize(
    ("callback", "name", "value"),
    [
        (pl.callbacks.EarlyStopping("loss"), "min_delta", 1.0),
        (pl.callbacks.EarlyStopping("loss"), "_check_on_train_epoch_end", True),
        (pl.callbacks.ModelCheckpoint(), "monitor", "loss"),
        (pl.callbacks.ModelCheckpoint(monitor="loss"), "dirpath", "elsewhere"),
        (pl.callbacks.ModelCheckpoint(), "_every_n_epochs", 2),
        (pl.callbacks.GradientAccumulationScheduler({1: 2}), "scheduling", {0: 1, 1: 3}),
        (pl.callbacks.Timer("00:00:10:00"), "_duration", 1.0),
        (pl.callbacks.EarlyStopping("loss"), "patience", None),
        (SavesItsDelta("loss"), "min_delta", None),
        (SavesItAll("loss"), "min_delta", None),
        (pl.callbacks.ModelCheckpoint(), "last_model_path", None),
    ],
)
def test_what_a_callback_of_lightnings_was_given_may_change_if_it_loads_that(callback, name, value):
    """Red before: a resumed training had what it was given at first, if only the state names it."""
    trainer = SimpleNamespace(
        callbacks=[callback],
        lightning_module=pl.LightningModule(),
        optimizers=[],
        lr_scheduler_configs=[],
    )
    before = states_of_callbacks(trainer)
    setattr(callback, name, 2 if value is None else value)
    callback.wait_count = 2
    found = list(changed_callbacks(before, states_of_callbacks(trainer)))
    why = "changes while the training runs, and load_state_dict does not set it"
    named = [] if value is None else [f"{type(callback).__name__}.{name} {why}"]
    assert found == named

"""Attributes that hooks of a resumed training alone would have changed ahead of its first step.

Red before: they were as those hooks had left them; a training ended whose next step showed that.
"""

import copy
import re
import tempfile
import time
import uuid

import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, fit
from small import Points, Small
from torchmetrics import MeanMetric
from tqdm import tqdm

from twinrun.errors import TwinrunError


class Weighed(Small):
    """Weighs its loss by what hooks have set."""

    weight = 1.0

    def __init__(self):
        super().__init__()
        self.weight = 1.0

    def training_step(self, batch, batch_idx):
        return self.weight * super().training_step(batch, batch_idx)


class GoodEnough(Weighed):
    """Looks at the first batch of a sanity check whether it has learnt something."""

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        if self.trainer.sanity_checking and self.calls:
            self.weight = 0.5


class CountsSteps(Weighed):
    """Asks whether it is resumed."""

    def on_train_start(self):
        if self.trainer.global_step:
            self.weight = 0.5


class Reloads(Weighed):
    """Sets as it is loaded what a hook sets back, as in any training."""

    def on_load_checkpoint(self, checkpoint):
        self.weight = 0.5

    def on_train_start(self):
        self.weight = 1.0


class OfTheClass(Small):
    """Asks likewise, of what only the class has: red at 11f271a7, and so are all that follow."""

    weight = 1.0

    def training_step(self, batch, batch_idx):
        return self.weight * super().training_step(batch, batch_idx)

    def on_train_start(self):
        if self.trainer.global_step:
            self.weight = 0.5


class IsLoaded(OfTheClass):
    """Is told that it is resumed."""

    def on_train_start(self):
        pass

    def on_load_checkpoint(self, checkpoint):
        self.weight = 0.5


class IsLoadedOnce(IsLoaded, Weighed):
    """Likewise, of what an instance has."""


class Loads(OfTheClass):
    """Notes that weights have been loaded."""

    def on_train_start(self):
        pass

    def load_state_dict(self, state, strict=True, **more):
        self.weight = 0.5
        return super().load_state_dict(state, strict=strict, **more)


class Knows(Small):
    """Goes by whether there is an attribute."""

    def on_train_start(self):
        if self.trainer.global_step:
            self.first_step = self.trainer.global_step

    def training_step(self, batch, batch_idx):
        weight = 0.5 if hasattr(self, "first_step") else 1.0
        return weight * super().training_step(batch, batch_idx)


class Phased(Small):
    """Is told a phase, as a text."""

    first, second = "first", "second"

    def __init__(self):
        super().__init__()
        self.phase = self.first

    def on_load_checkpoint(self, checkpoint):
        self.phase = self.second

    def training_step(self, batch, batch_idx):
        weight = 0.5 if self.phase == self.second and self.current_epoch == 2 else 1.0
        return weight * super().training_step(batch, batch_idx)


class OfAMetric(Phased):
    """Likewise, with a slash in it: red at 9f8fbdc4."""

    first, second = "train/first", "train/second"


class PhasedLate(Phased):
    """Likewise, from None on, where it is asked whether it is resumed."""

    def __init__(self):
        super().__init__()
        self.phase = None

    def on_load_checkpoint(self, checkpoint):
        pass

    def on_fit_start(self):
        if self.trainer.ckpt_path:
            self.phase = "second"


class IsNamed(Small):
    """Has a name that its checkpoint holds: red at 92b855ad.

    It has the path of that, too, only where it is resumed: there is None in the first process.
    """

    def __init__(self):
        super().__init__()
        self.name, self.path, self.loaded = uuid.uuid4().hex, None, None

    def on_save_checkpoint(self, checkpoint):
        checkpoint["name"] = self.name

    def on_load_checkpoint(self, checkpoint):
        self.name = checkpoint["name"]

    def on_fit_start(self):
        self.path = self.trainer.ckpt_path and str(self.trainer.ckpt_path)
        self.names = [*getattr(type(self), "names", ()), self.name]

    def on_train_end(self):
        assert self.name == self.names[-1]
        assert self.path is None


class MakesALayer(Small):
    """Has None until the training begins, and a layer then."""

    def __init__(self):
        super().__init__()
        self.noise = None

    def on_fit_start(self):
        self.noise = torch.nn.Dropout(0.5)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        if self.noise is not None and self.current_epoch == 2:
            inputs = self.noise(inputs)
        return super().training_step((inputs, targets), batch_idx)


class FillsLazyLayers(Small):
    """Gives lazy layers their sizes in `setup`, as torch's documentation has it."""

    def __init__(self):
        super().__init__()
        self.lazy = torch.nn.LazyLinear(1, bias=False)

    def setup(self, stage):
        self.lazy(torch.zeros(1, 4))

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + self.lazy(batch[0]).square().mean()


class MakesAMetric(Small):
    """Likewise, with a metric."""

    def __init__(self):
        super().__init__()
        self.metric = None

    def on_fit_start(self):
        self.metric = MeanMetric()

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        self.metric.update(batch[0].mean())
        self.log("mean", self.metric)


class Drops(pl.Callback):
    """Drops the learning rate in the third epoch of this training."""

    start = 0

    def __init__(self):
        self.start = 0

    def on_train_start(self, trainer, pl_module):
        self.start = trainer.current_epoch

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch - self.start == 2:
            for group in trainer.optimizers[0].param_groups:
                group["lr"] *= 0.1


class DropsByTheClass(Drops):
    """Likewise, by what only the class has at first."""

    def __init__(self):
        pass

    def on_train_start(self, trainer, pl_module):
        if trainer.current_epoch:
            self.start = trainer.current_epoch


class DropsWithAState(Drops):
    """Keeps another thing in a state of its own."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def on_train_batch_end(self, *_):
        self.calls += 1

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


class DropsInAPhase(DropsWithAState):
    """Is told a phase, as a text, beside its state."""

    phase = "first"

    def __init__(self):
        super().__init__()
        self.phase = "first"

    def on_train_start(self, trainer, pl_module):
        self.phase = "second" if trainer.ckpt_path else "first"
        self.start = 0 if self.phase == "first" else 1


class KeepsPending(DropsWithAState):
    """Is told its state ahead of the hook that puts it where it belongs."""

    def __init__(self):
        super().__init__()
        self.calls, self.pending = None, None

    def on_train_start(self, trainer, pl_module):
        super().on_train_start(trainer, pl_module)
        self.calls, self.pending = self.pending or 0, None

    def load_state_dict(self, state):
        self.pending = state["calls"]


class CountsTime(DropsWithAState):
    """Counts by a clock that is another one in each process; what was before it is told."""

    def __init__(self):
        super().__init__()
        self.before, self.total, self.clock = 0, 1000, 0.0

    def on_train_start(self, trainer, pl_module):
        self.clock = time.time()

    def state_dict(self):
        return {"calls": self.calls, "total": self.total}

    def load_state_dict(self, state):
        self.calls = state["calls"]
        self.before = self.total = state["total"]

    def on_train_end(self, trainer, pl_module):
        assert self.before == (1000 if trainer.ckpt_path else 0)


class Warms(DropsWithAState):
    """Takes from the rate, or from the weights, of which it keeps nothing in its state."""

    base = 0.0

    def on_train_start(self, trainer, pl_module):
        self.base = self.taken(trainer.optimizers[0].param_groups, [*pl_module.parameters()])

    def taken(self, groups, parameters):
        return groups[0]["lr"]

    def factor(self):
        return self.base

    def on_train_epoch_start(self, trainer, pl_module):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.1 if trainer.current_epoch < 2 else self.factor() / 2


class WarmsOnce(Warms):
    """Likewise, from None on."""

    base = None

    def on_train_start(self, trainer, pl_module):
        if self.base is None:
            super().on_train_start(trainer, pl_module)


class WarmsEach(Warms):
    """Likewise, of each group."""

    def taken(self, groups, parameters):
        return [{"rate": group["lr"]} for group in groups]

    def factor(self):
        return self.base[0]["rate"]


class ByAnchor(Warms):
    """Likewise, by the weights of the start."""

    def taken(self, groups, parameters):
        return [parameter.detach().clone() for parameter in parameters]

    def factor(self):
        return self.base[0].abs().mean().item()


class ByRanks(Warms):
    """Likewise, by a long list."""

    def taken(self, groups, parameters):
        return [*range(parameters[0].abs().argmax().item(), 1000)]

    def factor(self):
        return 1 / (1 + self.base[0])


class ByNorm(Warms):
    """Likewise, by a number of theirs."""

    def taken(self, groups, parameters):
        return parameters[0].norm().item()


class ByTensor(ByNorm):
    """Likewise, by a tensor."""

    def taken(self, groups, parameters):
        return parameters[0].detach().norm()


LAST = {}


class KnowsWhen(Drops):
    """Goes by a clock, which counts from another moment in each process."""

    def of_now(self):
        return {
            "began": time.monotonic(),
            "began_ns": [time.time_ns()],
            # Red at 92b855ad, and so are all that follow: one to come was no number of a clock.
            "deadline": time.time() + 1000,
            "until": time.perf_counter() + 1000,
            "active": time.time() - 1000,
        }

    def on_train_start(self, trainer, pl_module):
        super().on_train_start(trainer, pl_module)
        now = self.of_now()
        LAST.clear()
        LAST.update(copy.deepcopy(now))
        vars(self).update(now)

    def on_train_end(self, trainer, pl_module):
        assert {name: vars(self)[name] for name in LAST} == LAST


class KnowsWhenWithAState(KnowsWhen, DropsWithAState):
    """Likewise, beside a state, and where its files are."""

    def of_now(self):
        return {**super().of_now(), "folders": [tempfile.mkdtemp()]}


LATER = time.perf_counter() + 50_000.25  # a deadline, or a loss in dollars


class ByLoss(ByNorm):
    """Likewise, by one as large as a number of the machine's clock: red at 9f8fbdc4."""

    def taken(self, groups, parameters):
        return LATER - 1000 * super().taken(groups, parameters)

    def factor(self):
        return (LATER - self.base) / 1000


class ByLosses(ByLoss):
    """Likewise, beside a deadline and a folder."""

    def taken(self, groups, parameters):
        until = time.perf_counter() + 100
        return {"loss": super().taken(groups, parameters), "until": until, "in": tempfile.mkdtemp()}

    def factor(self):
        return (LATER - self.base["loss"]) / 1000


class InAPhase(ByNorm):
    """Likewise, beside the name of a phase: red at 9f8fbdc4."""

    def taken(self, groups, parameters):
        return {"phase": "warmup", "norm": super().taken(groups, parameters)}

    def factor(self):
        return self.base["norm"]


class FromEpoch(Points):
    """Notes in which epoch its loader was made, and weighs what comes two epochs later."""

    def __init__(self, size):
        super().__init__(size)
        self.first = 0

    def train_dataloader(self):
        self.first = self.trainer.current_epoch
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        inputs, targets = batch
        return [inputs * (0.5 if self.trainer.current_epoch - self.first == 2 else 1.0), targets]


class Weighs(FromEpoch):
    """Weighs by what follows from that epoch, in a number and a list."""

    def train_dataloader(self):
        self.share = 1 / (1 + self.trainer.current_epoch)
        self.shares = [self.share, None]
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        inputs, targets = batch
        is_last = self.trainer.current_epoch == 3
        return [inputs * (self.share * self.shares[0] if is_last else 1.0), targets]


class TakesAnObject(CountsSteps):
    """Likewise, with what no checkpoint can hold."""

    def __init__(self):
        super().__init__()
        self.weigh = abs

    def on_train_start(self):
        if self.trainer.global_step:
            self.weigh = round

    def training_step(self, batch, batch_idx):
        return self.weigh(1.4) * super().training_step(batch, batch_idx)


OF_MODULES = [
    *(GoodEnough, CountsSteps, Reloads, OfTheClass, IsLoaded, IsLoadedOnce, Loads, Knows),
    *(MakesALayer, FillsLazyLayers, MakesAMetric, Phased, OfAMetric, PhasedLate, IsNamed),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kill", "at"), [(4, 3), (8, 7)])
@pytest.mark.parametrize("module", OF_MODULES)
def test_they_are_as_in_the_uninterrupted_training(tmp_path, module, kill, at):
    options = {"module": module, "num_sanity_val_steps": 2, "max_epochs": 3}
    assert_resumed(tmp_path, [at], kills=[kill], **options)


class TakesALayer(Small):
    """Keeps a copy of a layer as it was where the training began, from None on."""

    def __init__(self):
        super().__init__()
        self.anchor = ()

    def on_fit_start(self):
        self.anchor = (copy.deepcopy(self.hidden),)


class AddsALayer(Small):
    """Has a layer more where it is resumed."""

    def on_train_start(self):
        if self.trainer.global_step:
            self.noise = torch.nn.Dropout(0.5)


class KeepsALayer(pl.Callback):
    """Likewise, in a callback."""

    def __init__(self):
        self.anchor = None

    def on_fit_start(self, trainer, pl_module):
        self.anchor = copy.deepcopy(pl_module.hidden)


class ShowsBar(pl.Callback):
    """Shows the epochs in a bar."""

    def __init__(self):
        self.bar = None

    def on_train_start(self, trainer, pl_module):
        self.bar = tqdm(total=trainer.max_epochs, initial=trainer.current_epoch, disable=False)

    def on_train_epoch_end(self, *_):
        self.bar.update(1)


class HasABar(Small):
    """Likewise, in a module, switched off or on."""

    is_off = False

    def on_train_start(self):
        self.bar = tqdm(total=self.trainer.max_epochs, disable=self.is_off)

    def on_train_batch_end(self, *_):
        self.bar.update(1)


class HasNoBar(HasABar):
    """Likewise."""

    is_off = True


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("kill", "at"), [(8, 7), (12, 11)])
@pytest.mark.parametrize(
    "kind",
    [
        *(Drops, DropsByTheClass, DropsWithAState, DropsInAPhase, KeepsPending, CountsTime),
        *(KnowsWhen, KnowsWhenWithAState),
        *(Warms, WarmsOnce, WarmsEach, ByAnchor, ByRanks, ByNorm, ByTensor),
        *(ByLoss, ByLosses, InAPhase),
    ],
)
def test_so_are_those_of_callbacks(tmp_path, kind, kill, at):
    options = {"callbacks": Anew([kind]), "max_epochs": 4}
    assert_resumed(tmp_path, [at], kills=[kill], **options)


@pytest.mark.parametrize(("kill", "at"), [(8, 7), (12, 11)])
@pytest.mark.parametrize("data", [FromEpoch, Weighs])
def test_so_are_those_of_a_data_module(tmp_path, data, kill, at):
    assert_resumed(tmp_path, [at], kills=[kill], data=data, max_epochs=4)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"module": TakesAnObject}, "TakesAnObject.weigh"),
        # Red at d6b48169: what the constructor had set was put back, None, in silence.
        ({"module": TakesALayer}, "TakesALayer.anchor"),
        ({"callbacks": Anew([KeepsALayer])}, "KeepsALayer.anchor"),
        # Red at d6b48169: AttributeError, as the layer's `training` was removed.
        ({"module": AddsALayer}, "AddsALayer.noise"),
    ],
)
def test_what_no_checkpoint_holds_ends_the_attempt(tmp_path, options, name):
    options |= {"in_epoch": lambda *_: True, "max_epochs": 4}
    fit(tmp_path, kill=8, **options)
    with pytest.raises(TwinrunError, match=rf"^{re.escape(name)} is (not what it was|there only)"):
        fit(tmp_path, **options)


def test_a_bar_of_a_callbacks_is_no_reason(tmp_path):
    """Red before: each attempt ended, as a bar of another start is another one."""
    assert_resumed(tmp_path, [7], kills=[8], callbacks=Anew([ShowsBar]), max_epochs=3)


@pytest.mark.parametrize("module", [HasABar, HasNoBar])
def test_a_bar_of_a_module_is_no_reason(tmp_path, module):
    """Red at 9b297e79: it counts, and it is another one where the training is resumed."""
    assert_resumed(tmp_path, [3], kills=[4], module=module, max_epochs=3)

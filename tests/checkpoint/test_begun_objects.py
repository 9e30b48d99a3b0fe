"""What first hooks set that is no number or text: objects of a user's own, arrays, members, names.

Red at 9f8fbdc4, but for what says otherwise: in silence, or each attempt ended.
"""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import random
import time
import uuid
from typing import NamedTuple

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Points, Small
from tqdm import tqdm
from tqdm.auto import tqdm as tqdm_auto

from twinrun.errors import TwinrunError


class Counts(pl.Callback):
    """Has a state, which holds another thing than what its first hook sets."""

    def __init__(self):
        self.calls, self.held = 0, None

    def on_train_start(self, trainer, pl_module):
        self.held = self.taken(pl_module.hidden.weight.detach().norm().item(), trainer)

    def on_train_epoch_start(self, trainer, pl_module):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.1 if trainer.current_epoch < 2 else self.factor() / 2

    def on_train_batch_end(self, *_):
        self.calls += 1

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]

    def factor(self):
        return self.held.norm


@dataclasses.dataclass
class Norm:
    norm: float
    of: str = "hidden"


class NormTuple(NamedTuple):
    norm: float
    of: str = "hidden"


class WithADataclass(Counts):
    def taken(self, norm, trainer):
        return Norm(norm)


class WithATuple(Counts):
    def taken(self, norm, trainer):
        return NormTuple(norm)


class WithAnArray(Counts):
    """A part of one: a checkpoint can hold no copy of that."""

    def taken(self, norm, trainer):
        return np.array([norm, 1.0])[:1]

    def factor(self):
        return float(self.held[0])


class WithAWord(WithADataclass):
    """Likewise, by a word: it is what a first hook chooses."""

    def taken(self, norm, trainer):
        return Norm(1.0, "second" if trainer.global_step else "first")

    def factor(self):
        return 0.1 if self.held.of == "first" else 0.4


class SaysNothing(WithADataclass):
    """Says that there is nothing to keep."""

    state_dict = pl.Callback.state_dict
    load_state_dict = pl.Callback.load_state_dict

    def on_train_batch_end(self, *_):
        pass


class Nested(Counts):
    """Red at b3a03f7a, as are those below: in silence."""

    def taken(self, norm, trainer):
        return {"layers": [Norm(0.5), Norm(norm)], "day": datetime.date(2026, 1, 1)}

    def factor(self):
        return self.held["layers"][1].norm


class Tuples(Nested):
    def taken(self, norm, trainer):
        return {"layers": (Norm(0.5), NormTuple(norm)), "range": range(3)}


class Copies(Counts):
    """Of the parameters that training begins with, as L2-SP has them."""

    def taken(self, norm, trainer):
        return {n: copy.deepcopy(p) for n, p in trainer.lightning_module.named_parameters()}

    def factor(self):
        return self.held["hidden.weight"].detach().norm().item()


class Dotted(dict):
    __getattr__ = dict.__getitem__


class InADictionary(WithADataclass):
    def taken(self, norm, trainer):
        return Dotted(norm=norm, name="hidden")


class InADefault(Counts):
    def taken(self, norm, trainer):
        return collections.defaultdict(lambda: 0.0, norm=norm)

    def factor(self):
        return self.held["norm"]


class Arrays(Counts):
    def taken(self, norm, trainer):
        return [p.detach().norm(dim=-1).numpy() for p in trainer.lightning_module.parameters()]

    def factor(self):
        return float(np.mean(self.held[0]))


class Node:
    """Knows what it lies in."""

    def __init__(self, norm, above=None):
        self.norm, self.above = norm, above
        self.below = [] if above else [Node(norm / 2, self)]


class InATree(Counts):
    def taken(self, norm, trainer):
        return Node(norm)

    def factor(self):
        return self.held.below[0].norm


class Stateless(pl.Callback):
    """Has no state: red at b3a03f7a as the attempt ended."""

    def on_train_start(self, trainer, pl_module):
        self.held = Norm(pl_module.hidden.weight.detach().norm().item())

    on_train_epoch_start, factor = Counts.on_train_epoch_start, Counts.factor


class OfAPhase(Small):
    """Has a word that its constructor does not know. Red at b3a03f7a: in silence."""

    phase = None

    def on_train_start(self):
        self.phase = "second" if self.trainer.global_step else "first"

    def on_train_epoch_start(self):
        rate = 0.1 if self.trainer.current_epoch < 2 or self.phase == "first" else 0.4
        self.optimizers().param_groups[0]["lr"] = rate


class Scales:
    """Can be called, as a loss or a schedule of one's own."""

    def __init__(self, by):
        self.by = by

    def __call__(self):
        return self.by


class IsCalled(Counts):
    def taken(self, norm, trainer):
        return Scales(norm)

    def factor(self):
        return self.held()


class IsCalledWithout(Stateless):
    def on_train_start(self, trainer, pl_module):
        self.held = Scales(pl_module.hidden.weight.detach().norm().item())

    def factor(self):
        return self.held()


class OnlyResumed(Counts):
    """Sets something only where it is resumed. Red at b3a03f7a: it stayed."""

    def taken(self, norm, trainer):
        if trainer.global_step:
            self.more = 4

    def factor(self):
        return 0.1 * getattr(self, "more", 1)


class Draws:
    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def random(self):
        return self.generator.random()


class WithAGenerator(Counts):
    """Draws late, by what its first hook has seeded. Red at 1aee3885, as are those below."""

    made = staticmethod(np.random.default_rng)

    def taken(self, norm, trainer):
        return self.made(trainer.global_step)

    def factor(self):
        return self.held.random()


class WithAState(WithAGenerator):
    made = staticmethod(np.random.RandomState)

    def factor(self):
        return self.held.random_sample()


class WithPythons(WithAGenerator):
    made = staticmethod(random.Random)


class WithTorchs(WithAGenerator):
    made = staticmethod(lambda seed: [torch.Generator().manual_seed(seed)])

    def factor(self):
        return torch.rand((), generator=self.held[0]).item()


class Unseeded(WithAGenerator):
    made = staticmethod(lambda step: Draws(None if step else 7))


class DrawsInAnObject(WithAGenerator):
    made = Draws


class StatelessDraws(Stateless):
    def on_train_start(self, trainer, pl_module):
        self.held = Draws(trainer.global_step)

    factor = WithAGenerator.factor


class InAClosure(Counts):
    """Red at 9ab27237, as are those below: a function was its name alone, in silence."""

    def taken(self, norm, trainer):
        began = time.monotonic()
        return lambda: norm if time.monotonic() >= began else 0

    def factor(self):
        return self.held()


class InDefaults(InAClosure):
    def taken(self, norm, trainer):
        def scaled(*, by=norm, times=(1.0, norm)):
            return by * times[0] / times[1] * by

        return scaled


class StatelessClosure(Stateless):
    def on_train_start(self, trainer, pl_module):
        rates = [group["lr"] for group in trainer.optimizers[0].param_groups]
        norm = pl_module.hidden.weight.detach().norm()
        self.held = lambda: norm.item() / 4 + rates[0]

    factor = InAClosure.factor


class OfAModel:
    """A helper, as those for averages of weights."""

    def __init__(self, model, optimizers=()):
        self.model, self.optimizers = model, optimizers
        self.norm = model.hidden.weight.detach().norm().item()


class HoldsTheModel(Counts):
    """Red at 1e875441, as are those below: the attempt ended."""

    def taken(self, norm, trainer):
        return OfAModel(trainer.lightning_module)


class HoldsOptimizers(Stateless):
    def on_train_start(self, trainer, pl_module):
        self.held = OfAModel(pl_module, [*trainer.optimizers])


class HoldsItself(Small):
    def on_train_start(self):
        self.helper = OfAModel(self)

    def on_train_epoch_start(self):
        rate = 0.1 if self.trainer.current_epoch < 2 else self.helper.norm / 2
        self.optimizers().param_groups[0]["lr"] = rate


SET_AGAIN = [
    OnlyResumed,
    IsCalled,
    IsCalledWithout,
    WithADataclass,
    WithATuple,
    WithAnArray,
    WithAWord,
    SaysNothing,
    Nested,
    Tuples,
]
SET_AGAIN += [
    HoldsTheModel,
    HoldsOptimizers,
    InATree,
    Copies,
    InADictionary,
    InADefault,
    Arrays,
    Stateless,
]


DRAWING = [WithAGenerator, WithAState, WithPythons, WithTorchs, Unseeded, DrawsInAnObject]
SET_AGAIN += [*DRAWING, StatelessDraws, InAClosure, InDefaults, StatelessClosure]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", SET_AGAIN)
def test_what_a_first_hook_takes_from_the_weights_is_set_again(tmp_path, kind):
    options = {"callbacks": Anew([kind]), "max_epochs": 4, "module": Small}
    assert_resumed(tmp_path, [7], kills=[8], **options)


class HoldsDraws(Small):
    def on_train_start(self):
        self.draws = Draws(self.trainer.global_step)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * self.draws.random() if self.current_epoch == 3 else loss


class HoldsAClosure(Small):
    def on_train_start(self):
        norm = self.hidden.weight.detach().norm().item()
        self.scale = lambda: norm + self.current_epoch

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * self.scale() if self.current_epoch == 3 else loss


@pytest.mark.parametrize("kind", [OfAPhase, HoldsItself, HoldsDraws, HoldsAClosure])
def test_so_is_what_no_constructor_of_a_module_knows(tmp_path, kind):
    assert_resumed(tmp_path, [7], kills=[8], module=kind, max_epochs=4)


class WithADecimal(Counts):
    def taken(self, norm, trainer):
        return decimal.Decimal(str(norm))


class WithASet(Counts):
    def taken(self, norm, trainer):
        return {(round(1000 * norm), 1)}


@pytest.mark.parametrize("kind", [WithADecimal, WithASet])
def test_what_cannot_be_set_again_ends_the_attempt(tmp_path, kind):
    class Uses(kind):
        def factor(self):
            return 0.1

    Uses.__name__ = kind.__name__
    options = {"callbacks": Anew([Uses]), "max_epochs": 4, "in_epoch": every(1), "module": Small}
    fit(tmp_path, kill=8, **options)
    says = rf"^{kind.__name__}\.held is not what it was where the training began \(what `__init__`"
    with pytest.raises(TwinrunError, match=says):
        fit(tmp_path, **options)


class SavesDataclass(WithADataclass):
    """Saves it: loading it brings it back, whatever the first hook makes of it."""

    def state_dict(self):
        return {"calls": self.calls, "held": dataclasses.asdict(self.held)}

    def load_state_dict(self, state):
        self.calls, self.held = state["calls"], Norm(**state["held"])


class OfStart(Counts):
    """Makes its own of the process, beside its state."""

    def factor(self):
        return 0.1


class Watch:
    """Counts seconds, since it was started."""

    def __init__(self, name):
        self.name, self.began, self.at = name, time.perf_counter(), time.time()
        self.run = f"run-{uuid.uuid4().hex}"


class WithAWatch(OfStart):
    def taken(self, norm, trainer):
        return Watch("steps")


class Named(OfStart):
    def taken(self, norm, trainer):
        return [uuid.uuid4(), time.localtime(), np.datetime64("now")][self.which]


class NamedByMoment(Named):
    which = 1


class NamedByNumpy(Named):
    which = 2


class NamedByNumber(Named):
    which = 0


class HasAWatch(Small):
    """Likewise, in a module."""

    def on_train_start(self):
        self.watch, self.name, self.since = Watch("steps"), uuid.uuid4(), time.localtime()


class Phase(str, enum.Enum):  # noqa: UP042  as ever so many are written
    FIRST, SECOND = "first", "second"


class InAPhase(Counts):
    """Sets a member of one of texts only where it is resumed."""

    phase = Phase.FIRST

    def __init__(self):
        super().__init__()
        self.phase = Phase.FIRST

    def taken(self, norm, trainer):
        if trainer.global_step:
            self.phase = Phase.SECOND

    def factor(self):
        return 0.1 if self.phase is Phase.FIRST else 0.4


class ShowsBar(Small):
    """Goes through no range of it: it is told."""

    kind = tqdm

    def on_train_start(self):
        self.bar = type(self).kind(range(self.trainer.max_epochs), disable=False)

    def on_train_batch_end(self, *_):
        self.bar.update(1)


class ShowsBarOfAuto(ShowsBar):
    kind = tqdm_auto


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kill", "at"), [(8, 7), (12, 11)])
@pytest.mark.parametrize(
    "options",
    [
        {"callbacks": Anew([kind])}
        for kind in (SavesDataclass, WithAWatch, NamedByNumber, NamedByMoment, NamedByNumpy)
    ]
    + [{"callbacks": Anew([kind])} for kind in (InAPhase,)]
    + [{"module": kind} for kind in (ShowsBar, ShowsBarOfAuto, HasAWatch)],
    ids=[
        *("saves", "watch", "number", "moment", "numpy", "phase", "bar", "bar-of-auto", "module"),
    ],
)
def test_the_training_is_resumed_and_the_same(tmp_path, options, kill, at):
    options = {"module": Small, "max_epochs": 4, **options}
    assert_resumed(tmp_path, [at], kills=[kill], **options)


class Share(enum.Enum):
    ALL, HALF = 1.0, 0.5


class Weighs(Points):
    """Weighs what comes two epochs after its loader was made, by what that set."""

    @staticmethod
    def of(epoch):
        return np.clip(1 / (1 + epoch), 0.1, 1.0)

    def train_dataloader(self):
        self.share = self.of(self.trainer.current_epoch)
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        inputs, targets = batch
        share = self.share.value if isinstance(self.share, Share) else float(self.share)
        return [inputs * (share if self.trainer.current_epoch == 3 else 1.0), targets]


class WeighsByTensor(Weighs):
    @staticmethod
    def of(epoch):
        return torch.tensor(1 / (1 + epoch))


class WeighsByMember(Weighs):
    @staticmethod
    def of(epoch):
        return Share.HALF if epoch else Share.ALL


class WeighsByObject(Weighs):
    @staticmethod
    def of(epoch):
        return IsShare(1 / (1 + epoch))


class IsShare:
    def __init__(self, share):
        self.share = share

    def __float__(self):
        return self.share


class WeighsByCall(Weighs):
    """Red at abcdd7f8: what can be called was its name alone."""

    @staticmethod
    def of(epoch):
        return IsCalledShare(1 / (1 + epoch))


class IsCalledShare(IsShare):
    def __call__(self):
        return self.share


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "data", [WeighsByCall, WeighsByObject, Weighs, WeighsByTensor, WeighsByMember]
)
def test_so_are_numbers_of_a_data_module(tmp_path, data):
    assert_resumed(tmp_path, [7], kills=[8], data=data, module=Small, max_epochs=4)

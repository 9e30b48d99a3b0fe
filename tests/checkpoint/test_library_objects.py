"""What lies in objects of torch, NumPy and Lightning that somebody keeps in an attribute."""

import collections
import types

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.distributions import Categorical, Normal
from torch.quasirandom import SobolEngine
from torch.utils.data import DataLoader, Dataset, TensorDataset

from twinrun.checkpoint.looks import UNSEEN, look

CHANGES = "changes while the training runs, and no checkpoint holds it"


class Collocated(Small):
    """Draws its collocation points anew where an epoch ends."""

    def __init__(self, **options):
        super().__init__(**options)
        self.engine = SobolEngine(4, scramble=True, seed=1)
        self.points = self.engine.draw(8)

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + self(self.points).square().mean()

    def on_train_epoch_end(self):
        self.points = self.engine.draw(8)


class Prior(Small):
    """Moves a distribution where an epoch ends, and uses it from the third epoch on."""

    def __init__(self, **options):
        super().__init__(**options)
        self.prior = Normal(torch.zeros(1), torch.ones(1))

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        is_used = self.current_epoch > 1
        return loss - 0.1 * self.prior.log_prob(self(batch[0])).mean() if is_used else loss

    def on_train_epoch_end(self):
        self.prior = Normal(self.prior.loc + 0.5, self.prior.scale)


class Shuffles(Small):
    """Has a loader with a generator of its own, of which it reads a batch in late steps."""

    def __init__(self, **options):
        super().__init__(**options)
        points = Points()
        rows, own = TensorDataset(points.inputs, points.targets), torch.Generator().manual_seed(3)
        self.more = DataLoader(rows, 16, shuffle=True, generator=own)

    def training_step(self, batch, batch_idx):
        more = self._step(next(iter(self.more)), "more")
        return super().training_step(batch, batch_idx) + more * (self.current_epoch > 1)


class Held(Small):
    """Has a generator in a namespace."""

    def __init__(self, **options):
        super().__init__(**options)
        self.own = types.SimpleNamespace(generator=np.random.default_rng(1))

    def training_step(self, batch, batch_idx):
        noise = self.own.generator.random()
        return super().training_step(batch, batch_idx) * (1 + noise * (self.current_epoch > 1))


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (Collocated, "engine"),
        (Prior, "prior"),
        (Shuffles, "more"),
        (Held, "own"),
    ],
)
@pytest.mark.parametrize("where", [{"minutes": 0}, {"in_epoch": every(1)}], ids=["start", "mid"])
def test_objects_of_libraries_that_change_are_refused_by_name(tmp_path, module, name, where):
    """Red before: a checkpoint was written, and other weights resumed, without a word."""
    _, _, said = fit(tmp_path, module=module, **where)
    assert any(f"{module.__name__}.{name} {CHANGES}" in sentence for sentence in said), said


class Still(Small):
    """Has objects that never change, but for what they compute late or count."""

    def __init__(self, **options):
        super().__init__(**options)
        self.prior = Categorical(probs=torch.tensor([0.25, 0.75]))
        self.location = torch.nn.Parameter(torch.zeros(1))
        self.learned = Normal(self.location, 1.0)
        self.points = SobolEngine(4, scramble=True, seed=1)
        tanh = torch.distributions.TanhTransform(cache_size=1)
        self.bounded = torch.distributions.TransformedDistribution(Normal(0.0, 1.0), [tanh])
        self.handle = self.hidden.register_forward_hook(Counted(self))
        self.series = np.poly1d([1.0, 2.0])

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * float(self.series(0))
        entropy = self.prior.log_prob(torch.tensor(1)) + self.prior.entropy()
        entropy = entropy + self.bounded.log_prob(torch.tensor(0.5))
        return loss + 0.1 * entropy - 0.1 * self.learned.log_prob(self(batch[0])).mean()


class Counted:
    """A hook that knows its module, whose numbers are put back."""

    def __init__(self, module):
        self.module = module

    def __call__(self, layer, inputs, outputs):
        self.module.calls_of_hook = getattr(self.module, "calls_of_hook", 0) + 1


class KeepsItsLoader(Small):
    """Has the loader of its training, with a generator of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        points = Points()
        rows, own = TensorDataset(points.inputs, points.targets), torch.Generator().manual_seed(3)
        self.rows = DataLoader(rows, 16, shuffle=True, generator=own)

    def train_dataloader(self):
        return self.rows


def no_data(size):
    """Leave it to the module."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("module", "data"), [(Still, Points), (KeepsItsLoader, no_data)])
def test_objects_of_libraries_that_stay_are_no_reason(tmp_path, module, data):
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], module=module, data=data)


class LightningsRows(Dataset[torch.Tensor]):
    """Is Lightning's own."""

    def __init__(self):
        self.rows = torch.zeros(3)


LightningsRows.__module__ = "pytorch_lightning.demos.rows"


class Library:
    """Is one of a library, which draws from a generator of its own."""

    def __init__(self):
        self.drawn = np.random.default_rng(1)


Library.__module__ = "torchmetrics.utilities"


class Writer:
    """Counts what it writes, as one of torch's does."""

    def __init__(self):
        self.written, self.times = 0, iter([1])

    def write(self):
        self.written += 1


Writer.__module__ = "torch.utils.tensorboard.writer"


def changed(make, change):
    """Return looks at an object before a change, again, and behind it."""
    value = make()
    looks = [look([value], ()), look([value], ())]
    change(value)
    return [*looks, look([value], ())]


SEEN = {
    "rows of Lightning's": (LightningsRows, lambda v: v.rows.add_(1)),
    "a polynomial": (
        lambda: np.polynomial.Polynomial([1.0]),
        lambda v: v.coef.__setitem__(0, 2.0),
    ),
    "a number of a transform": (
        lambda: torch.distributions.TransformedDistribution(
            Normal(0.0, 1.0), [torch.distributions.AffineTransform(0.0, 1.0)]
        ),
        lambda v: setattr(v.transforms[0], "loc", 2.0),
    ),
    "a distribution in a chain of dictionaries": (
        lambda: collections.ChainMap({}, {"a": Normal(torch.zeros(1), 1.0)}),
        lambda v: v["a"].loc.add_(1),
    ),
    "a generator of a library's object": (Library, lambda v: v.drawn.random()),
}


@pytest.mark.parametrize("what", SEEN)
def test_what_an_object_of_a_library_holds_is_seen(what):
    before, again, after = changed(*SEEN[what])
    assert not before.startswith(UNSEEN)
    assert before == again != after


def test_which_part_of_a_held_tensor_is_shown_is_seen():
    held = torch.nn.Parameter(torch.zeros(2))
    known = {id(held)}
    first = look([Normal(held[0], 1.0)], known)
    with torch.no_grad():
        held.add_(1)
    assert look([Normal(held[0], 1.0)], known) == first
    assert look([Normal(held[1], 1.0)], known) != first


NOT_SEEN = {
    "a count": (Writer, lambda v: v.write()),
    "the Trainer": (lambda: pl.Trainer(logger=False), lambda v: setattr(v, "x", 1)),
}


@pytest.mark.parametrize("what", NOT_SEEN)
def test_what_counts_or_knows_all_is_left(what):
    before, again, after = changed(*NOT_SEEN[what])
    assert before == again == after

"""What first hooks make that can be called, or put into the place of what can.

Red at 918010a8: in silence, or each attempt ended, by an `AttributeError` or as a partial held a
moment.
"""

import contextlib
import functools
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Points, Small

from twinrun.checkpoint.begun_generators import is_own_generator
from twinrun.checkpoint.held_by_functions import held_by
from twinrun.errors import TwinrunError


class Times:
    def __init__(self, by):
        self.by = by

    def __call__(self):
        return self.by

    def at(self, by=1.0):
        return self.by * by


class Twice(Times):
    def __call__(self):
        return 2 * self.by


class Around:
    """Holds nothing but what can be called."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, *given):
        return self.inner(*given)


class Holds:
    """Holds it, and cannot be called."""

    def __init__(self, inner):
        self.inner = inner

    def at(self):
        return self.inner()


class Draws:
    def __init__(self, generator):
        self.generator = generator

    def at(self):
        return drawn(self.generator)


def drawn(generator):
    return 1 + generator.random()


def generator_of(trainer):
    return np.random.default_rng(trainer.global_step)


def called(held):
    return held.at() if isinstance(held, Holds) else held()


def one():
    return 1.0


class Uses(pl.Callback):
    """Uses late what its first hook has made."""

    held = make = None

    def on_train_start(self, trainer, pl_module):
        norm = pl_module.hidden.weight.detach().norm().item()
        self.held = type(self).make(self.held, norm, trainer)

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 3:
            factor = 1 if self.held is None else called(self.held)
            trainer.optimizers[0].param_groups[0]["lr"] = 0.01 * factor


class UsesWithAState(Uses):
    def __init__(self):
        self.calls = 0

    def on_train_batch_end(self, *_):
        self.calls += 1

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


class UsesItself(Small):
    held = make = None

    def on_train_start(self):
        norm = self.hidden.weight.detach().norm().item()
        self.held = type(self).make(self.held, norm, self.trainer)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        is_late = self.current_epoch == 3 and self.held is not None
        return loss * called(self.held) if is_late else loss


def since(began):
    assert time.time() - began < 900
    return 1.0


def in_folder(folder, by=1.0):
    assert Path(folder).is_dir()
    return by


def only_resumed(held, norm, trainer):
    return Times(3.0) if trainer.global_step else held


MADE = {
    "none": (None, only_resumed),
    "bound": (None, lambda held, norm, trainer: Times(norm).at),
    "partial": (None, lambda held, norm, trainer: functools.partial(float, norm)),
    "object": (None, lambda held, norm, trainer: Holds(Times(norm))),
    "drawn": (None, lambda held, norm, trainer: functools.partial(drawn, generator_of(trainer))),
    "draws": (None, lambda held, norm, trainer: Draws(generator_of(trainer)).at),
    "inside": (None, lambda held, norm, trainer: functools.partial(Times(norm).at, by=1 + norm)),
    "moment": (None, lambda held, norm, trainer: functools.partial(since, time.time())),
    "folder": (
        None,
        lambda held, norm, trainer: functools.partial(in_folder, tempfile.mkdtemp(), by=norm),
    ),
}
AROUND = {
    "own": lambda held, norm, trainer: Around(Times(norm)),
    "partial": lambda held, norm, trainer: Around(functools.partial(float, norm)),
    "twice": lambda held, norm, trainer: Around(Around(Times(norm))),
}
OTHERS = {
    "class": (None, lambda held, norm, trainer: (Twice if trainer.global_step else Times)(1.0)),
    "function": (one, only_resumed),
    "functions": (one, lambda held, norm, trainer: time.time if trainer.global_step else held),
    "object": (Times(1.0), lambda held, norm, trainer: one if trainer.global_step else held),
}


def options_of(base, of):
    held, make = of

    class Makes(base):
        def __init__(self):
            super().__init__()
            self.held = held

    Makes.make = staticmethod(make)
    of_kind = {"module": Makes} if base is UsesItself else {"callbacks": Anew([Makes])}
    return {"module": Small, "max_epochs": 4, **of_kind}


OWNERS = [Uses, UsesWithAState, UsesItself]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kill", "at"), [(8, 7), (12, 11)])
@pytest.mark.parametrize("base", OWNERS)
@pytest.mark.parametrize("of", MADE.values(), ids=MADE)
def test_it_is_set_again(tmp_path, base, of, kill, at):
    assert_resumed(tmp_path, [at], kills=[kill], **options_of(base, of))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("make", AROUND.values(), ids=AROUND)
def test_so_is_what_lies_in_another_one(tmp_path, make):
    """Red before, but for the partial: in silence, as if the state held what shows no values."""
    options = options_of(UsesWithAState, (None, make))
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path, kill=8, in_epoch=every(1), **options)
    with contextlib.suppress(TwinrunError):  # so nobody takes it for another one
        assert fit(tmp_path, **options)[:2] == (whole, [7])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("base", OWNERS)
@pytest.mark.parametrize("of", OTHERS.values(), ids=OTHERS)
def test_another_class_or_function_ends_the_attempt(tmp_path, base, of):
    options = {"in_epoch": every(1), **options_of(base, of)}
    fit(tmp_path, kill=8, **options)
    with pytest.raises(TwinrunError, match=r"^Makes\.held is not what it was where the training"):
        fit(tmp_path, **options)


def test_a_partial_that_others_hold_is_that_of_others(tmp_path):
    class Shares(UsesWithAState):
        def on_train_start(self, trainer, pl_module):
            norm = pl_module.hidden.weight.detach().norm().item()
            self.held = functools.partial(float, norm)
            self.others = [self.held]

        def on_train_epoch_start(self, trainer, pl_module):
            assert self.held is self.others[0]
            super().on_train_epoch_start(trainer, pl_module)

    options = {"module": Small, "max_epochs": 4, "callbacks": Anew([Shares])}
    assert_resumed(tmp_path, [7], kills=[8], **options)


class Fills(Points):
    """Puts something that can be called into the place of nothing where it is resumed."""

    move = None

    def __init__(self, size):
        super().__init__(size)
        self.move = None

    def train_dataloader(self):
        if self.trainer.global_step:
            self.move = Times(0.5)
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        is_late = self.move is not None and self.trainer.current_epoch == 3
        return [batch[0] * self.move(), batch[1]] if is_late else batch


def test_so_is_what_a_data_module_makes_where_it_is_resumed(tmp_path):
    assert_resumed(tmp_path, [7], kills=[8], data=Fills, module=Small, max_epochs=4)


class FillsAnew(Fills):
    """Likewise, and no constructor knows of it, nor of a number."""

    def __init__(self, size):
        Points.__init__(self, size)

    def train_dataloader(self):
        if self.trainer.global_step:
            self.move, self.share = Times(0.5), 0.25
        return Points.train_dataloader(self)

    share = 1.0

    def on_after_batch_transfer(self, batch, dataloader_idx):
        inputs, targets = super().on_after_batch_transfer(batch, dataloader_idx)
        return [inputs * self.share, targets] if self.trainer.current_epoch == 3 else batch


class MakesWithLoaders(Points):
    """Notes what its loaders are made of; for validation in every second epoch."""

    def train_dataloader(self):
        self.factor = Times(0.5)
        return super().train_dataloader()

    def val_dataloader(self):
        self.seen_by = 0.5
        return super().val_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        by = self.factor() if self.trainer.training else self.seen_by
        return [batch[0] * by, batch[1]]


def test_what_it_alone_makes_there_is_removed(tmp_path):
    """Red before: left so, in silence."""
    assert_resumed(tmp_path, [7], kills=[8], data=FillsAnew, module=Small, max_epochs=4)


@pytest.mark.parametrize(("kill", "at", "every_batches"), [(8, 7, 1), (7, 5, 9)])
def test_what_making_loaders_sets_is_left(tmp_path, kill, at, every_batches):
    """Green before."""
    options = {"data": MakesWithLoaders, "module": Small, "max_epochs": 4}
    options |= {"check_val_every_n_epoch": 2, "every_batches": every_batches, "minutes": 0}
    assert_resumed(tmp_path, [at], kills=[kill], **options)


class Once(Points):
    """Makes something of the weights with its first loader, and uses it late."""

    made = make = None

    def train_dataloader(self):
        if self.made is None:
            norm = self.trainer.lightning_module.hidden.weight.detach().norm().item()
            self.made = type(self).make(norm)
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        is_late = self.trainer.training and self.trainer.current_epoch == 3
        return [self.made(batch[0]), batch[1]] if is_late else batch


class Layer(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.tensor(by))

    def forward(self, inputs):
        return inputs * self.by


class OfANumber(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    forward = Layer.forward


class Multiplies:
    def __init__(self, by):
        self.by = by

    def __call__(self, inputs):
        return inputs * self.by


class Moves:
    def __init__(self, *moves):
        self.moves = moves

    def __call__(self, inputs):
        for move in self.moves:
            inputs = move(inputs)
        return inputs


ONCE = {
    "partial": lambda norm: functools.partial(torch.mul, norm),
    "bound": lambda norm: Times(norm).at,
    "several": lambda norm: Moves(Times(norm).at, Moves(functools.partial(torch.mul, norm))),
    "inside": lambda norm: Moves(Moves(OfANumber(norm))),
    "around": lambda norm: Around(Multiplies(norm)),
    "buffer": Layer,
    "number": OfANumber,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE)
def test_what_a_data_module_makes_of_the_weights_is_no_other(tmp_path, make):
    """Red at 918010a8: in silence."""

    class Makes(Once):
        pass

    Makes.make = staticmethod(make)
    options = {"data": Makes, "module": Small, "max_epochs": 4}
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path, kill=8, in_epoch=every(1), **options)
    with contextlib.suppress(TwinrunError):  # so nobody takes it for another one
        assert fit(tmp_path, **options)[:2] == (whole, [7])


class Late(UsesWithAState):
    """Makes it with the first mini-batch."""

    held = None

    def __init__(self):
        super().__init__()
        self.held = None

    def on_train_start(self, trainer, pl_module):
        pass

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if self.held is None:
            norm = pl_module.hidden.weight.detach().norm().item()
            self.held = type(self).make(norm)


class LateAndSaid(Late):
    """Has a state that holds it."""

    make = staticmethod(lambda norm: functools.partial(float, norm))

    def state_dict(self):
        held = None if self.held is None else self.held.args[0]
        return {"calls": self.calls, "held": held}

    def load_state_dict(self, state):
        self.calls, norm = state["calls"], state["held"]
        self.held = None if norm is None else functools.partial(float, norm)


@pytest.mark.parametrize(
    "make",
    [
        lambda norm: functools.partial(float, norm),
        lambda norm: Times(norm).at,
        lambda norm: lambda: norm,
        lambda norm: Around(Times(norm)).__call__,  # red at cde3cbf9
    ],
    ids=["partial", "bound", "lambda", "inside"],
)
def test_what_comes_late_into_the_place_of_none_is_refused(tmp_path, make):
    """Red at 918010a8: in silence."""

    class Makes(Late):
        pass

    Makes.make = staticmethod(make)
    options = {"callbacks": Anew([Makes]), "in_epoch": every(1), "module": Small}
    _, _, said = fit(tmp_path, **options)
    says = "no checkpoints are written in mid-epoch: Makes.held changes while the training runs, "
    assert said[0].startswith(f"{says}and the state_dict does not hold it")


def test_it_is_resumed_if_the_state_holds_it(tmp_path):
    """Green before."""
    options = {"callbacks": Anew([LateAndSaid]), "module": Small, "max_epochs": 4}
    assert_resumed(tmp_path, [7], kills=[8], **options)


class AskedForItsClass:
    @property
    def __class__(self):
        raise RuntimeError("asked for its class")


def test_what_raises_where_it_is_asked_for_its_class_is_no_function():
    """Red at 70e62be9: both asked it, and raised."""
    assert held_by(AskedForItsClass()) == {}
    assert not is_own_generator(AskedForItsClass())

"""What two attributes hold is one object behind a stop too, or the attempt ends once it changes."""

import functools

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Points, Small

from twinrun.errors import TwinrunError


class Counted:
    """An object of a user's that two may hold."""

    def __init__(self, count=0):
        self.count = count

    def __len__(self):
        return int(self.count)

    def append(self, _):
        self.count += 1


class Keeps(pl.Callback):
    """Keeps what has come so far in something that another one was given, too."""

    def __init__(self, kept):
        self.kept = kept

    def state_dict(self):
        return {"kept": self.of(self.kept)}

    def load_state_dict(self, state_dict):
        self.kept = self.like(state_dict["kept"])


class KeepsAList(Keeps):
    of = like = list
    makes = list


class KeepsAnObject(Keeps):
    of, like, makes = len, Counted, Counted


class KeepsATensor(Keeps):
    def of(self, kept):
        return kept.clone()

    def like(self, kept):
        return kept

    def makes():
        return torch.zeros(())


class KeepsAnArray(Keeps):
    of = float
    like = np.array

    def makes():
        return np.array(0.0)


class Fills(KeepsAList):
    """Fills the list that is there, as the sentence says."""

    def load_state_dict(self, state_dict):
        self.kept[:] = state_dict["kept"]


def adding(kind):
    class Adds(kind):
        def on_train_batch_end(self, trainer, *_):
            if isinstance(self.kept, torch.Tensor | np.ndarray):
                self.kept += 1
            else:
                self.kept.append(1.0)

    class Reads(kind):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            count = self.kept if isinstance(self.kept, torch.Tensor | np.ndarray) else None
            count = len(self.kept) if count is None else float(count)
            for group in trainer.optimizers[0].param_groups:
                group["lr"] = 0.05 / (1 + count)

    class Shares(Small):
        def configure_callbacks(self):
            kept = kind.makes()
            return [Adds(kept), Reads(kept)]

    return Shares


class Apart(KeepsAList):
    """Adds to a list of its own, in the place of that which it shared."""

    def on_train_epoch_start(self, *_):
        self.kept = [*self.kept, 1.0]


class Settings(Small):
    """Gives two callbacks the same settings, which both save and nobody changes."""

    def configure_callbacks(self):
        settings = [0.1, 0.2]
        return [Apart(settings), KeepsAList(settings)]


WHERE = [{"minutes": 0}, {"in_epoch": every(1)}]
IDS = ["where an epoch starts", "in it"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("where", WHERE, ids=IDS)
@pytest.mark.parametrize("kind", [KeepsAList, KeepsAnObject, KeepsATensor, KeepsAnArray])
def test_what_two_share_and_a_stop_parts_ends_the_attempt(tmp_path, kind, where):
    """Red before: resumed in silence, in other bits: the second one no longer saw what came."""
    module, told = adding(kind), {"max_epochs": 3, **where}
    # A later step would show it before an epoch's end does.
    fit(tmp_path, Points, module, kill=8 if "in_epoch" in where else 6, **told)
    why = "Adds.kept and Reads.kept were one object before the stop, and are two"
    with pytest.raises(TwinrunError, match=why):
        fit(tmp_path, Points, module, **told)
    _, at, _ = fit(tmp_path, Points, module, **told)
    assert at == []


def test_that_is_known_behind_a_second_stop_too(tmp_path):
    module, told = adding(KeepsAList), {"max_epochs": 3, "in_epoch": every(1)}
    fit(tmp_path, Points, module, kill=8, **told)
    _, at, said = fit(tmp_path, Points, module, kill=10, **told)
    why = "Adds.kept and Reads.kept were one object before the stop, and are two"
    assert at == [7]
    assert said
    assert all(why in sentence for sentence in said)
    with pytest.raises(TwinrunError, match=why):
        fit(tmp_path, Points, module, **told)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", WHERE, ids=IDS)
@pytest.mark.parametrize("module", [adding(Fills), Settings])
def test_what_is_filled_or_stays_is_resumed(tmp_path, module, where):
    """The cure that the sentence names; and what is no reason."""
    whole, _, _ = fit(tmp_path / "whole", Points, module, max_epochs=3)
    fit(tmp_path / "killed", Points, module, kill=8, max_epochs=3, **where)
    found, at, said = fit(tmp_path / "killed", Points, module, max_epochs=3, **where)
    assert (bool(at), said, found == whole) == (True, [], True)


def test_it_is_resumed_at_each_of_several_stops(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=adding(Fills))


class Given:
    """A helper that holds what it was given."""

    def __init__(self, held):
        self.held = held

    def rate(self):
        return 0.05 * self.held["scale"]


class Calls(Given):
    def __call__(self):
        return self.rate()


class InAnother(Given):
    def rate(self):
        return self.inner.rate()

    def __init__(self, held):
        self.inner = Given(held)


class Lowers(pl.Callback):
    """Has a helper ask a dictionary that loading exchanges."""

    lasts = 3

    def __init__(self):
        self.settings = {"scale": 1.0}
        self.rate = self.made()

    def made(self):
        return Calls(self.settings)

    def on_train_batch_start(self, trainer, *_):
        if trainer.current_epoch == 2:
            trainer.optimizers[0].param_groups[0]["lr"] = self.rate()

    def on_train_epoch_end(self, trainer, *_):
        if trainer.current_epoch < self.lasts:
            self.settings["scale"] *= 0.8

    def state_dict(self):
        return {"settings": dict(self.settings)}

    def load_state_dict(self, state_dict):
        self.settings = state_dict["settings"]


class ByAPartial(Lowers):
    def made(self):
        return functools.partial(Given.rate, Given(self.settings))


class ByAMethod(Lowers):
    def made(self):
        return InAnother(self.settings).rate


class Once(Lowers):
    """Changes it once, ahead of the stop."""

    lasts = 1


class FillsIt(Lowers):
    def load_state_dict(self, state_dict):
        self.settings.update(state_dict["settings"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", WHERE, ids=IDS)
@pytest.mark.parametrize("kind", [Lowers, ByAPartial, ByAMethod, Once])
def test_what_a_helper_was_given_and_loading_exchanges_is_never_resumed(tmp_path, kind, where):
    """Red before: resumed in silence, in other bits: the helper asked what was there at first."""
    told = {"module": Small, "callbacks": Anew([kind]), "max_epochs": 3, **where}
    whole, _, _ = fit(tmp_path / "whole", **told)
    _, _, said = fit(tmp_path / "killed", kill=9, **told)
    try:
        found, at, _ = fit(tmp_path / "killed", **told)
    except TwinrunError as error:
        said = [str(error)]
        found, at, _ = fit(tmp_path / "killed", **told)
    assert (at, found == whole) == ([], True)
    assert any(name in said[0] for name in (".settings and", ".rate.held", "Given.held['scale']"))


def test_what_a_helper_was_given_and_loading_fills_is_resumed(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=Small, callbacks=Anew([FillsIt]))

"""What a generator has set, and others set while it stands still between two mini-batches."""

import ast
import functools

import pytest
import pytorch_lightning as pl
import torch
from late_fitted import MovedByValidation
from resumed import assert_resumed, every, fit
from small import Points
from torch.utils.data import Sampler

from twinrun.checkpoint.late_stored import _Stores
from twinrun.checkpoint.late_unread import methods_of, reading_unset, set_anew


class Ends(Sampler):
    """Reads some rows once more at its end."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size + 3

    def __iter__(self):
        self.last_rows = [0, 1, 2]
        yield from torch.randperm(self.size).tolist()
        yield from self.last_rows


class EndsByMethod(Ends):
    def choose(self, rows):
        self.last_rows = rows


class Levels(Ends):
    """Goes by a number in a function that it returns."""

    def __iter__(self):
        self.level_now = 0
        order = torch.randperm(self.size).tolist()
        return ((row + self.level_now) % self.size for row in [*order, 0, 1, 2])

    def update(self, rows):
        self.level_now = rows[0]


class Tells(pl.Callback):
    """Tells a sampler behind the first mini-batch which rows are hard."""

    def __init__(self, tell):
        self.tell = tell

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 0:
            hard = int(float(outputs["loss"]) * 1000) % 70
            self.tell(trainer.train_dataloader.sampler, [hard, 5, 6])


def set_it(sampler, rows):
    sampler.last_rows = rows


def by_a_text(sampler, rows):
    setattr(sampler, "_".join(["last", "rows"]), rows)


def beside_all(sampler, rows):
    vars(sampler).update({"_".join(["last", "rows"]): rows})


class Of(Points):
    def __init__(self, kind, **options):
        super().__init__(**options)
        self.kind = kind

    def train_dataloader(self):
        return self._loader(sampler=self.kind(70))


known_here = {}
exec("def in_no_file(sampler, rows):\n    sampler.last_rows = rows\n", known_here)  # noqa: S102


TOLD = {
    "stored": (Ends, set_it),
    "a computed name": (EndsByMethod, by_a_text),
    "all attributes": (Ends, beside_all),
    "in no file": (EndsByMethod, known_here["in_no_file"]),
    "a method of its own": (EndsByMethod, lambda sampler, rows: sampler.choose(rows)),
    "in a generator expression": (Levels, lambda sampler, rows: sampler.update(rows)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "tell"), TOLD.values(), ids=TOLD.keys())
def test_what_a_callback_sets_between_two_batches_is_refused_by_name(tmp_path, kind, tell):
    """Red before: resumed in mid-epoch, in silence, to other bits."""
    options = {"data": functools.partial(Of, kind), "module": MovedByValidation}
    callbacks = [Tells(tell)]
    _, _, said = fit(tmp_path, in_epoch=every(1), max_epochs=2, callbacks=callbacks, **options)
    assert not list(tmp_path.glob("*.ckpt"))
    assert f"{kind.__name__}.{'level_now' if kind is Levels else 'last_rows'}" in said[0]


class MakesAtOnce(Ends):
    """Has a method of its own make the order that it reads as it goes."""

    def __len__(self):
        return self.size

    def _draw_it(self):
        self.drawn_rows = torch.randperm(self.size).tolist()

    def __iter__(self):
        self._draw_it()
        for turn in range(self.size):
            yield self.drawn_rows[turn]


@pytest.mark.parametrize("kind", [MakesAtOnce])
def test_what_it_alone_sets_is_no_state_behind_a_yield(tmp_path, kind):
    options = {"data": functools.partial(Of, kind), "module": MovedByValidation, "max_epochs": 3}
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], **options)


class OnBoth(Points):
    """Validates in mid-epoch with the sampler that it trains with."""

    def setup(self, stage):
        self.sampler = MakesAtOnce(70)

    def train_dataloader(self):
        return self._loader(sampler=self.sampler)

    val_dataloader = train_dataloader


def test_what_is_begun_anew_meanwhile_is_state(tmp_path):
    """Red before: a checkpoint was written in mid-epoch, of a sampler that was begun twice."""
    options = {"val_check_interval": 2, "minutes": 1000, "max_epochs": 2}
    fit(tmp_path, OnBoth, MovedByValidation, in_epoch=every(1), **options)
    assert not list(tmp_path.glob("*.ckpt"))


class Asks:
    """Sets an attribute in several ways, one of which is not its own."""

    def __iter__(self):
        self.at_once = 1
        self.behind = [self.at_once]
        yield 1
        self.again = 2
        yield self.again
        return [self.behind, self.again]

    def __len__(self):
        self.inside = 1
        self.listed = [self.inside for _ in range(3)]
        return sum(self.inside for _ in self.listed)


def test_behind_a_yield_nothing_is_set_any_more():
    methods = methods_of(Asks)
    names = {"at_once", "behind", "again", "inside", "listed"}
    assert set_anew(Asks) == names
    behind = {name for name in names if [*reading_unset(methods, name, is_at_once=True)]}
    assert behind == {"behind", "again", "inside"}


STORES = """
sampler.plain = 1
vars(sampler)["by_key"] = setattr(sampler, "by_text", 2)
del sampler.gone

class Own:
    def told(self, other, **more):
        self.own = setattr(self, "own_too", 1)
        self.peer.of_peer = object.__setattr__(self, "own_at_last", 1)
        other.__dict__["by_dict"] = super().__setattr__("own", 1)
        self.__dict__.update(more)
        held = vars(other)
        held["by_alias"] = held["read"]
        return lambda: setattr(self, "own", 1), vars(other)["read"]
"""


def test_what_code_sets_of_another_object_is_named():
    found = _Stores()
    found.visit(ast.parse(STORES))
    assert found.names == {
        "plain",
        "by_key",
        "by_text",
        "gone",
        "of_peer",
        "by_dict",
        "by_alias",
    }
    assert not found.computed


@pytest.mark.parametrize(
    "code",
    [
        "setattr(data, name, 1)",
        "setattr(data, f'a{1}', 1)",
        "setattr(*given)",
        "map(setattr, data)",
        "data.__dict__.update(given)",
        "data.__dict__ |= given",
        "vars(data)[name] = 1",
        "held = vars(data)\nheld.update(given)",
        "object.__setattr__(data, name, 1)",
        "torch.nn.Module.__setattr__(data, name, 1)",
        "data.__setattr__(name, 1)",
        "class A:\n    own = lambda self: setattr(self, name, 1)",
    ],
)
def test_a_computed_name_may_be_any(code):
    found = _Stores()
    found.visit(ast.parse(code))
    assert found.computed

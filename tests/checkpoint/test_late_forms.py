"""In which forms code is seen to put something where nothing lay: a cache is resumed, in each.

What nothing that reads is seen to put there is refused: a callback may have.
"""

import late_data
import late_forms
import pytest
import pytorch_lightning as pl
from late_fitted import MovedByValidation, called, data_of, never_wrong
from late_forms import FORMS, MOVING
from resumed import assert_resumed, fit
from small import Small

from twinrun.checkpoint.late_filling import asked_by, filled_by
from twinrun.checkpoint.users_attributes import READING

AT_STARTS = {"minutes": 0, "module": Small, "max_epochs": 4}


def of(kinds, *names):
    return [kind for kind in kinds if kind.__name__ in names]


OFTEN = of(FORMS, "InAStore", "OfDescriptor", "ByMissing")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", OFTEN, ids=called(OFTEN))
def test_what_is_kept_in_any_form_is_resumed(tmp_path, kind):
    """Red before: refused, "not seen to be by `self.held[...] = ...`: do so there", as it was."""
    assert_resumed(tmp_path, [10], kills=[13], data=data_of(kind), every_batches=9, **AT_STARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", FORMS, ids=called(FORMS))
def test_each_form_is_resumed(tmp_path, kind, is_of_validation):
    data = data_of(kind, is_of_validation=is_of_validation)
    options = {"module": MovedByValidation, "minutes": 0, "max_epochs": 5, "data": data}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kill", "minutes"), [(3, 1000), (16, 0)])
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize("kind", MOVING, ids=called(MOVING))
def test_no_state_in_any_form_is_resumed_otherwise(tmp_path, kind, is_of_validation, kill, minutes):
    where = {"is_of_validation": is_of_validation}
    never_wrong(tmp_path, kind, kill=kill, minutes=minutes, epochs=4, **where)


FILLED = {
    "ByComputedName": {"table": "="},
    "ByDecorator": {"_kept": "*"},
    "ByDecoratorOfAName": {"kept": "*"},
    "ByGetattr": {"table": "="},
    "ByMemo": {"kept": "*"},
    "OfDecoratedItem": {"_kept": "*"},
    "OfDescriptor": {"table": "="},
    "OfDescriptorBehind": {"_table": "="},
    "ByProperty": {"inner": "*"},
}
FILLED |= {kind.__name__: {"kept": "*"} for kind in FORMS if kind.__name__ not in FILLED}
APART = {"ByDefault", "ByMissing", "BySetdefault", "BySubclass", "InAStoreOfADict"}


@pytest.mark.parametrize("kind", [kind for kind in FORMS if kind.__name__ not in APART])
def test_code_is_seen_to_fill_in_each_form(kind):
    filled, _ = filled_by(kind, frozenset(READING))
    for name, key in FILLED[kind.__name__].items():
        assert key in filled[name]


class Writes(pl.Callback):
    """Puts something into a store that data only read."""

    def on_train_epoch_start(self, trainer, pl_module):
        trainer.train_dataloader.dataset.kept[3] = 2.0


class OnlyReads(late_data.Lazy):
    def begin(self):
        self.kept = late_forms.Store()

    def __getitem__(self, index):
        copied = {"row": 0}
        copied["row"] = self.rows[index]
        if index in self.kept:
            return copied["row"] * self.kept[index], self.targets[index]
        return copied["row"], self.targets[index]


class OnlyAsks(late_data.Lazy):
    """Has a dictionary whose code puts something into it, which nothing that reads calls."""

    def begin(self):
        self.kept = late_forms.OneOf()

    def __getitem__(self, index):
        return self.rows[index] * self.kept.get(index, 1), self.targets[index]


class OnlyLooks(late_forms.ByComputedName):
    """Sets what it is asked for, and not what is there: that a callback sets."""

    def begin(self):
        self.kept = None

    def row(self, index):
        made = self.rows[index] * self.table[index]
        return made * (1 if self.kept is None else self.kept[3])


class Gives(pl.Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        trainer.train_dataloader.dataset.kept = {3: 2.0}


def test_what_only_a_callback_sets_beside_what_is_asked_for_is_refused(tmp_path):
    options = {**AT_STARTS, "callbacks": [Gives()], "max_epochs": 3}
    _, _, (said, *_) = fit(tmp_path, data_of(OnlyLooks), **options)
    assert "OnlyLooks.kept changes while the training runs" in said


@pytest.mark.parametrize(("kind", "what"), [(OnlyReads, "kept.held"), (OnlyAsks, "kept")])
def test_what_only_a_callback_puts_there_is_refused(tmp_path, kind, what):
    options = {**AT_STARTS, "callbacks": [Writes()], "max_epochs": 3}
    _, _, (said, *_) = fit(tmp_path, data_of(kind), **options)
    assert f"{kind.__name__}.{what} changes while the training runs" in said
    assert "or what these call" in said


def test_what_is_asked_for_by_a_key_is_named():
    assert "weights" in asked_by(late_forms.ByDefault, frozenset(READING))
    assert "kept" not in asked_by(OnlyAsks, frozenset(READING))


class Hostile:
    """Of which nothing can be asked."""

    @property
    def __class__(self):
        raise ValueError

    def __getattribute__(self, name):
        raise ValueError

    def __get__(self, owner, kind):
        raise ValueError

    def __eq__(self, other):
        raise ValueError

    __hash__ = None


def knows(held):
    def decorate(function):
        def wrapper(self, index):
            self.kept[index] = held
            return function(self, index)

        return wrapper

    return decorate


class OfHostile(late_data.Lazy):
    hostile = Hostile()

    @knows(Hostile())
    def __getitem__(self, index):
        return self.hostile[index]

    def __getattr__(self, name):
        setattr(self, name, 1)


def test_what_raises_in_a_class_or_around_a_function_ends_nothing():
    assert "*" in filled_by(OfHostile, frozenset(READING))[0]["kept"]


class Checked(late_data.Lazy):
    """Notes in a set which rows it has checked, and may be asked for these in their order."""

    def begin(self):
        self.done = set()

    def checked(self):
        return list(self.done)

    def __getitem__(self, index):
        if index not in self.done:
            assert self.rows[index].isfinite().all()
            self.done.add(index)
        return self.rows[index], self.targets[index]


class SaysWhatItChecked(Checked):
    def state_dict(self):
        return {"done": sorted(self.done)}

    def load_state_dict(self, state):
        self.done = set(state["done"])


def test_a_set_whose_order_may_be_seen_is_refused_with_a_cure(tmp_path):
    """Red before: without one."""
    _, _, (said, *_) = fit(tmp_path, data_of(Checked), Small, minutes=0, max_epochs=3)
    assert "Checked.done changes while the training runs" in said
    assert "data's `state_dict` and `load_state_dict` may hold it" in said


def test_which_cures_it(tmp_path):
    data = data_of(SaysWhatItChecked)
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)

"""Long lists of numbers and texts, as a history of losses: looked at as a whole, and not for long.

Of Python's own calls there is a fixed number, however long they are.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Small

from twinrun.checkpoint.looks import handles, look
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.own_to_process import is_short
from twinrun.checkpoint.plain_data import is_plain, kept

# Calls of functions, of Python's or of C's: some 600 were counted, and each value takes ten more.
FEW = 5_000
LONG = 50_000
NUMBERS = [index / 7 for index in range(LONG)]
WORDS = {f"word {index}": index for index in range(LONG)}
MERGES = {(f"word {index}", f"word {index + 1}"): index for index in range(LONG)}


def calls_of(function, *arguments):
    """Count the calls that it takes."""
    count = 0

    def called(frame, event, what):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def state_in(owner):
    state = OwnState(owner)
    assert state.holds_all("history", owner.history)


def _numbers(values):
    return [each.item() for each in values]


def _flattened(rows):
    return [each for row in rows for each in row]


def _rows(values):
    return [values[row : row + 10] for row in range(0, 100, 10)]


def _columns(pairs):
    return [[*column] for column in zip(*pairs, strict=True)]


class KeepsList:
    """Has a queue, and a list of the same in its state."""

    def __init__(self, history):
        self.history = deque(history)

    def state_dict(self):
        return {"history": list(self.history)}

    def load_state_dict(self, state):
        self.history = deque(state["history"])


@pytest.mark.parametrize("value", [NUMBERS, {"loss": NUMBERS, "rate": deque(NUMBERS)}])
@pytest.mark.parametrize(
    "function",
    [
        lambda value: look(value, ()),
        lambda value: [*handles(value, ())],
        is_plain,
        is_short,
    ],
    ids=["look", "handles", "is_plain", "is_short"],
)
def test_a_long_history_is_looked_at_as_a_whole(value, function):
    """Red before: some 50 calls for each number, 10 s for a checkpoint with 60,000 of them."""
    assert calls_of(function, value) < FEW


def test_the_state_of_a_long_history_is_asked_for_as_a_whole():
    """Red before: each number was sought in the state."""
    assert calls_of(state_in, KeepsList(NUMBERS)) < FEW
    assert calls_of(kept, NUMBERS) < FEW
    assert calls_of(look, WORDS, ()) < FEW


def test_so_are_the_merges_of_a_tokenizer():
    """Red before: each pair of texts was walked as a container, ten times as long as the rest."""
    assert calls_of(look, MERGES, ()) < FEW
    before, (first, *_, last) = look(MERGES, ()), MERGES
    assert look({**MERGES, last: 0}, ()) != before
    turned = {first[::-1] if each is first else each: rank for each, rank in MERGES.items()}
    assert look(turned, ()) != before


class Keeps:
    """Has values of many kinds, and in its state the plain ones that another form has of them."""

    kinds = {  # noqa: RUF012
        "Counter": (Counter, dict),
        "defaultdict": (lambda items: defaultdict(int, items), dict),
        "OrderedDict": (OrderedDict, dict),
        "dict": (dict, OrderedDict),
        "set": (set, list),
        "sorted": (set, sorted),
        "tensors": (lambda items: [torch.tensor(each) for each in items], _numbers),
        "of NumPy": (lambda items: [np.float64(each) for each in items], _numbers),
        "rows": (lambda items: [[*items][row : row + 10] for row in range(0, 100, 10)], _flattened),
        "pairs": (lambda items: [(each, each) for each in items], _columns),
        "tuple": (tuple, list),
    }
    back = {"rows": _rows, "pairs": lambda columns: [*zip(*columns, strict=True)]}  # noqa: RUF012

    def __init__(self, kind):
        self.kind = kind
        made, _ = self.kinds[kind]
        self.every, self.held = 3, made({index: index + 7 for index in range(100)})

    def state_dict(self):
        return {"kept": self.kinds[self.kind][1](self.held)}

    def load_state_dict(self, state):
        self.held = self.back.get(self.kind, self.kinds[self.kind][0])(state["kept"])


@pytest.mark.parametrize("kind", Keeps.kinds)
def test_a_state_may_have_many_values_in_another_form(kind):
    """Red at d1d6c4df, most of them: a list of them was one value, and they were many."""
    keeps = Keeps(kind)
    assert OwnState(keeps).holds_all("held", keeps.held)
    assert not OwnState(keeps).holds_all("held", [*range(1000, 1100)])


class KeepsPart(Keeps):
    """Has less of them than there are: red at e92c9953, as each value was there."""

    kinds = {  # noqa: RUF012
        "end": (lambda items: [index % 2 for index in items], lambda values: values[-70:]),
        "once": (lambda items: [index % 2 for index in items], lambda values: sorted(set(values))),
        "sorted": (lambda items: [*reversed(items)], sorted),
        "keys": (Counter, list),
        "values": (dict, lambda items: [*items.values()]),
    }
    back = {  # noqa: RUF012
        "sorted": list,
        "values": lambda values: dict(enumerate(values, 1)),
    }


@pytest.mark.parametrize("kind", KeepsPart.kinds)
def test_a_part_of_many_values_is_not_all_of_them(kind):
    keeps = KeepsPart(kind)
    assert not OwnState(keeps).holds_all("held", keeps.held)


class Fills(Keeps):
    """Fills what is there."""

    kinds = {  # noqa: RUF012
        "whole": (lambda items: [*reversed(items)], list),
        "sorted": (lambda items: [*reversed(items)], sorted),
    }

    def load_state_dict(self, state):
        self.held.clear()
        self.held.extend(state["kept"])


@pytest.mark.parametrize("kind", Fills.kinds)
def test_what_fills_a_list_is_tried_with_an_empty_one(kind):
    """Red at b3a03f7a: with none it failed, and each value was there, in another order."""
    fills = Fills(kind)
    assert OwnState(fills).holds_all("held", fills.held) == (kind == "whole")


def test_many_equal_values_are_asked_for_at_once():
    """Red at e92c9953: 7 s for 5,000, and it was quadratic."""
    keeps = Keeps("Counter")
    keeps.held = Counter(dict.fromkeys(range(3000), 1))
    assert calls_of(OwnState(keeps).holds_all, "held", keeps.held) < 3000 * 200


def changed(values, to):
    return [*values[:-1], to]


@pytest.mark.parametrize(
    "other",
    [
        changed(NUMBERS, 0.0),
        changed(NUMBERS, str(NUMBERS[-1])),
        changed(NUMBERS, [NUMBERS[-1]]),
        NUMBERS[:-1],
        NUMBERS[::-1],
        tuple(NUMBERS),
        deque(NUMBERS),
        dict(enumerate(NUMBERS)),
    ],
    ids=["value", "text", "nested", "shorter", "order", "tuple", "queue", "mapping"],
)
def test_another_long_list_looks_otherwise(other):
    assert look(NUMBERS, ()) != look(other, ())


@pytest.mark.parametrize("kinds", [(1, True), (1, 1.0), (0.0, -0.0), ("a", b"a"), (None, "None")])
def test_what_is_equal_and_of_another_kind_looks_otherwise(kinds):
    one, other = ([*range(100), each] for each in kinds)
    assert look(one, ()) != look(other, ())


def test_texts_that_are_alike_look_alike():
    """However many objects they are: loaded from a file each is another one."""
    shared = ["a" * 9] * 100
    apart = ["".join(["a"] * 9) for _ in range(100)]
    assert apart[0] is not apart[1]
    assert look(shared, ()) == look(apart, ())


def test_a_number_of_thousands_of_digits_is_looked_at():
    one, other = ([*["a"] * 100, 10**5000 + last] for last in (0, 1))
    assert look(one, ()) != look(other, ())


class History(pl.Callback):
    """Halves the rate when the last 66 losses are worse than the 66 before."""

    def __init__(self):
        self.history = [1.0 / (1 + index) for index in range(140)]

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.history.append(float(outputs["loss"]))
        if sum(self.history[-66:]) > sum(self.history[-132:-66]):
            trainer.optimizers[0].param_groups[0]["lr"] /= 2


class Saved(History):
    def state_dict(self):
        return {"losses": self.history}

    def load_state_dict(self, state_dict):
        self.history = state_dict["losses"]


class Windowed(Saved):
    """Saves a part of it alone."""

    def state_dict(self):
        return {"losses": self.history[-66:]}


def test_a_training_with_a_long_history_is_resumed(tmp_path):
    assert_resumed(tmp_path, [7], kills=[8], module=Small, callbacks=Anew([Saved]))


def test_a_state_that_has_a_part_of_a_history_is_refused(tmp_path):
    _, _, said = fit(tmp_path, kill=8, in_epoch=every(1), module=Small, callbacks=[Windowed()])
    assert said
    assert "Windowed.history" in said[0]

"""The order of a dictionary that data have is state, and what comes later comes behind the rest."""

from collections import Counter

import late_data
import pytest
from late_fitted import MovedByValidation, data_of
from resumed import assert_resumed, fit

AT_STARTS = {"minutes": 0, "module": MovedByValidation, "max_epochs": 4}


class InFront(late_data.Lazy):
    """Puts what was asked for last behind the rest, and goes by what is in front."""

    def begin(self):
        self.asked = dict.fromkeys(range(70), 1)

    def __getitem__(self, index):
        self.asked[index] = self.asked.pop(index)
        return self.rows[index] + 0.1 * next(iter(self.asked)), self.targets[index]


class InFrontOfFew(InFront):
    def begin(self):
        self.asked = Counter(dict.fromkeys(range(10), 1))

    def __getitem__(self, index):
        return super().__getitem__(index % 10)


class InARow(late_data.Lazy):
    """Turns the keys of a row in a long list."""

    def begin(self):
        self.held_rows = [{"first": 1, "second": 2, "third": 3} for _ in range(70)]

    def __getitem__(self, index):
        row = self.held_rows[0]
        front = next(iter(row))
        row[front] = row.pop(front)
        return self.rows[index] + 0.1 * row[front], self.targets[index]


MOVING = [InFront, InFrontOfFew, InARow]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", MOVING)
def test_an_order_that_changes_is_refused_by_name(tmp_path, kind):
    """Red before: resumed, with the order in which it had been filled."""
    _, _, said = fit(tmp_path, data_of(kind), **AT_STARTS)
    assert not list(tmp_path.glob("*.ckpt"))
    assert kind.__name__ in said[-1]
    assert "changes while the training runs" in said[-1]


class FilledByKey(late_data.Lazy):
    """Has all keys from the beginning, fills what lies there in another order, and rows too."""

    def begin(self):
        self.by_key = dict.fromkeys(range(70))
        self.held_rows = [{"first": None, "second": 2} for _ in range(70)]

    def __getitem__(self, index):
        if self.by_key[index] is None:
            self.by_key[index] = self.rows[index] * 2
        self.held_rows[index]["first"] = self.held_rows[index]["third"] = 1
        return self.by_key[index], self.targets[index]


def test_what_is_filled_behind_the_rest_or_where_nothing_was_is_no_reason(tmp_path):
    data = data_of(FilledByKey)
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)

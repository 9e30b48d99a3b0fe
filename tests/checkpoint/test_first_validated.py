"""Validation data that begin elsewhere behind a checkpoint end the attempt.

Red before: the training went on, by the losses of other data, in silence.
"""

import pytest
import torch
from begun_otherwise import Counting, Permuted, Validated
from resumed import assert_resumed, fit
from small import Points

from twinrun.checkpoint.first_validated import FirstValidated
from twinrun.errors import TwinrunError

OTHERS = "(another first mini-batch|another number of mini-batches) of validation data came after"


@pytest.mark.parametrize(
    ("kind", "kill"),
    [
        (Counting, 12),
        (Permuted, 12),
        pytest.param(Counting, 17, marks=pytest.mark.exhaustive),
        pytest.param(Permuted, 17, marks=pytest.mark.exhaustive),
    ],
)
def test_a_stream_that_is_told_where_it_ended_ends_the_attempt(tmp_path, kind, kill):
    told = {"data": Validated.by(kind), "limit_val_batches": 3, "max_epochs": 4, "minutes": 0}
    fit(tmp_path / "killed", kill=kill, **told)
    with pytest.raises(TwinrunError, match=OTHERS):
        fit(tmp_path / "killed", **told)


class Augmented(Points):
    """Validates on other data each time."""

    def val_dataloader(self):
        loader = super().val_dataloader()
        loader.collate_fn = self.moved
        return loader

    def moved(self, rows):
        inputs, targets = torch.utils.data.default_collate(rows)
        return inputs + torch.randn_like(inputs), targets


@pytest.mark.parametrize("data", [Points, pytest.param(Augmented, marks=pytest.mark.exhaustive)])
def test_validations_that_go_on_as_before_do_not(tmp_path, data):
    assert_resumed(tmp_path, [7], kills=[8], data=data, max_epochs=3, num_sanity_val_steps=2)


def known(*validations, sanity=()):
    """Return what is known behind validations, each the first batch and the number of batches."""
    found = FirstValidated(lambda batch: batch)
    for first, length in [*sanity, *validations]:
        for turn in range(length):
            found.comes(0, first, turn)
        assert found.ends(is_whole=(first, length) not in sanity) is None
    return found.state()


@pytest.mark.parametrize(
    ("before", "now", "is_other"),
    [
        (known((1, 3), (1, 3)), (1, 3), False),
        (known((1, 3), (1, 3)), (2, 3), True),
        (known((1, 3), (2, 3)), (3, 3), False),  # augmented
        (known((1, 3)), (2, 3), False),  # of one nobody knows
        (known((1, 3)), (2, 2), True),
        (known((1, 3), (1, 4)), (1, 5), False),
        (known((1, 3), (1, 4), (1, 4)), (1, 5), True),
        (known((1, 3), sanity=[(1, 2)]), (2, 3), True),
        (known(sanity=[(1, 2)]), (2, 3), False),
        (None, (2, 3), False),
    ],
)
def test_what_was_so_twice_is_so_again(before, now, is_other):
    found = FirstValidated(lambda batch: batch)
    found.resumed(before)
    for turn in range(now[1]):
        found.comes(0, now[0], turn)
    assert (found.ends(is_whole=True) is not None) == is_other
    found.comes(0, 9, 0)
    assert found.ends(is_whole=True) is None, "of the first alone"

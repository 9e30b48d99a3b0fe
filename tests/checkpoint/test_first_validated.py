"""Validation data that begin elsewhere behind a checkpoint end the attempt.

Red before: the training went on, by the losses of other data, in silence.
"""

import pytest
import torch
from begun_otherwise import Counting, Permuted, Validated
from resumed import assert_resumed, fit
from small import Points, Restless

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


class Enlarging(Restless):
    """Trains and validates on larger images from its third epoch on, say."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch[0] * (1 + (self.current_epoch > 1)), batch[1]


class Growing(Points):
    """Validates on more from its third epoch on."""

    def val_dataloader(self):
        rows = 70 if self.trainer.current_epoch > 1 else 35
        data = torch.utils.data.TensorDataset(self.inputs[:rows], self.targets[:rows])
        return torch.utils.data.DataLoader(data, 16)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("told", "kills"),
    [
        ({"module": Enlarging}, [13]),
        ({"data": Growing, "reload_dataloaders_every_n_epochs": 2}, [13]),
        pytest.param({"module": Enlarging}, [11, 13], marks=pytest.mark.exhaustive),
    ],
)
def test_validation_data_of_no_state_may_change_on_purpose(tmp_path, told, kills):
    at = [kill - 1 for kill in kills]
    assert_resumed(tmp_path, at, kills=kills, max_epochs=4, num_sanity_val_steps=2, **told)


def known(*validations, sanity=()):
    """Return what is known behind validations, each the first batch and the number of batches."""
    found = FirstValidated(lambda batch: batch)
    for first, length in [*sanity, *validations]:
        for turn in range(length):
            found.comes(0, first, turn)
        assert found.ends([], is_whole=(first, length) not in sanity) is None
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
    loaders = [Counting([], [])]
    assert (found.ends(loaders, is_whole=True) is not None) == is_other
    found.comes(0, 9, 0)
    assert found.ends(loaders, is_whole=True) is None, "of the first alone"

"""A training of several workers took the steps that were asked for."""

from types import SimpleNamespace

import pytest
from example_trainings import VARIANT

from twinrun.config.definitions import Variant
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.errors import TwinrunError
from twinrun.training.check_extent import check_extent


def check(lengths, steps, *, epochs=3, stops=False, **told):
    trainer = SimpleNamespace(
        world_size=2,
        num_training_batches=lengths[-1],
        current_epoch=epochs,
        callbacks=[],
        lightning_module=SimpleNamespace(automatic_optimization=True),
        should_stop=stops,
    )
    team = SimpleNamespace(steps_per_epoch=lambda: lengths)
    variant = Variant(**{**VARIANT, "devices": 2})
    check_extent(trainer, variant, TrainerArguments(**told), team, steps=steps)


@pytest.mark.parametrize(
    ("every", "lengths", "steps"), [(1, [9, 5, 3], 17), (2, [9, 5], 23), (2, [9, 5, 3], 23)]
)
def test_loaders_that_are_made_anew_may_be_of_other_lengths(every, lengths, steps):
    """Red before: all epochs were taken to be as long as the last one, when all was trained."""
    check(lengths, steps, reload_dataloaders_every_n_epochs=every)
    check(lengths, steps - 2, stops=True, reload_dataloaders_every_n_epochs=every)
    for others in (steps - 1, steps + 1):
        with pytest.raises(TwinrunError, match=f"3 epochs are {steps} steps, but {others} were"):
            check(lengths, others, reload_dataloaders_every_n_epochs=every)


def test_other_loaders_are_of_one_length():
    check([5], 15)
    check([5], 11, stops=True)
    with pytest.raises(TwinrunError, match="3 epochs are 15 steps, but 9 were taken"):
        check([5], 9)

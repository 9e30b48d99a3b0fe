"""Attributes that hooks of a resumed training alone would have changed ahead of its first step.

Red before: they were as those hooks had left them; a training ended whose next step showed that.
"""

import pytest
from resumed import assert_resumed, fit
from small import Small

from twinrun.errors import TwinrunError


class Weighed(Small):
    """Weighs its loss by what hooks have set."""

    weight = 1.0

    def __init__(self):
        super().__init__()
        self.weight = 1.0

    def training_step(self, batch, batch_idx):
        return self.weight * super().training_step(batch, batch_idx)


class GoodEnough(Weighed):
    """Looks at the first batch of a sanity check whether it has learnt something."""

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        if self.trainer.sanity_checking and self.calls:
            self.weight = 0.5


class CountsSteps(Weighed):
    """Asks whether it is resumed."""

    def on_train_start(self):
        if self.trainer.global_step:
            self.weight = 0.5


class Reloads(Weighed):
    """Sets as it is loaded what a hook sets back, as in any training."""

    def on_load_checkpoint(self, checkpoint):
        self.weight = 0.5

    def on_train_start(self):
        self.weight = 1.0


class TakesAnObject(CountsSteps):
    """Likewise, with what no checkpoint can hold."""

    def __init__(self):
        super().__init__()
        self.weigh = abs

    def on_train_start(self):
        if self.trainer.global_step:
            self.weigh = round

    def training_step(self, batch, batch_idx):
        return self.weigh(1.4) * super().training_step(batch, batch_idx)


@pytest.mark.parametrize(("kill", "at"), [(4, 3), (8, 7)])
@pytest.mark.parametrize("module", [GoodEnough, CountsSteps, Reloads])
def test_they_are_as_in_the_uninterrupted_training(tmp_path, module, kill, at):
    options = {"module": module, "num_sanity_val_steps": 2, "max_epochs": 3}
    assert_resumed(tmp_path, [at], kills=[kill], **options)


def test_what_no_checkpoint_holds_ends_the_attempt(tmp_path):
    options = {"module": TakesAnObject, "in_epoch": lambda *_: True}
    fit(tmp_path, kill=8, **options)
    with pytest.raises(TwinrunError, match=r"TakesAnObject\.weigh is not what it was"):
        fit(tmp_path, **options)

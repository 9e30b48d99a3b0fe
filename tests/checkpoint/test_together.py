"""Several workers agree about checkpoints, and ask each other no more than they must."""

import pytest
import pytorch_lightning as pl
from small import Points, Restless

from twinrun.checkpoint.resumable import Resumable
from twinrun.checkpoint.together import Alone


class Counted(Alone):
    """A worker of several that counts what it is asked for."""

    def __init__(self, hindrance):
        self.hindrance, self.asked = hindrance, 0

    def firsts_number(self, value):
        self.asked += 1
        return value

    def hindrances(self, trainer):
        if self.hindrance:
            yield self.hindrance


@pytest.mark.parametrize("minutes", [0, 1000])
@pytest.mark.parametrize(("hindrance", "is_asked"), [(None, True), ("they train on GPUs", False)])
def test_what_can_have_no_checkpoint_exchanges_nothing(tmp_path, minutes, hindrance, is_asked):
    """Red before: workers on GPUs agreed at each batch upon what was refused where it came due."""
    pl.seed_everything(1, verbose=False)
    said, together = [], Counted(hindrance)
    kept = Resumable(tmp_path / "kept", minutes=minutes, say=said.append, together=together)
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[kept],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=3,
    )
    trainer.fit(Restless(), Points(size=70))
    assert bool(together.asked) == is_asked
    assert said == ([] if is_asked else [f"no checkpoints are written: {hindrance}"])

"""A fast step under the Trainer trains, counts and logs as the Trainer alone does."""

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from points_and_images import Images, Regression, images, points
from torch.utils.data import DataLoader

from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant

POINTS = [points(seed=1), points(seed=2)]
IMAGES = [images(seed=1), images(seed=2)]


class Seen(pl.Callback):
    """What a callback sees of the training."""

    def __init__(self):
        self.gradients, self.losses = [], []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.gradients.append(
            [p.grad.clone() for p in pl_module.parameters() if p.grad is not None]
        )

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))


def fitted(module_class, batches, tmp_path, **changes):
    torch.manual_seed(0)
    module, seen = module_class(), Seen()
    speed = Speed(module, Variant(**{**VARIANT, **changes}))
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=3,
        default_root_dir=tmp_path,
        callbacks=[speed, seen],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(batches, batch_size=None, collate_fn=list)
    with compiler_switches():
        trainer.fit(module, loader)
        predicted = trainer.predict(module, loader)
    return module, trainer, seen, predicted, speed


@pytest.mark.parametrize(
    ("module_class", "batches", "changes"),
    [
        (Regression, POINTS, {"compile": "step", "layout": "features_first"}),
        (Images, IMAGES, {"compile": "module", "layout": "channels_last"}),
        (Regression, POINTS, {"optimizer": "fused"}),
        (Images, IMAGES, {"layout": "channels_last"}),
    ],
)
def test_fast_steps_in_the_trainer(module_class, batches, changes, tmp_path):
    module, trainer, seen, predicted, speed = fitted(module_class, batches, tmp_path, **changes)
    plain, plain_trainer, plain_seen, plain_predicted, _ = fitted(module_class, batches, tmp_path)
    assert trainer.global_step == plain_trainer.global_step == 6
    # Six steps round in the sixth or seventh digit; Adam and momentum spread it a little.
    assert seen.losses == pytest.approx(plain_seen.losses, rel=1e-4)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(
            value, plain.state_dict()[name], rtol=1e-3, atol=1e-4, msg=name, check_stride=False
        )
    assert trainer.callback_metrics.keys() == plain_trainer.callback_metrics.keys()
    for name, value in trainer.callback_metrics.items():
        assert float(value) == pytest.approx(float(plain_trainer.callback_metrics[name]), rel=1e-4)
    assert len(seen.gradients) == 6
    torch.testing.assert_close(seen.gradients[-1], plain_seen.gradients[-1], rtol=1e-2, atol=1e-4)
    torch.testing.assert_close(predicted, plain_predicted, rtol=1e-3, atol=1e-3)
    if changes.get("compile", "none") != "none":
        # A callback that does more than read gradients keeps steps in parts: all are compiled.
        assert (speed.counts()["calls"], speed.counts()["compilations"]) == (6, 1)
    else:
        assert speed.counts() is None

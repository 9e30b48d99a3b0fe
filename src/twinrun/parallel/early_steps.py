"""Steps that a callback tries ahead of the training, joined over workers as those of the training.

Lightning's LearningRateFinder trains where the fit starts, ahead of all other callbacks, and while
it does the Trainer has one callback, the finder's own. Each worker would log by itself, and go by
the loss of its own shard: one that stops early would leave the others waiting for its gradients.
"""

import functools

import pytorch_lightning as pl

from twinrun.parallel.own_draws import OwnDraws
from twinrun.parallel.whole_batch import WholeBatch


class EarlySteps(pl.Callback):
    """Has what joins workers see every step, and who tries steps the loss of whole mini-batches."""

    def __init__(self, whole_batch: WholeBatch) -> None:
        self._whole_batch = whole_batch
        self._is_early = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Put what joins workers first, where Lightning puts its finders."""
        if stage != "fit":
            return
        held, loop = vars(trainer), trainer.fit_loop
        kinds = OwnDraws | WholeBatch | EarlySteps
        joining = [each for each in held["callbacks"] if isinstance(each, kinds)]
        others = [each for each in held["callbacks"] if not isinstance(each, kinds)]
        held["callbacks"] = [*joining, *others]
        run = loop.run

        @functools.wraps(run)
        def joined() -> None:
            given = held["callbacks"]
            if self in given:
                run()
                return
            held["callbacks"], self._is_early = [*joining, *given], True
            try:
                run()
            finally:
                held["callbacks"], self._is_early = given, False

        vars(loop)["run"] = joined

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        *_: object,
        **__: object,
    ) -> None:
        """Give who tries a step the loss of the whole mini-batch."""
        loss = self._whole_batch.loss
        if self._is_early and isinstance(outputs, dict) and loss is not None:
            outputs["loss"] = loss

"""Metrics whose values go on behind a checkpoint as in the uninterrupted training.

Red before: metrics of one collection that share their states had no checkpoint in mid-epoch, and a
resumed training whose sanity check had computed a tracked metric kept what it was of the weights
of the checkpoint. Which metrics of a collection are one group was decided anew behind a checkpoint,
in silence; and two metrics with lists of the same batches had no checkpoint.
"""

import pytest
import torch
from resumed import assert_resumed
from small import Small
from torchmetrics import (
    MeanAbsoluteError,
    MeanMetric,
    MeanSquaredError,
    MetricCollection,
    MetricTracker,
    MinMetric,
    PearsonCorrCoef,
)
from torchmetrics.classification import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryPrecision,
    BinaryRecall,
    MulticlassAccuracy,
)
from torchmetrics.wrappers import ClasswiseWrapper, MinMaxMetric, Running


def together(**options):
    """Return metrics of which three share their states, and one has its own."""
    return MetricCollection(
        {
            "accuracy": BinaryAccuracy(),
            "precision": BinaryPrecision(),
            "recall": BinaryRecall(),
            "error": MeanAbsoluteError(),
        },
        **options,
    )


class Metered(Small):
    def __init__(self):
        super().__init__()
        self.validated = together(prefix="val_")

    def update(self, metrics, batch):
        metrics.update(self(batch[0]).sigmoid(), (batch[1] > 0).long())


class ByHand(Metered):
    """Updates, computes and resets itself, where a validation begins."""

    def on_validation_epoch_start(self):
        self.validated.reset()

    def validation_step(self, batch, batch_idx):
        self.update(self.validated, batch)

    def on_validation_epoch_end(self):
        self.log_dict(self.validated.compute())


class AtTheEnd(ByHand):
    """Likewise, but resets where one ends."""

    def on_validation_epoch_start(self):
        pass

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.validated.reset()


class NeverReset(ByHand):
    """Counts all validations from the first on, a sanity check's too."""

    def on_validation_epoch_start(self):
        pass


class Logged(Metered):
    """Has Lightning compute and reset them."""

    def validation_step(self, batch, batch_idx):
        self.update(self.validated, batch)
        self.log_dict(self.validated, on_epoch=True)


class InTraining(Logged):
    """Of the training batches too, by the collection's `forward`, shown in each step."""

    def __init__(self):
        super().__init__()
        self.trained = self.validated.clone(prefix="train_")

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        found = self.trained(self(batch[0]).sigmoid(), (batch[1] > 0).long())
        self.log_dict(found, on_step=True, on_epoch=False)
        return loss

    def on_train_epoch_end(self):
        self.log_dict(
            {f"{name}_epoch": value for name, value in self.trained.compute().items()},
        )
        self.trained.reset()


class ReadInSteps(InTraining):
    """Weighs its loss by a copy of what the collection counts."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * (1 + dict(self.trained.items())["train_recall"].compute())


class Tracked(Small):
    """Keeps the errors of all validations, and logs the best."""

    def __init__(self):
        super().__init__()
        self.errors = MetricTracker(MeanSquaredError(), maximize=False)

    def on_validation_epoch_start(self):
        self.errors.increment()

    def validation_step(self, batch, batch_idx):
        self.errors.update(self(batch[0]), batch[1])

    def on_validation_epoch_end(self):
        self.log("last_error", self.errors.compute())
        self.log("best", self.errors.best_metric())
        self.log("first", self.errors.compute_all()[0])


class BestOfAll(Small):
    """Computes the least of all validations, which nothing resets."""

    def __init__(self):
        super().__init__()
        self.least, self.like = MinMetric(), PearsonCorrCoef()

    def validation_step(self, batch, batch_idx):
        found = self(batch[0])
        self.least.update((found - batch[1]).square().mean())
        self.like.update(found[:, 0], batch[1][:, 0])

    def on_validation_epoch_end(self):
        self.log("least", self.least.compute())
        self.log("like", self.like.compute())


class Wrapped(Small):
    """Metrics in others: the best so far, the last five updates, one value for each class."""

    def __init__(self):
        super().__init__()
        self.best, self.recent = MinMaxMetric(MeanSquaredError()), Running(MeanMetric(), 5)
        each = MulticlassAccuracy(3, average=None)
        self.classes = MetricCollection(
            {"each": ClasswiseWrapper(each), "all": MulticlassAccuracy(3)}
        )

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.recent.update(loss.detach())
        self.log("recent", self.recent.compute(), on_step=True, on_epoch=False)
        return loss

    def validation_step(self, batch, batch_idx):
        found = self(batch[0])
        self.best.update(found, batch[1])
        self.classes.update(found.repeat(1, 3), torch.arange(len(found)) % 3)

    def on_validation_epoch_end(self):
        self.log_dict(self.best.compute())
        self.log_dict(self.classes.compute())


class AtThresholds(Small):
    """Two metrics whose first states differ in the first validation, and are equal in later ones.

    torchmetrics takes metrics of equal first states for a group, and computes of one's states.
    """

    first, later = 0.55, 0.9

    def __init__(self):
        super().__init__()
        self.recalls = MetricCollection(
            {"lenient": BinaryRecall(threshold=0.5), "strict": BinaryRecall(threshold=0.6)}
        )

    def validation_step(self, batch, batch_idx):
        start = self.first if self.current_epoch == 0 else self.later
        likely = 0.55 if batch_idx else start
        self.recalls.update(torch.full((4,), likely), torch.ones(4, dtype=torch.long))

    def on_validation_epoch_end(self):
        self.log_dict(self.recalls.compute())
        self.recalls.reset()


class TakenForOne(AtThresholds):
    """Likewise, the other way round."""

    first, later = 0.9, 0.55


class KeepsBatches(Metered):
    """Metrics that keep all that they are given in lists: in one collection, and in two of it."""

    def __init__(self):
        super().__init__()
        self.curves = MetricCollection([BinaryAUROC(), BinaryAveragePrecision()])
        self.other = BinaryAUROC()

    def training_step(self, batch, batch_idx):
        self.update(self.curves, batch)
        self.update(self.other, batch)
        return super().training_step(batch, batch_idx)

    def on_train_epoch_end(self):
        self.log_dict(self.curves.compute())
        self.log("other", self.other.compute())
        self.curves.reset()
        self.other.reset()


class GivesTwoTheSame(KeepsBatches):
    def training_step(self, batch, batch_idx):
        found, targets = self(batch[0]).sigmoid().detach(), (batch[1] > 0).long()
        self.curves.update(found, targets)
        self.other(found, targets)
        return Metered.training_step(self, batch, batch_idx)


OF_GROUPS = [AtThresholds, TakenForOne, KeepsBatches, GivesTwoTheSame]
ALL = [
    Wrapped,
    ByHand,
    AtTheEnd,
    NeverReset,
    Logged,
    InTraining,
    ReadInSteps,
    Tracked,
    BestOfAll,
    *OF_GROUPS,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize("module", ALL)
def test_metrics_are_resumed_in_the_first_epoch(tmp_path, module, sanity):
    options = {"num_sanity_val_steps": sanity, "max_epochs": 2}
    assert_resumed(tmp_path, [3], kills=[4], module=module, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize("module", [each for each in ALL if each is not Tracked])
def test_metrics_are_resumed_in_a_later_epoch(tmp_path, module, sanity):
    options = {"num_sanity_val_steps": sanity, "max_epochs": 3}
    assert_resumed(tmp_path, [7], kills=[8], module=module, **options)


class Own(MeanMetric):
    """One of a user's."""


class MeansOf(Small):
    """Logs the mean of an array that is summed up in whatever kind of numbers the metric has."""

    kind = MeanMetric

    def __init__(self):
        super().__init__()
        self.mean = self.kind()

    def training_step(self, batch, batch_idx):
        self.mean(batch[0].abs())
        self.log("mean", self.mean, on_epoch=True)
        return super().training_step(batch, batch_idx)


class MeansOfOwn(MeansOf):
    kind = Own


@pytest.mark.parametrize("module", [MeansOf, MeansOfOwn])
def test_in_double_precision_they_sum_up_in_the_same_numbers(tmp_path, module):
    """Red before: in single precision at first, as they had not been logged yet, in silence."""
    options = {"precision": "64-true", "max_epochs": 3}
    assert_resumed(tmp_path, [7], kills=[8], module=module, **options)


def test_metrics_are_resumed_twice(tmp_path):
    options = {"num_sanity_val_steps": 2, "max_epochs": 3}
    assert_resumed(tmp_path, [3, 7], kills=[4, 8], module=InTraining, **options)

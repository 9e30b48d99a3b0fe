"""Mini-batches cut into parts: the same batches, the same gradients but for rounding."""

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from counts import Innocent
from example_trainings import VARIANT
from goes_by_loss import GoesByLoss
from pytorch_lightning.plugins.environments import LightningEnvironment
from small import OneLoader, Points, Small
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric, Metric, SumMetric
from torchmetrics.aggregation import RunningMean
from tracing import rows_of

from twinrun.config.definitions import TrainerArguments, Variant
from twinrun.errors import TwinrunError
from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.counters_read import counters_read
from twinrun.parallel.drawn_in_steps import DrawnInSteps
from twinrun.parallel.micro_batch_logs import logged_of_parts
from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parallel.whole_steps import WholeSteps
from twinrun.process.determinism import determinism
from twinrun.run_records import is_in_part
from twinrun.trace.step_tracer import Tracer
from twinrun.training.what_happened import WhatHappened


@pytest.fixture(autouse=True)
def _as_found():
    with determinism(deterministic=True, threads=1):
        yield


def trained(parts, module=None, data=None, **told):
    """Train in float64; 70 points in batches of 16, the last one 6: parts of 6, 5, 5 and 2, 2, 2.

    Give the module and the traced steps.
    """
    torch.manual_seed(1)
    module, data = module or Small(), data or Points(seed=1)
    given = {"micro_batches": parts, "accumulated": parts}
    tracer = accumulate(module, data, **given) if parts > 1 else Tracer()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        precision="64-true",
        max_epochs=2,
        accumulate_grad_batches=parts,
        callbacks=[tracer, *told.pop("callbacks", [])],
        **told,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        plugins=[LightningEnvironment()],
    )
    trainer.fit(module, datamodule=data)
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    return module, pd.DataFrame(rows_of(tracer)), metrics


@pytest.fixture(scope="module")
def whole():
    with determinism(deterministic=True, threads=1):
        return trained(1)


def test_parts_train_what_the_whole_batches_do(whole):
    module, steps, metrics = trained(3)
    assert steps["step"].tolist() == whole[1]["step"].tolist() == list(range(1, 11))
    assert steps["batch"].tolist() == whole[1]["batch"].tolist()
    np.testing.assert_allclose(steps["loss"], whole[1]["loss"], rtol=1e-12)
    assert metrics == pytest.approx(whole[2], rel=1e-12)
    for found, wanted in zip(module.parameters(), whole[0].parameters(), strict=True):
        assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert int(module.calls) == 3 * int(whole[0].calls)


def test_gradients_are_traced_ahead_of_clipping():
    """Red before: those of an update of micro-batches were traced behind it."""
    (_, plain, _), (_, clipped, _) = trained(2), trained(2, gradient_clip_val=1e-3)
    assert plain["gradients"][0] == clipped["gradients"][0]
    assert plain["parameters"][0] != clipped["parameters"][0]


def test_parts_are_cut_without_loss():
    data = torch.arange(16).reshape(8, 2)
    parts = MicroBatches(DataLoader(data, batch_size=5), 3, DrawnInSteps())
    assert len(parts) == 6
    assert [part[:, 0].tolist() for part in parts] == [[0, 2], [4, 6], [8], [10], [12], [14]]


class Averaged(Small):
    """Keeps a moving average of a weight, and changes gradients, in hooks; a callback counts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", self.output.weight.detach().clone())
        self.numbers, self.counted = [], []

    def training_step(self, batch, batch_idx):
        self.numbers.append(batch_idx)
        return super().training_step(batch, batch_idx)

    def on_after_backward(self):
        for parameter in self.parameters():
            parameter.grad.div_(parameter.grad.norm() + 1)

    def on_train_batch_start(self, batch, batch_idx):
        self.counted.append(("start", batch_idx))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        with torch.no_grad():
            self.average.lerp_(self.output.weight, 0.5)

    def configure_callbacks(self):
        counted = self.counted

        class Counts(pl.Callback):
            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                counted.append(("end", batch_idx))

        return Counts()


def test_hooks_around_a_step_are_those_of_the_mini_batch():
    """Red before: each micro-batch moved the average, by 1.6 %, and changed the sum so far."""
    torch.manual_seed(1)
    whole, _, _ = trained(1, module=Averaged())
    torch.manual_seed(1)
    module, _, _ = trained(3, module=Averaged())
    for name, value in whole.state_dict().items():
        if name != "calls":
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-14)
    assert module.counted == whole.counted
    assert module.numbers == [number for number in whole.numbers for _ in range(3)]


class Sees(Small):
    """Keeps what its hooks are given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_start(self, batch, batch_idx):
        self.seen.append((len(batch[0]), float(batch[0].sum())))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append((len(batch[0]), float(outputs["loss"])))

    def configure_callbacks(self):
        seen = self.seen

        class Sums(pl.Callback):
            def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
                seen.append((len(batch[1]), float(batch[1].sum())))

            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                seen.append((float(batch[0].sum()), float(outputs["loss"])))

        return Sums()


def test_hooks_around_a_step_are_given_the_mini_batch_and_its_loss():
    """Red before: they were given a micro-batch, and the loss of the last one divided by all."""
    torch.manual_seed(1)
    whole = trained(1, module=Sees())[0].seen
    torch.manual_seed(1)
    parts = trained(3, module=Sees())[0].seen
    assert len(whole) == len(parts) == 4 * 10
    for found, wanted in zip(parts, whole, strict=True):
        assert found == pytest.approx(wanted, rel=1e-12)


class Asks(Averaged):
    """Asks for its training loader wherever one can, and trains by what it finds."""

    def seen(self, loader):
        """Sum up a loader, and say how long it is; its order is drawn anew."""
        batches = list(loader)
        return len(loader), sum(len(inputs) for inputs, _ in batches), len(loader.dataset)

    def on_train_start(self):
        self.found = [self.seen(self.trainer.datamodule.train_dataloader())]

    def on_train_epoch_start(self):
        self.steps = len(self.trainer.datamodule.train_dataloader())
        self.found.append(self.seen(self.trainer.train_dataloader))

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + batch_idx / self.steps)

    def on_train_batch_start(self, batch, batch_idx):
        super().on_train_batch_start(batch, batch_idx)
        self.found += [self.seen(self.trainer.train_dataloader)] if batch_idx == 1 else []

    def on_train_epoch_end(self):
        self.found.append(self.seen(self.trainer.datamodule.train_dataloader()))


@pytest.mark.parametrize("data", [Points, OneLoader])
def test_a_module_that_asks_for_its_loader_finds_the_mini_batches(data):
    """Red before: it found none, or halves of them, and its hooks were never called again."""
    torch.manual_seed(1)
    whole, steps, metrics = trained(1, Asks(), data(seed=1))
    torch.manual_seed(1)
    module, found, others = trained(3, Asks(), data(seed=1))
    assert module.found == whole.found == [(5, 70, 70)] * len(whole.found)
    assert module.counted == whole.counted
    assert found["batch"].tolist() == steps["batch"].tolist()
    assert others == pytest.approx(metrics, rel=1e-12)
    for name, value in whole.state_dict().items():
        if name != "calls":
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-14)


class Numbered(Averaged):
    """Updates at every second batch by the number that its hooks are given."""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        self.counted.append(("update", epoch, batch_idx))
        if batch_idx % 2 == 0:
            optimizer.step(closure=optimizer_closure)
        else:
            optimizer_closure()

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        self.counted.append(("zero", epoch, batch_idx))
        if batch_idx % 2:
            optimizer.zero_grad()


class ByOneStep(Averaged):
    """Evaluates by its training step, whose loss grows with the number of the batch."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + batch_idx)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.training_step(batch, batch_idx))


class AsksForLimits(Averaged):
    """Trains by the limits that the Trainer was told, wherever it asks for them."""

    def limits(self):
        limits = self.trainer.limit_train_batches, self.trainer.val_check_interval
        return [*limits, self.trainer.estimated_stepping_batches, *map(type, limits)]

    def configure_optimizers(self):
        self.found = [self.limits()]
        return super().configure_optimizers()

    def training_step(self, batch, batch_idx):
        self.found.append(self.limits())
        return super().training_step(batch, batch_idx) * self.found[-1][0]

    def on_validation_start(self):
        self.counted.append(self.global_step)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "told",
    [
        {"limit_train_batches": 0.5},
        {"limit_train_batches": 3},
        {"val_check_interval": 0.5},
        {"val_check_interval": 1},
        {"limit_train_batches": 3, "val_check_interval": 0.5},
        {"val_check_interval": 7, "check_val_every_n_epoch": None},
        {"limit_train_batches": 3, "reload_dataloaders_every_n_epochs": 1},
    ],
)
def test_the_trainers_limits_are_what_it_was_told(told):
    """Red before: those of micro-batches; and no epoch was whole, as one with a limit is not."""
    torch.manual_seed(1)
    whole, _, metrics = trained(1, AsksForLimits(), **told)
    torch.manual_seed(1)
    happened = WhatHappened(Variant(**VARIANT), TrainerArguments())
    module, _, found = trained(3, AsksForLimits(), callbacks=[happened], **told)
    assert module.counted == whole.counted
    assert {tuple(map(str, each)) for each in module.found} == {tuple(map(str, whole.found[0]))}
    assert found == pytest.approx(metrics, rel=1e-12)
    assert happened.whole_epochs == (0 if "limit_train_batches" in told else 2)
    for name, value in whole.named_parameters():
        torch.testing.assert_close(module.get_parameter(name), value, rtol=1e-12, atol=1e-14)


def test_who_is_not_named_trains_the_same():
    torch.manual_seed(1)
    whole, steps, metrics = trained(1, Innocent())
    torch.manual_seed(1)
    module, others, found = trained(3, Innocent())
    assert not any("reads" in text for text in counters_read(module.trainer, module))
    assert found == pytest.approx(metrics, rel=1e-12)
    np.testing.assert_allclose(others["loss"], steps["loss"], rtol=1e-12)
    for name, value in whole.named_parameters():
        torch.testing.assert_close(module.get_parameter(name), value, rtol=1e-12, atol=1e-14)


class ByLoss(torch.optim.SGD):
    """Takes a step that is the longer the larger the loss, as Polyak's."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure()
        for parameter in self.param_groups[0]["params"]:
            parameter -= 0.1 * loss * parameter.grad
        return loss


class Polyak(Averaged):
    def configure_optimizers(self):
        return ByLoss(self.parameters(), lr=0.1)


@pytest.mark.parametrize("kind", [Numbered, ByOneStep, Polyak])
def test_updates_and_evaluations_are_those_of_the_mini_batch(kind):
    torch.manual_seed(1)
    whole, _, metrics = trained(1, kind())
    torch.manual_seed(1)
    module, _, found = trained(3, kind())
    assert module.counted == whole.counted
    assert found == pytest.approx(metrics, rel=1e-12)
    for name, value in whole.state_dict().items():
        if name != "calls":
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-14)


class Logs(Small):
    """Logs what can be logged, in each way; its last hook sees what a callback would."""

    def __init__(self):
        super().__init__()
        self.metric = MeanMetric()
        self.seen = []

    def training_step(self, batch, batch_idx):
        inputs, _ = batch
        loss = super().training_step(batch, batch_idx)
        both = {"on_step": True, "on_epoch": True}
        self.log("step", loss)
        self.log("number", loss.item())
        self.log("rate", 0.1)
        self.log_dict({"both": loss, "single": loss.to(torch.float32)}, **both)
        self.log("count", float(len(inputs)), reduce_fx="sum", **both)
        self.log("largest", inputs.max(), reduce_fx=torch.max, **both)
        self.log("smallest", inputs.min(), False, None, True, True, "min")
        self.log("given", loss, batch_size=len(inputs), **both)
        self.log("constant", loss, batch_size=9, **both)
        self.metric.update(inputs.mean(), weight=len(inputs))
        self.log("metric", self.metric, on_step=False, on_epoch=True)
        if batch_idx == 1:
            self.log("second", loss)
        return loss

    def on_before_backward(self, loss):
        self.log("backward", self.output.weight.sum(), on_step=True, on_epoch=True)

    def on_after_backward(self):
        norm = self.output.weight.grad.norm()
        self.log("norm", norm, on_step=True, on_epoch=True)
        self.seen.append(float(self.trainer.callback_metrics["step"]))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("end", self.output.weight.sum(), on_step=True, on_epoch=True)
        self.seen.append({n: float(v) for n, v in self.trainer.callback_metrics.items()})


def test_what_is_logged_is_the_mini_batchs():
    torch.manual_seed(1)
    whole, _, metrics = trained(1, Logs())
    torch.manual_seed(1)
    module, _, found = trained(3, Logs())
    assert found == pytest.approx(metrics, rel=1e-6)
    assert list(found) == list(metrics)
    assert len(module.seen) == len(whole.seen) == 20
    for number, (own, wanted) in enumerate(zip(module.seen, whole.seen, strict=True)):
        assert own == pytest.approx(wanted, rel=1e-6), number
    # The others are of float32.
    exact = [name for name in metrics if "single" not in name and name != "metric"]
    assert [found[n] for n in exact] == pytest.approx([metrics[n] for n in exact], rel=1e-12)


class Reduces(Small):
    """Logs sums and extremes over samples, and a loss, all by one way of joining steps."""

    def __init__(self, reduction, value):
        super().__init__()
        self.reduction, self.of = reduction, value

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        value = {
            "min": batch[0].min(),
            "max": batch[0].max(),
            "sum": batch[0].sum(),
            "loss": loss,
        }[self.of]
        self.log("value", value, on_step=True, on_epoch=True, reduce_fx=self.reduction)
        return loss


@pytest.mark.one_in(4)
@pytest.mark.parametrize("reduction", ["min", "max", "sum", torch.max, sum, "mean", "avg"])
@pytest.mark.parametrize("of", ["itself", "loss"])
def test_what_is_joined_by_its_reduction_is_the_mini_batchs_or_named(reduction, of):
    """Red before: the largest loss was that of a micro-batch, and nothing was said."""
    name = reduction if isinstance(reduction, str) else reduction.__name__
    is_mean = name in ("mean", "avg")
    of = "loss" if of == "loss" or is_mean else name
    torch.manual_seed(1)
    _, _, metrics = trained(1, Reduces(reduction, of))
    torch.manual_seed(1)
    module, _, found = trained(3, Reduces(reduction, of))
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    said = [text for text in tracer.not_of_whole(module) if "reduce_fx" in text]
    is_same = found == pytest.approx(metrics, rel=1e-12)
    assert is_same == (of != "loss" or is_mean)
    expected = f"of each micro-batch by their reduce_fx (value by {name})"
    assert [expected in text for text in said] == ([] if is_mean else [True])


class LogsOnce(Small):
    """Logs at the first micro-batch alone: of 6, then of 2."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if int(self.calls) % 3 == 1:
            self.log("first", float(len(batch[0])), on_step=True, on_epoch=True)
        return loss


def test_what_some_micro_batches_log_is_theirs():
    _, _, metrics = trained(3, LogsOnce())
    assert metrics["first_step"] == 2
    assert metrics["first_epoch"] == pytest.approx((4 * 6 * 6 + 2 * 2) / (4 * 6 + 2))


class Counts(Small):
    """Logs means over some samples, how many of them being the weight: of some parts none."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for column, values in enumerate(batch[0].T):
            for bound in [-0.5, 0.5, 1.25]:
                chosen = values[values > bound]
                options = {"on_step": True, "on_epoch": True, "batch_size": len(chosen)}
                mean = chosen.sum() / max(len(chosen), 1)
                self.log(f"{column} above {bound}", mean, **options)
        return loss


def test_counts_give_the_weights_of_what_is_logged():
    """Red before: where all were alike by chance, samples did; now at first alone, by name."""
    torch.manual_seed(1)
    _, _, metrics = trained(1, Counts())
    torch.manual_seed(1)
    module, _, found = trained(3, Counts())
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    (sentence,) = [text for text in tracer.not_of_whole(module) if "weighs" in text]
    # In the first mini-batch 4 of 6, 4 of 5 and 4 of 5.
    assert "the first values of 2 above -0.5 by samples" in sentence
    told = {name for name in metrics if "2 above -0.5" not in name}
    assert {n: found[n] for n in told} == pytest.approx({n: metrics[n] for n in told}, rel=1e-12)


class CountsOtherwise(Small):
    """Gives its counts as scalars of other libraries."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("numpy", loss, on_epoch=True, batch_size=np.int64(len(batch[0])))
        self.log("torch", loss, on_epoch=True, batch_size=torch.tensor(len(batch[0])))
        return loss


def test_what_a_checkpoint_holds_of_sizes_is_plain():
    """Red before: a scalar of NumPy's, of which weights_only may know nothing."""
    torch.manual_seed(1)
    _, _, metrics = trained(1, CountsOtherwise())
    torch.manual_seed(1)
    module, _, found = trained(3, CountsOtherwise())
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    kept = [first for _, first, _, _ in tracer.state_dict()["sizes"]]
    assert [type(first) for first in kept] == [float, float]
    assert found == pytest.approx(metrics, rel=1e-12)


class LogsMetric(Small):
    """Logs a metric of torchmetrics at each step, and one that has no value of a step."""

    def __init__(self):
        super().__init__()
        self.mean, self.updated, self.epochs = MeanMetric(), MeanMetric(), MeanMetric()

    def training_step(self, batch, batch_idx):
        self.mean(batch[0])
        self.epochs(batch[0])
        self.updated.update(batch[0])
        self.log_dict({"mean": self.mean, "updated": self.updated}, on_step=True, on_epoch=True)
        self.log("epochs", self.epochs, on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)


def test_what_is_not_the_mini_batchs_is_a_departure():
    module, _, metrics = trained(3, LogsMetric())
    assert metrics["mean_epoch"] == pytest.approx(trained(1, LogsMetric())[2]["mean_epoch"])
    assert logged_of_parts(module) == ["mean"]
    happened = WhatHappened(Variant(**VARIANT), TrainerArguments())
    happened.on_train_end(module.trainer, module)
    found, _ = happened.departures[-2:]
    assert found["setting"] == "accumulate"
    assert is_in_part(found)
    assert "last micro-batch (torchmetrics logged as mean)" in found["sentence"]


class Moves(Small):
    """Moves in each forward pass a queue, a codebook by `.data`, and a frozen average of weights.

    A layer's statistics and a buffer that is written as it was move nothing that counts here.
    """

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.mean = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
        for name in ("queue", "codebook", "same", "still", "replaced"):
            self.register_buffer(name, torch.zeros(4))

    def training_step(self, batch, batch_idx):
        centre = self.norm(batch[0]).detach().mean(0) + batch[0].mean(0)
        self.queue.copy_(centre)
        self.codebook.data.add_(centre)
        with torch.no_grad():
            self.mean.lerp_(centre, 0.1)
        self.same.zero_()
        self.replaced = centre
        return super().training_step(batch, batch_idx)


class Target(Small):
    """Its loss reads an average of its weights, that a hook of zero_grad moves."""

    def __init__(self):
        super().__init__()
        self.average = torch.nn.Linear(8, 1).requires_grad_(False)
        self.seen = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        with torch.no_grad():
            aim = self.average(self.hidden(batch[0]).relu())
        return loss + (self(batch[0]) - aim).square().mean()

    @torch.no_grad()
    def move(self):
        self.average.weight.lerp_(self.output.weight, 0.5)
        gradient = self.output.weight.grad
        self.seen.append(-1.0 if gradient is None else float(gradient.norm()))


class BeforeZeroGrad(Target):
    def on_before_zero_grad(self, optimizer):
        self.move()


class InZeroGrad(Target):
    """Keeps a part of the last step's gradients, too."""

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        self.move()
        for parameter in self.output.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(0.25)
        self.hidden.zero_grad()


class CallbackBeforeZeroGrad(Target):
    def configure_callbacks(self):
        class Moves(pl.Callback):
            def on_before_zero_grad(self, trainer, pl_module, optimizer):
                pl_module.move()

        return [Moves()]


class SkipsWhole(BeforeZeroGrad):
    """Computes no loss of every third batch."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return None if batch_idx % 3 == 1 else loss


class Freezes(BeforeZeroGrad):
    """Freezes a layer ahead of a backward pass, and thaws it."""

    def on_before_zero_grad(self, optimizer):
        super().on_before_zero_grad(optimizer)
        self.hidden.requires_grad_(self.global_step % 3 != 1)


class WritesOnce(Small):
    """Writes a buffer in one step, by its value, its name or its `.data`."""

    def __init__(self):
        super().__init__()
        for name in ("value", "named", "raw"):
            self.register_buffer(name, torch.zeros(4))

    def training_step(self, batch, batch_idx):
        centre = batch[0].mean(0)
        if self.global_step == 6:
            self.value.copy_(centre)
            self.named = centre
        if self.global_step == 7:
            self.raw.data.copy_(centre)
        return super().training_step(batch, batch_idx)


class EverySecondCall(Target):
    """Counts its calls in Python and moves its average at every second one, as DQN does."""

    def training_step(self, batch, batch_idx):
        self.count = getattr(self, "count", 0) + 1
        if self.count % 2 == 0:
            self.move()
        return super().training_step(batch, batch_idx)


class BeforeBackward(Target):
    """Moves the average ahead of each backward pass."""

    def on_before_backward(self, loss):
        self.move()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind", [BeforeZeroGrad, InZeroGrad, CallbackBeforeZeroGrad, SkipsWhole, Freezes]
)
def test_hooks_of_zero_grad_come_when_all_of_the_mini_batch_has_been_computed(kind):
    """Red before: all micro-batches but the first read an average that had moved on."""
    torch.manual_seed(1)
    whole, _, metrics = trained(1, kind())
    torch.manual_seed(1)
    module, _, found = trained(3, kind())
    assert module.seen == pytest.approx(whole.seen, rel=1e-12)
    assert found == pytest.approx(metrics, rel=1e-12)
    for name, value in whole.state_dict().items():
        if name != "calls":
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-14)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (Moves, "calls, codebook, mean, queue, replaced"),
        (Averaged, "calls"),  # the average moves in a hook of the mini-batch
        (BeforeZeroGrad, "calls"),
        (BeforeBackward, "average.weight, calls"),
        # Red before: of two micro-batches the last one was not looked at.
        (EverySecondCall, "average.weight, calls"),
        (WritesOnce, "calls, named, raw, value"),
    ],
)
def test_what_a_forward_pass_moves_is_named(module, named):
    module, *_ = trained(2, module())
    happened = WhatHappened(Variant(**VARIANT), TrainerArguments())
    happened.on_train_end(module.trainer, module)
    of_parts = [each for each in happened.departures if each["setting"] == "accumulate"]
    (found,) = [each for each in of_parts if "would move once" in each["sentence"]]
    assert is_in_part(found)
    assert found["sentence"].endswith(f"would move once: {named}")


class SkipsSome(Small):
    """Gives no loss of the second of two micro-batches, in one step."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return None if int(self.calls) == 4 else loss


def test_what_was_found_outlasts_a_resumption():
    """Red before: what had moved before the stop alone was forgotten."""
    module, *_ = trained(2, SkipsSome())
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    told = list(tracer.not_of_whole(module))
    assert "of some micro-batches training_step gives no loss" in told[0]
    assert told[1].endswith("move once: calls")
    later = Small()
    other = accumulate(later, Points(), micro_batches=2, accumulated=2)
    later.trainer = module.trainer
    other.load_state_dict(tracer.state_dict())
    assert list(other.not_of_whole(later)) == told


def test_gradients_are_zeroed_when_lightning_counts_from_another_micro_batch():
    """Red before: never, of a training that Lightning had resumed between two of them."""
    module, _, _ = trained(3, BeforeZeroGrad())
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    loop = module.trainer.fit_loop.epoch_loop.automatic_optimization
    optimizer, seen = module.trainer.optimizers[0], len(module.seen)
    found = []
    for number, part in [(7, 0), (8, 1), (9, 2)]:
        tracer._made[0].part = part
        zero = loop._make_zero_grad_fn(number, optimizer)
        found.append(zero is not None)
        if zero is not None:
            zero()
    assert found == [False, False, True]
    assert len(module.seen) == seen + 1
    assert module.output.weight.grad is None


class Manual(Small):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False


class Lbfgs(Small):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=3)


class Twice(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        return super().step(closure)


class Sharp(Small):
    """An optimizer that computes the gradients of a step twice, of which only a run can tell."""

    def configure_optimizers(self):
        return Twice(self.parameters(), lr=0.1)


class AveragedByLightning(Small):
    """Lightning averages its weights, and computes its statistics anew in an epoch at the end."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def configure_callbacks(self):
        return [pl.callbacks.StochasticWeightAveraging(swa_lrs=0.01)]


class Strings(Points):
    def train_dataloader(self):
        return DataLoader([{"text": "a", "point": torch.zeros(4)}] * 8, batch_size=4)


class Listed(Points):
    def train_dataloader(self):
        return [1, 2]


@pytest.mark.parametrize(
    ("module", "data", "parts", "message"),
    [
        (Manual, Points, 2, "accumulate: Manual optimizes manually"),
        (Lbfgs, Points, 2, "accumulate: LBFGS computes the gradients of a step several times"),
        (Sharp, Points, 2, "accumulate: Twice computes the gradients of a step several times"),
        (AveragedByLightning, Points, 2, "accumulate: StochasticWeightAveraging adds an epoch"),
        (Small, Points, 7, "accumulate: a mini-batch of 6 is not enough for 7 micro-batches"),
        (Small, Strings, 2, "accumulate: a mini-batch holds a str, where tensors are needed"),
        (Small, Listed, 2, "accumulate: train_dataloader gives a list"),
    ],
)
def test_what_cannot_be_cut_is_refused(module, data, parts, message):
    with pytest.raises(TwinrunError, match=message):
        trained(parts, module(), data())


class Accumulates(Small):
    """Tells the Trainer by itself, in an epoch, how many batches to accumulate."""

    def on_train_epoch_start(self):
        self.trainer.accumulate_grad_batches = 1 + self.current_epoch


def test_who_accumulates_by_himself_is_refused():
    """Red before: another training, in silence: what he counts are parts of mini-batches."""
    with pytest.raises(TwinrunError, match="accumulate_grad_batches to 1, and it has to be 3"):
        trained(3, Accumulates())


class StopsInStep(Small):
    """Ends the training in the first micro-batch of a step, as soon as it is good enough."""

    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == 7:
            self.trainer.should_stop = True
        return super().training_step(batch, batch_idx)


def test_a_step_in_which_the_end_is_asked_for_is_done_whole():
    """Red before: the training ended within the mini-batch, without its update."""
    torch.manual_seed(1)
    whole, steps, metrics = trained(1, StopsInStep())
    torch.manual_seed(1)
    module, found, logged = trained(3, StopsInStep())
    assert len(found) == len(steps) == 8
    assert logged == pytest.approx(metrics, rel=1e-12)
    for name, value in whole.named_parameters():
        torch.testing.assert_close(module.get_parameter(name), value, rtol=1e-12, atol=1e-14)


class LogsNothing(Small):
    """Logs a mean over samples of which a micro-batch has none."""

    def training_step(self, batch, batch_idx):
        chosen = batch[0][:, 0] > 1
        mean = batch[0][chosen].sum() / chosen.sum()
        self.log("mean", mean, on_step=True, on_epoch=False, batch_size=int(chosen.sum()))
        return super().training_step(batch, batch_idx)


def test_a_micro_batch_without_samples_of_a_mean_has_no_part_in_it():
    """Red before: 0 times NaN is NaN."""
    _, _, metrics = trained(1, LogsNothing())
    _, _, found = trained(3, LogsNothing())
    assert found["mean"] == pytest.approx(metrics["mean"], rel=1e-12)


class ReadsCounters(Small):
    """Knows the end of an epoch by what the Trainer counts."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * (2 if self.trainer.is_last_batch else self.position())

    def position(self):
        return 1 + (lambda: self.trainer.fit_loop.epoch_loop.batch_idx)() / 10

    def configure_callbacks(self):
        return ReadsTotal()


class ReadsTotal(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        self.batch_idx = trainer.fit_loop.total_batch_idx


class ByHandOfTheTrainer(Small):
    """Asks the Trainer how many batches make an update."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.logged = outputs["loss"] * self.trainer.accumulate_grad_batches


def clamp(tensor):
    tensor.grad.clamp_(-0.1, 0.1)


class Clamps(Small):
    """Clamps gradients in hooks, each of another kind."""

    def __init__(self):
        super().__init__()
        weight, bias = self.hidden.parameters()
        weight.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        bias.register_post_accumulate_grad_hook(clamp)


class Aggregates(Small):
    """Has torchmetrics add up its losses."""

    def __init__(self):
        super().__init__()
        self.sum, self.running, self.mean = SumMetric(), RunningMean(3), MeanMetric()
        self.weighed = MeanMetric()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.sum.update(loss)
        self.running.update(loss)
        self.mean.update(loss)
        self.weighed.update(loss, len(batch[0]))
        self.log("mean", self.mean, on_step=False, on_epoch=True)
        self.log("weighed", self.weighed, on_step=False, on_epoch=True)
        self.log("sum", self.sum, on_step=False, on_epoch=True)
        self.log("running", self.running, on_step=False, on_epoch=True)
        return loss


class AddsUp(Metric):
    """A metric of a user's own."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, value):
        self.total += value

    def compute(self):
        return self.total


class AggregatesUntilTheEnd(Small):
    """Logs what metrics have joined where the epoch ends, as numbers."""

    def __init__(self):
        super().__init__()
        self.sums = torch.nn.ModuleDict({"theirs": SumMetric(), "own": AddsUp()})

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for metric in self.sums.values():
            metric.update(loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.log_dict({name: metric.compute() for name, metric in self.sums.items()})


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (AggregatesUntilTheEnd, "given of each micro-batch (sums.own, sums.theirs): what"),
        (ByHandOfTheTrainer, "where ByHandOfTheTrainer reads accumulate_grad_batches"),
        (
            Clamps,
            "has hooks of gradients (hidden.weight, hidden.bias) see those of each micro-batch",
        ),
        (
            Aggregates,
            "join what they are given of each micro-batch (mean, running, sum): what",
        ),
    ],
)
def test_what_sees_micro_batches_is_named(module, said):
    """Red before: nothing was said, and weights or logged values were others."""
    module, *_ = trained(2, module())
    happened = WhatHappened(Variant(**VARIANT), TrainerArguments())
    happened.on_train_end(module.trainer, module)
    assert any(said in found["sentence"] for found in happened.departures if is_in_part(found))


def test_who_reads_what_counts_micro_batches_is_named():
    module, _, _ = trained(3, ReadsCounters())
    happened = WhatHappened(Variant(**VARIANT), TrainerArguments())
    happened.on_train_end(module.trainer, module)
    sentences = [found["sentence"] for found in happened.departures]
    assert (
        "in part, accumulate has the Trainer count micro-batches where ReadsCounters reads "
        "is_last_batch, epoch_loop.batch_idx and ReadsTotal reads total_batch_idx"
    ) in sentences
    module, _, _ = trained(3, Averaged())
    happened.on_train_end(module.trainer, module)
    assert not any("Averaged reads" in found["sentence"] for found in happened.departures)


class StepsItsSchedule(Small):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return optimizer

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.schedule.step()
        return loss


class ReadsOutputs(Small):
    """Logs what the step gave, in a hook of the mini-batch."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return {"loss": loss, "worst": (self(batch[0]) - batch[1]).abs().max().detach()}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("worst", outputs["worst"], on_step=False, on_epoch=True)


class ReadsNoOutputs(ReadsOutputs):
    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("size", float(len(batch[0])), on_step=False, on_epoch=True)


class ReadsTheLoss(ReadsOutputs):
    """Reads what is the mini-batch's."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("twice", 2 * outputs["loss"] + float(outputs["loss"]) * 0, on_epoch=True)


class ReadsAKey(ReadsOutputs):
    """Reads the loss, and what a name says."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        for name in ("loss", "worst"):
            self.log(name, outputs[name] + outputs["loss"] * 0, on_epoch=True, on_step=False)


class ReadsByAnotherName(ReadsOutputs):
    """Reads them behind a store, which Python 3.13 makes one instruction of."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        number = 1
        found = outputs
        self.log("worst", found["worst"] * number, on_step=False, on_epoch=True)


class CallbackReadsOutputs(ReadsOutputs):
    on_train_batch_end = pl.LightningModule.on_train_batch_end

    def configure_callbacks(self):
        class Keeps(pl.Callback):
            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                self.worst = outputs["worst"]

        return [Keeps()]


class Bins(Small):
    """Looks up its inputs by bins, whose gradients count how often each comes."""

    def __init__(self):
        super().__init__()
        self.bins = torch.nn.Embedding(8, 4, scale_grad_by_freq=True)

    def forward(self, inputs):
        return super().forward(self.bins((inputs.abs() * 3).long().clamp(max=7)).mean(1))


class Weighed(Small):
    """Has losses of torch's: of sums, and of weighted classes."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def training_step(self, batch, batch_idx):
        guessed = self(batch[0])
        if isinstance(self.loss, torch.nn.CrossEntropyLoss):
            return self.loss(torch.cat([guessed, -guessed], 1), (batch[1][:, 0] > 0).long())
        return self.loss(guessed, batch[1])


class HoldsLossPlainly(Small):
    """Has a loss of sums in a dict, which is no part of it to torch."""

    def __init__(self):
        super().__init__()
        self.losses = {"of": [torch.nn.MSELoss(reduction="sum")]}

    def training_step(self, batch, batch_idx):
        return self.losses["of"][0](self(batch[0]), batch[1])


class LossOfItsClass(Small):
    """Has a loss of sums in its class."""

    loss = torch.nn.MSELoss(reduction="sum")

    def training_step(self, batch, batch_idx):
        return self.loss(self(batch[0]), batch[1])


SUMMED = torch.nn.MSELoss(reduction="sum")


class LossOfItsFile(Small):
    """Has a loss of sums in a global."""

    def training_step(self, batch, batch_idx):
        return SUMMED(self(batch[0]), batch[1])


class FrozenBins(Bins):
    """Trains no bins, which have no gradients."""

    def __init__(self):
        super().__init__()
        self.bins.requires_grad_(requires_grad=False)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("module", "said"),
    [
        (StepsItsSchedule, "would move once: calls, lr of SGD"),
        (ReadsOutputs, "gives hooks (ReadsOutputs.on_train_batch_end) what training_step returns"),
        (CallbackReadsOutputs, "gives hooks (Keeps.on_train_batch_end) what training_step"),
        (ReadsByAnotherName, "gives hooks (ReadsByAnotherName.on_train_batch_end) what"),
        (ReadsNoOutputs, None),
        (ReadsTheLoss, None),
        (ReadsAKey, "gives hooks (ReadsAKey.on_train_batch_end) what training_step returns"),
        # What the end of a batch is given is the mini-batch's.
        (GoesByLoss, "gives hooks (Lasts.on_before_backward) the loss of each micro-batch"),
        (Bins, "may have layers (bins) divide gradients by how often an index comes in"),
        (lambda: Weighed(torch.nn.MSELoss(reduction="sum")), "calls loss: a sum"),
        (
            lambda: Weighed(
                torch.nn.CrossEntropyLoss(torch.tensor([1.0, 3.0], dtype=torch.double))
            ),
            "calls loss: a sum",
        ),
        (lambda: Weighed(torch.nn.CrossEntropyLoss()), None),
        (lambda: Weighed(torch.nn.CrossEntropyLoss(torch.full((2,), 3, dtype=torch.double))), None),
        (HoldsLossPlainly, "calls losses.of.0: a sum"),
        (LossOfItsClass, "calls loss: a sum"),
        (LossOfItsFile, "calls SUMMED: a sum"),
        (FrozenBins, None),
    ],
)
def test_what_is_no_mean_over_samples_is_named(module, said):
    """Red before: nothing was said, and weights or logged values were others."""
    module, *_ = trained(2, module())
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    found = [text for text in tracer.not_of_whole(module) if not text.endswith("once: calls")]
    assert len(found) == (said is not None)
    assert all(said in text for text in found)
    later = Small()
    other = accumulate(later, Points(), micro_batches=2, accumulated=2)
    later.trainer = module.trainer
    other.load_state_dict(tracer.state_dict())
    kept = [text for text in found if "layers" not in text and "a sum" not in text]
    assert set(kept) <= set(other.not_of_whole(later))

"""Mini-batches cut into parts: the same batches, the same gradients but for rounding."""

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from small import OneLoader, Points, Small
from torch.utils.data import DataLoader
from tracing import rows_of

from twinrun.errors import TwinrunError
from twinrun.parallel.accumulation import MicroBatches, accumulate
from twinrun.process.determinism import determinism
from twinrun.trace.step_tracer import Tracer


@pytest.fixture(autouse=True)
def _as_found():
    with determinism(deterministic=True, threads=1):
        yield


def trained(parts, module=None, data=None):
    """Train in float64; 70 points in batches of 16, the last one 6: parts of 6, 5, 5 and 2, 2, 2.

    Give the module and the traced steps.
    """
    torch.manual_seed(1)
    module, data = module or Small(), data or Points(seed=1)
    tracer = accumulate(module, data, micro_batches=parts) if parts > 1 else Tracer()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        precision="64-true",
        max_epochs=2,
        accumulate_grad_batches=parts,
        callbacks=[tracer],
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


def test_parts_are_cut_without_loss():
    data = torch.arange(16).reshape(8, 2)
    parts = MicroBatches(DataLoader(data, batch_size=5), 3)
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


class Manual(Small):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False


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
        (Small, Points, 7, "accumulate: a mini-batch of 6 is not enough for 7 micro-batches"),
        (Small, Strings, 2, "accumulate: a mini-batch holds a str, where tensors are needed"),
        (Small, Listed, 2, "accumulate: train_dataloader gives a list"),
    ],
)
def test_what_cannot_be_cut_is_refused(module, data, parts, message):
    with pytest.raises(TwinrunError, match=message):
        trained(parts, module(), data())

"""What callbacks keep is told from what a checkpoint holds, and Lightning keeps itself."""

import time
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from torchmetrics import MeanMetric

from twinrun.checkpoint.unsaved_state import changed_callbacks, states_of_callbacks


class Watches(pl.Callback):
    """Keeps hold of what the checkpoint holds."""

    def __init__(self, module, optimizer, scheduler):
        self.encoder, self.parameters = module.encoder, list(module.parameters())
        self.by_name = {"optimizer": optimizer, "scheduler": scheduler}
        self.optimizer, self.scheduler = optimizer, scheduler
        self.late = None

    def change(self):
        self.late = [self.encoder]


class Accumulates(pl.Callback):
    def __init__(self, *_):
        self.mean = MeanMetric()

    def change(self):
        self.mean.update(3.0)


class Counts(pl.Callback):
    def __init__(self, *_):
        self.counts = [lambda: 1, 0]

    def change(self):
        self.counts[1] += 1


class Clock(pl.Callback):
    def __init__(self, *_):
        self.began = 0.0

    def change(self):
        self.began = time.time()


class SaysNothingIsKept(Clock):
    def state_dict(self):
        return {}


class Rates(pl.callbacks.LearningRateMonitor):
    def __init__(self, *_):
        super().__init__()
        self.lrs, self.last_momentum_values = {}, {}

    def change(self):
        self.lrs["SGD"], self.last_momentum_values["SGD"] = [0.1], 0.9


class Stops(pl.callbacks.EarlyStopping):
    def __init__(self, *_):
        super().__init__("loss")

    def change(self):
        self.wait_count, self.best_score = 2, torch.tensor(1.0)


class StopsAndCounts(Stops):
    seen = 0

    def change(self):
        super().change()
        self.seen += 1


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Watches, []),
        (Accumulates, ["mean"]),
        (Counts, ["counts"]),
        (Clock, ["began"]),
        (SaysNothingIsKept, []),
        (Rates, []),
        (Stops, []),
        (StopsAndCounts, ["seen"]),
    ],
)
def test_only_what_a_callback_keeps_and_nobody_saves_is_named(kind, names):
    module = pl.LightningModule()
    module.encoder = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(module.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    callback = kind(module, optimizer, scheduler)
    trainer = SimpleNamespace(
        callbacks=[callback],
        lightning_module=module,
        optimizers=[optimizer],
        lr_scheduler_configs=[SimpleNamespace(scheduler=scheduler)],
    )
    before = states_of_callbacks(trainer)
    assert list(changed_callbacks(before, states_of_callbacks(trainer))) == []
    module.encoder(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    scheduler.step()
    callback.change()
    found = list(changed_callbacks(before, states_of_callbacks(trainer)))
    assert len(found) == len(names)
    for name, sentence in zip(names, found, strict=True):
        assert sentence.startswith(f"{kind.__name__}.{name} changes while the training runs")
        assert "returns {}" in sentence

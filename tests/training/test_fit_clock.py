"""Where the seconds of a fit go."""

import time

import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small

from twinrun.trace.optimizer_settings import SettingsTrace
from twinrun.trace.step_tracer import Tracer
from twinrun.training.fit_clock import OF_A_TRACER, FitClock


class Slow(pl.Callback):
    def __init__(self):
        self.seen = []

    def on_train_start(self, word):
        time.sleep(0.02)
        self.seen.append(word)
        self.end_update(word)

    def end_update(self, word, *, fails=False):
        time.sleep(0.02)
        if fails:
            raise ValueError(word)

    def on_before_optimizer_step(self):
        return "noted"


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr("twinrun.training.fit_clock.OF_A_TRACER", ("on_train_start", "end_update"))
    return Slow()


def test_hooks_are_clocked_once_though_one_calls_another(slow):
    clock = FitClock(slow)
    slow.on_train_start("a")
    with pytest.raises(ValueError, match="b"):
        slow.end_update("b", fails=True)
    time.sleep(0.05)
    found = clock.stop()
    assert slow.seen == ["a"]
    if not torch.cuda.is_initialized():
        assert 0.06 <= found["tracing"] <= found["fit"] - 0.04
    assert found["compiling"] == 0.0
    clock.start()
    assert clock.stop()["tracing"] in (0.0, None)


def test_a_tracer_has_these_hooks_and_its_own_code():
    tracer = Tracer()
    codes = [getattr(tracer, name).__code__ for name in OF_A_TRACER]
    FitClock(tracer)
    for name, code in zip(OF_A_TRACER, codes, strict=True):
        assert getattr(Tracer, name).__code__ is code
        assert name in vars(tracer)


def test_settings_of_an_optimizer_are_a_part_of_tracing(monkeypatch):
    """Red before: Lightning has no hook behind clipping, and the tracer's own was not clocked."""
    note = SettingsTrace.note

    def slow_note(*arguments):
        time.sleep(0.1)
        note(*arguments)

    monkeypatch.setattr(SettingsTrace, "note", slow_note)
    tracer, module = Tracer(), Small()
    clock = FitClock(tracer)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        limit_train_batches=3,
        limit_val_batches=0,
        callbacks=[tracer],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, Points())
    if not torch.cuda.is_initialized():
        assert clock.stop()["tracing"] >= 0.3


def test_what_torch_compiles_is_in_its_clock(slow):
    clock = FitClock(slow)
    torch.compile(lambda tensor: tensor + 1, backend="eager")(torch.ones(3))
    assert clock.stop()["compiling"] > 0.0

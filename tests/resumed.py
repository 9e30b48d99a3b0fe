"""Train in this process with checkpoints, be killed, resume, and compare the bits."""

import contextlib

import pytorch_lightning as pl
from small import Points, Restless
from tracing import rows_of

from twinrun.checkpoint.resumable import Resumable
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.trace.step_tracer import Tracer
from twinrun.training.epoch_log import EpochMetrics

EPOCHS, STEPS = 2, 5


class Killed(BaseException):
    pass


class Kill(pl.Callback):
    def __init__(self, step):
        self._step = step

    def on_train_batch_end(self, trainer, *_):
        if trainer.fit_loop.total_batch_idx + 1 == self._step:
            raise Killed


def every(count):
    """Have a checkpoint written behind each so many batches, whatever the clock says."""
    return lambda trainer, done: done % count == 0


class Anew(list):
    """Makes a callback of a class for each training."""

    def __iter__(self):
        return (kind() for kind in list.__iter__(self))


def fit(folder, data=Points, module=Restless, *, kill=0, in_epoch=None, callbacks=(), **options):
    """Train in this process, from the last checkpoint where there is one."""
    pl.seed_everything(1, verbose=False)
    said, tracer = [], Tracer()
    tracer.keep_in(folder / "trace")
    kept = Resumable(
        folder,
        minutes=options.pop("minutes", 1000),
        in_epoch=in_epoch,
        say=said.append,
        fingerprint=fingerprint_tree,
        trained_otherwise=tracer.trained_otherwise,
        together=options.pop("together", None),
    )
    metrics, module = EpochMetrics(), module()
    trainer = pl.Trainer(
        callbacks=[kept, tracer, metrics, *callbacks, Kill(kill)],
        enable_progress_bar=False,
        enable_model_summary=False,
        **{
            "accelerator": "cpu",
            "logger": False,
            "num_sanity_val_steps": 0,
            "max_epochs": EPOCHS,
            "enable_checkpointing": False,
            **options,
        },
    )
    last = kept.last()
    with contextlib.suppress(Killed):
        trainer.fit(module, data(size=70), ckpt_path=last, weights_only=True)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    hashes = {name: value.detach().numpy().tobytes() for name, value in state.items()}
    logged = repr(list(metrics.rows()))
    return (rows_of(tracer), hashes, logged), tracer.resumed_at, said


def assert_resumed(folder, at, *, kills, every_batches=1, **options):
    """Kill a training after steps, resume it each time, and compare it with the uninterrupted."""
    whole, _, _ = fit(folder / "whole", **options)
    for kill in kills:
        fit(folder / "killed", kill=kill, in_epoch=every(every_batches), **options)
    found, resumed_at, said = fit(folder / "killed", **options)
    assert said == []
    assert resumed_at == at
    assert found == whole

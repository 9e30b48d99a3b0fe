"""What tracing costs: the share of an epoch of the denoiser that the tracer's own hooks take.

    python docs/measurements/tracing.py results/data/digits.npz

An epoch has 19 steps at batch 500; two threads, as the variants of the study have. The hooks are
timed themselves: epochs with and without them differ by more than the hooks take.
"""

import statistics
import sys
import time
import warnings
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from twinrun.tracing import Tracer
from twinrun.workloads.denoiser import Denoiser, DenoisingPairs

ROUNDS = 5
HOOKS = ("on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end")


class TimedTracer(Tracer):
    """Adds up the seconds of its hooks."""

    seconds = 0.0


def _timed(name: str) -> Any:
    def hook(self: TimedTracer, *arguments: Any) -> None:
        started = time.perf_counter()
        getattr(Tracer, name)(self, *arguments)
        self.seconds += time.perf_counter() - started

    return hook


for _name in HOOKS:
    setattr(TimedTracer, _name, _timed(_name))


def share_of_an_epoch(path: str) -> float:
    """Train the denoiser for one epoch; the data are prepared outside the clock."""
    pl.seed_everything(1, verbose=False)
    data, module, tracer = DenoisingPairs(path), Denoiser(), TimedTracer()
    data.setup("fit")
    batches = DataLoader(list(data.train_dataloader()), batch_size=None)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[tracer],
    )
    module.on_fit_start = lambda: None  # without its data module it has no mean to fetch
    module.configure_callbacks = list  # nor a validation to stop early by
    started = time.perf_counter()
    trainer.fit(module, batches)
    return tracer.seconds / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    shares = [share_of_an_epoch(sys.argv[1]) for _ in range(ROUNDS)]
    print(
        f"tracing takes {statistics.median(shares):.2%} of an epoch "
        f"({min(shares):.2%} to {max(shares):.2%} over {ROUNDS} epochs)"
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()

"""What tracing costs: an epoch of the denoiser with and without it, in turn, through the Trainer.

    python docs/measurements/tracing.py results/data/digits.npz

Prints the ratio of the seconds of an epoch of 19 steps at batch 500, its median and its range over
the rounds. Two threads, as the variants of the study have.
"""

import statistics
import sys
import time
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from twinrun.tracing import Tracer
from twinrun.workloads.denoiser import Denoiser, DenoisingPairs

ROUNDS = 10


def seconds_of_an_epoch(path: str, callbacks: list[pl.Callback]) -> float:
    """Train the denoiser for one epoch; the data are prepared outside the clock."""
    pl.seed_everything(1, verbose=False)
    data, module = DenoisingPairs(path), Denoiser()
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
        callbacks=callbacks,
    )
    module.on_fit_start = lambda: None  # without its data module it has no mean to fetch
    module.configure_callbacks = list  # nor a validation to stop early by
    started = time.perf_counter()
    trainer.fit(module, batches)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    seconds_of_an_epoch(sys.argv[1], [])
    ratios = []
    for _ in range(ROUNDS):
        plain = seconds_of_an_epoch(sys.argv[1], [])
        traced = seconds_of_an_epoch(sys.argv[1], [Tracer()])
        ratios.append(traced / plain)
    print(
        f"tracing: {statistics.median(ratios):.3f} times the time of an epoch "
        f"({min(ratios):.3f} to {max(ratios):.3f} over {ROUNDS} rounds)"
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()

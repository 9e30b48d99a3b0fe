"""Several trainings in one process: to start one takes longer than a small training."""

from twinrun.config.definitions import Run
from twinrun.training.train import train


def train_each(runs: list[Run]) -> None:
    """Train one after the other."""
    for run in runs:
        train(run)

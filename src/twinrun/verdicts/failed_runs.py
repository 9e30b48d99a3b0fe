"""Trainings that failed and are kept: where their logs are, and how to have them trained again."""

from pathlib import Path


def log_of(run: str | Path) -> Path:
    """Name the log of a run by its folder.

    >>> print(log_of("results/runs/mine/plain/seed1/repeat2"))
    results/logs/train/mine/plain/seed1/repeat2.log
    """
    folder = Path(run)
    names = Path(*folder.parts[-4:])  # as the rule `train` has them
    return folder.parents[4] / "logs/train" / names.with_name(f"{names.name}.log")


def how_to_retry(run: str | Path) -> str:
    """Say where the log of a failed training is, and what has it trained again as it is."""
    return f"log: {log_of(run)}; to train it again as it is, delete {run}"

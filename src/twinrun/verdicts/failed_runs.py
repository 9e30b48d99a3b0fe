"""Trainings that failed and are kept: where their logs are, and how to have them trained again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from twinrun.formatting import count, plural

MOST_NAMED = 3


def failed_runs(runs: Iterable[str | Path]) -> list[str]:
    """Name the folders of the runs whose training failed, without reading one: there may be many.

    Args:
        runs: run.json of each, whether it is there or not.
    """
    folders = (Path(run).parent for run in runs)
    return [str(folder) for folder in folders if _is_empty(folder / "weights.safetensors")]


def _is_empty(file: Path) -> bool:
    # Even weights without a tensor have a header.
    return file.is_file() and not file.stat().st_size


def kept_failures(folders: Sequence[str]) -> list[str]:
    """Say in a line which failed trainings are kept, and what repeats one; no line without any."""
    if not folders:
        return []
    number, (first, *others) = len(folders), folders[:MOST_NAMED]
    named = [f"{first} ({how_to_retry(first)})", *others]
    if number > MOST_NAMED:
        named.append(f"{count(number - MOST_NAMED)} more")
    kept = "is kept until its" if number == 1 else "are kept until their"
    failed = (
        f"{plural(number, 'training')} failed, and {kept} code, data, settings or versions change"
    )
    return [f"{failed}: {', '.join(named)}"]


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

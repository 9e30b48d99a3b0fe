"""Whether a trial of a sweep logged what it is to be ranked by: said as soon as it has ended.

The other trials may take hours, and will hardly log what the first one did not.
"""

import csv
from pathlib import Path

from twinrun import run_files
from twinrun.config.definitions import Run
from twinrun.process.job import say


def say_if_not_logged(run: Run, metric: str | None) -> None:
    """Say on the terminal and in the log that a trial cannot be ranked.

    Args:
        run: that has ended.
        metric: of the sweep; None for a run that is no trial.
    """
    if metric is None:
        return
    ended = run_files.read_ended(run.files.manifest)
    if not run_files.left_network(ended) or ended["ended"] != "finished":
        return
    path = run_files.verified(run.files.manifest, "epochs.csv")
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    logged = {*ended["metrics"], *(name for row in rows for name, v in row.items() if v)}
    if metric not in logged:
        known = ", ".join(sorted(logged - {"epoch"})) or "nothing"
        say(
            f"{run.identity.label}: sweep.metric: {metric!r} is not logged by this trial, which "
            f"logs {known}; it will not be ranked. If that is so of all, stop here and name one "
            f"of these: what is trained already stays"
        )

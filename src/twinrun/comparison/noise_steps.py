"""How far runs are from a reference run after each step of which a sample was kept.

Without torch.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import artifacts
from twinrun.comparison.distances import relative
from twinrun.comparison.noise_records import NoiseRun
from twinrun.run_files import verified

MOST_STEPS = 400  # of a table for a figure
STEP_COLUMNS = ("kind", "label", "step", "relative_l2")


def by_step_of(reference: Path, runs: Sequence[NoiseRun]) -> pd.DataFrame:
    """Return the relative L2 distance of the sampled parameters after each step of each run.

    Args:
        reference: its run.json.
        runs: the others.
    """
    tables = []
    kept, first = _sample(reference)
    for run in runs:
        if run["answer"] not in ("equal", "differs"):
            continue
        others, sample = _sample(run["run"])
        if sample.shape[1:] != first.shape[1:]:
            continue
        # A trace that is thinned keeps a sample of some steps.
        steps, left, right = np.intersect1d(kept, others, return_indices=True)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.square(sample[right] - first[left]).sum(1)
            distances = np.sqrt(relative(apart, np.square(first[left]).sum(1)))
        of_run = {"kind": run["kind"], "label": run["label"]}
        tables.append(pd.DataFrame({**of_run, "step": steps, "relative_l2": distances}))
    return pd.concat(tables) if tables else pd.DataFrame(columns=list(STEP_COLUMNS))


def _sample(run: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the sampled elements of the parameters, and the steps after which they were taken."""
    arrays = artifacts.read_arrays(verified(run, "fingerprints.npz"))
    sample = arrays["sample"].astype(np.float64)
    # A run of an older version has one of every step.
    return arrays.get("sample_steps", np.arange(1, len(sample) + 1)), sample


def half_a_seed(by_step: pd.DataFrame) -> tuple[int, int] | None:
    """Return the first step after which rounding is seen to be half a seed, for good.

    Returns:
        The step, and the first one since which it may be so: those between have no sample.
    """
    medians = {
        kind: by_step[by_step["kind"] == kind].groupby("step")["relative_l2"].median()
        for kind in ("perturbation", "seed")
    }
    seeds = medians["seed"].reindex(medians["perturbation"].index)
    # Fine-tuning begins with the same weights whatever the seed: then neither has moved anything.
    grown = (medians["perturbation"] >= seeds / 2) & (seeds > 0)
    for_good = grown[::-1].cummin()[::-1]
    if not for_good.any():
        return None
    step = int(for_good.idxmax())
    before = for_good.index[for_good.index < step]
    return step, int(before.max()) + 1 if len(before) else 1


def thinned(by_step: pd.DataFrame) -> pd.DataFrame:
    """Keep so many steps as a figure can show, the last included."""
    last = by_step["step"].max() if len(by_step) else 0
    stride = max(1, -(-last // MOST_STEPS))  # rounded up
    return by_step[(last - by_step["step"]) % stride == 0] if len(by_step) else by_step

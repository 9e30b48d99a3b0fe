"""Whether runs whose mini-batches may be others were seen to have those of a run that cuts none."""

from collections.abc import Sequence

import pandas as pd

from twinrun.comparison.pair_records import Comparison
from twinrun.run_files import variant_of
from twinrun.run_records import Departure, RunManifest, is_of_batches


def departures_left(
    compared: Comparison, manifests: Sequence[RunManifest], tables: Sequence[pd.DataFrame]
) -> list[Departure]:
    """Return the departures of runs, without what is known not to have come.

    Args:
        compared: the comparison of the runs.
        manifests: of the runs.
        tables: of the steps of each pair.
    """
    # A cell is empty where nobody knows.
    are_equal = all(table["batch_equal"].eq(True).all() for table in tables)
    is_unseen = "traced" in compared or "steps_of_runs" in compared or compared["not_fingerprinted"]
    if is_unseen or not are_equal:
        return compared["departures"]
    whole = {
        name
        for name in ("accumulate", "devices")
        if any(getattr(variant_of(manifest), name) == 1 for manifest in manifests)
    }
    return [
        each
        for each in compared["departures"]
        if not is_of_batches(each) or each["setting"] not in whole
    ]

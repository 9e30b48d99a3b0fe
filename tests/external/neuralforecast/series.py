"""The package's data module takes a dataset that comes out of a function, in a tuple."""

import numpy as np
import pandas as pd
from neuralforecast.tsdataset import TimeSeriesDataset


def dataset() -> TimeSeriesDataset:
    steps = np.arange(60)
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame(
            {"unique_id": str(n), "ds": steps, "y": np.sin(steps / 3 + n) + rng.normal(0, 0.1, 60)}
        )
        for n in range(16)
    ]
    return TimeSeriesDataset.from_df(pd.concat(frames))[0]

"""Sines as neuralforecast's dataset; its `fit` sets two attributes of a model."""

import numpy as np
import pandas as pd
from neuralforecast.models import NHITS
from neuralforecast.tsdataset import TimeSeriesDataset


def dataset() -> TimeSeriesDataset:
    times = [(name, time) for name in range(8) for time in range(60 + 5 * name)]
    frame = pd.DataFrame(times, columns=["unique_id", "ds"])
    frame["y"] = np.sin(frame.ds / (3 + frame.unique_id)).astype("float32")
    return TimeSeriesDataset.from_df(frame)[0]


class Waved(NHITS):
    val_size, test_size = 8, 0

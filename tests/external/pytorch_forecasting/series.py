"""Sines as pytorch_forecasting's dataset, and a data module of its loaders."""

import lightning
import numpy as np
import pandas as pd
from pytorch_forecasting import TimeSeriesDataSet


def dataset() -> TimeSeriesDataSet:
    frame = pd.DataFrame([(str(n), t) for n in range(4) for t in range(40)], columns=["n", "t"])
    frame["y"] = np.sin(frame.t / (3 + frame.n.astype(int)))
    return TimeSeriesDataSet(
        frame,
        time_idx="t",
        target="y",
        group_ids=["n"],
        time_varying_unknown_reals=["y"],
        max_encoder_length=12,
        min_encoder_length=12,
        max_prediction_length=4,
    )


class Series(lightning.LightningDataModule):
    def __init__(self, dataset, batch_size: int = 16, num_workers: int = 0):
        super().__init__()
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers

    def _loader(self, is_train):
        return self.dataset.to_dataloader(
            train=is_train, batch_size=self.batch_size, num_workers=self.num_workers
        )

    def train_dataloader(self):
        return self._loader(True)

    def val_dataloader(self):
        return self._loader(False)

    test_dataloader = predict_dataloader = val_dataloader

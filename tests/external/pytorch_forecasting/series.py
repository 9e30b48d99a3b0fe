"""Seasonal series: the package makes its network of a dataset, so both are made here."""

import numpy as np
import pandas as pd
from lightning.pytorch import LightningDataModule
from pytorch_forecasting import GroupNormalizer, TemporalFusionTransformer, TimeSeriesDataSet


def dataset():
    rng = np.random.default_rng(0)
    steps = np.arange(60)
    frames = [
        pd.DataFrame({"series": str(n), "step": steps, "value": 2 + np.sin(steps / 3 + n)})
        for n in range(8)
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame["value"] += rng.normal(0, 0.1, len(frame))
    return TimeSeriesDataSet(
        frame,
        time_idx="step",
        target="value",
        group_ids=["series"],
        static_categoricals=["series"],
        time_varying_known_reals=["step"],
        time_varying_unknown_reals=["value"],
        target_normalizer=GroupNormalizer(groups=["series"]),
        max_encoder_length=12,
        max_prediction_length=4,
    )


def transformer(hidden_size: int = 8, learning_rate: float = 0.01):
    return TemporalFusionTransformer.from_dataset(
        dataset(), hidden_size=hidden_size, learning_rate=learning_rate, dropout=0.1
    )


class Series(LightningDataModule):
    def __init__(self, batch_size: int = 32, num_workers: int = 0):
        super().__init__()
        self.batch_size, self.num_workers = batch_size, num_workers

    def setup(self, stage):
        self.dataset = dataset()

    def train_dataloader(self):
        return self.dataset.to_dataloader(
            train=True, batch_size=self.batch_size, num_workers=self.num_workers
        )

    def val_dataloader(self):
        return self.dataset.to_dataloader(train=False, batch_size=self.batch_size)

    test_dataloader = predict_dataloader = val_dataloader

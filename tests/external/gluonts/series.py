"""Artificial series by the package's estimator, which makes both module and loaders."""

from gluonts.dataset.artificial import default_synthetic
from gluonts.torch import DeepAREstimator
from lightning.pytorch import LightningDataModule


def estimator(**settings) -> DeepAREstimator:
    return DeepAREstimator(
        freq="D", prediction_length=4, context_length=8, num_batches_per_epoch=6, **settings
    )


def deepar(hidden_size: int = 8, lr: float = 0.01):
    return estimator(hidden_size=hidden_size, lr=lr).create_lightning_module()


class Series(LightningDataModule):
    def __init__(self, batch_size: int = 16):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        _, train, test = default_synthetic()
        self.made_by, self.module = estimator(batch_size=self.batch_size), deepar()
        transformation = self.made_by.create_transformation()
        self.train = transformation.apply(train, is_train=True)
        self.test = transformation.apply(test, is_train=True)

    def train_dataloader(self):
        return self.made_by.create_training_data_loader(self.train, self.module)

    def val_dataloader(self):
        return self.made_by.create_validation_data_loader(self.test, self.module)

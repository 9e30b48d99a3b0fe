"""A module whose steps take as long as their sample is, by a clock of their own."""

from typing import ClassVar

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

# Mini-batches of an epoch, and which of them is the large one.
LARGE = {"one large": (60, 20), "one large and late": (200, 150)}


class Clock:
    """Stands for the clock; only steps let it go on."""

    now = 0.0

    @classmethod
    def read(cls):
        return cls.now


class Sorted(pl.LightningDataModule):
    """Samples sorted by their length, as loaders of texts are, or in an order that is drawn."""

    def __init__(self, order="sorted", batch_size=1):
        super().__init__()
        self.batch_size, self.order = batch_size, order
        self.generator = torch.Generator().manual_seed(5)

    def train_dataloader(self):
        lengths = torch.arange(1.0, 61.0)[:, None]
        if self.order in LARGE:
            number, large = LARGE[self.order]
            batches = [[*range(40 if k == large else 2)] for k in range(number)]
            return DataLoader(TensorDataset(lengths), batch_sampler=batches)
        options = {
            "sorted": {},
            "drawn": {"shuffle": True},
            "drawn by its own": {"shuffle": True, "generator": self.generator},
        }
        return DataLoader(TensorDataset(lengths), batch_size=self.batch_size, **options[self.order])

    predict_dataloader = train_dataloader


class Lasting(pl.LightningModule):
    """Under deterministic algorithms a step takes `times` as long."""

    def __init__(self, times=3.0):
        super().__init__()
        self.times = times
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.predict_step(batch, batch_idx).square().mean()

    def predict_step(self, batch, batch_idx):
        is_slow = torch.are_deterministic_algorithms_enabled()
        # A power of 2: sums of these are exact.
        Clock.now += batch[0].sum().item() * 2**-10 * (self.times if is_slow else 1)
        return self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


class DearToStart(Lasting):
    """Under deterministic algorithms a small batch takes twice as long, a large one half."""

    def predict_step(self, batch, batch_idx):
        times = 1 if torch.are_deterministic_algorithms_enabled() else 2
        Clock.now += 0.03 / times if len(batch[0]) == 2 else 3.0 * times
        return self.layer(batch[0])


class InConstructor(Lasting):
    """Asks for deterministic algorithms by itself, as many modules do."""

    def __init__(self, times=3.0):
        super().__init__(times)
        torch.use_deterministic_algorithms(True)


class InHook(Lasting):
    """Asks for them when it is trained."""

    def on_fit_start(self):
        torch.use_deterministic_algorithms(True)


class InStep(Lasting):
    """Asks for them in its first step."""

    def training_step(self, batch, batch_idx):
        torch.use_deterministic_algorithms(True)
        return super().training_step(batch, batch_idx)


class Threads(Lasting):
    """Sets the threads."""

    def __init__(self, times=3.0):
        super().__init__(times)
        torch.set_num_threads(1)


class OnlyOnce(Lasting):
    """Registers a name, as an operator of `torch.library` does: a second time is refused."""

    registered: ClassVar[set[str]] = set()

    def __init__(self, times=3.0):
        super().__init__(times)
        if "operator" in self.registered:
            raise RuntimeError("operator is registered already")
        self.registered.add("operator")


class RefusesDeterminism(Lasting):
    """Cannot be constructed under deterministic algorithms, in a run neither."""

    def __init__(self, times=3.0):
        super().__init__(times)
        if torch.are_deterministic_algorithms_enabled():
            raise RuntimeError("has no deterministic algorithm")

"""What tracing costs: the time of a step with it over that without, for small and large networks.

    python docs/measurements/tracing.py results/data/digits.npz

The workloads denoiser (batch 500), digits (batch 32, one thread, plain and compiled) and peaks
(40,000 points, plain and fast); a network of the size of ResNet-18 (11.7 million parameters) at
batch 32 of 3x224x224 with momentum, and a transformer of 19.4 million at 8 sequences of 256 tokens
with Adam. On two threads where nothing else is said. The tracer's hooks are timed themselves, from
the fourth step on, when all is compiled: epochs with and without them differ by more than the hooks
take. Names of cases measure these alone; `--cpu` counts the processor's time, on one thread, for a
machine that is shared. `--gpu` trains on a GPU, where the hash runs behind the hooks: there
trainings with and without tracing are compared, each at least 200 steps long.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytorch_lightning as pl
import torch
import yaml
from msgspec import convert
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant
from twinrun.config.shipped import SCHEMA
from twinrun.process.compiler_cache import own_cache
from twinrun.trace.step_tracer import Tracer
from twinrun.workloads.denoiser import Denoiser, DenoisingPairs
from twinrun.workloads.digits import DigitImages, Digits
from twinrun.workloads.peaks import Peaks, PeaksGrid

LEFT_OUT = 3  # steps, of which one is plain, one compiles and one allocates
STEPS_ON_GPU = 200
PARSER = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
PARSER.add_argument("dataset")
PARSER.add_argument("case", nargs="*")
PARSER.add_argument("--cpu", action="store_true")
PARSER.add_argument("--gpu", action="store_true")
GIVEN = PARSER.parse_args(None if __name__ == "__main__" else [""])
clock = time.process_time if GIVEN.cpu else time.perf_counter
HOOKS = ("on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end")


class TimedTracer(Tracer):
    """Adds up the seconds of its hooks, and of the steps that follow the first ones."""

    # A callback of a user's may write to parameters, and has them hashed once more.
    __module__ = Tracer.__module__

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.started, self.ended = 0.0, 0.0, 0.0


def _timed(name: str) -> Any:
    def hook(self: TimedTracer, *arguments: Any) -> None:
        started = clock()
        getattr(Tracer, name)(self, *arguments)
        self.ended = clock()
        if self.started:
            self.seconds += self.ended - started
        elif name == "on_train_batch_end" and self.steps == LEFT_OUT:
            self.started = self.ended

    return hook


for _name in HOOKS:
    setattr(TimedTracer, _name, _timed(_name))


class StepClock(pl.Callback):
    """Counts the seconds of the steps that follow the first ones, with what they left to a GPU."""

    __module__ = Tracer.__module__

    def __init__(self) -> None:
        self.started, self.seconds = 0.0, 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Begin."""
        if trainer.global_step == LEFT_OUT:
            torch.cuda.synchronize()
            self.started = clock()

    def on_train_end(self, *_: object) -> None:
        """End."""
        torch.cuda.synchronize()
        self.seconds = clock() - self.started


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Add the path and the shortcut: (N, C, H, W)."""
        return functional.relu(self.path(images) + self.shortcut(images))


class ResNet18(pl.LightningModule):
    """The usual network of 11.7 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.network = nn.Sequential(
            *(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
            nn.MaxPool2d(3, 2, 1),
            *(Block(*width) for width in widths),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)),
        )

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Give the cross-entropy."""
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Take momentum: a state as large as the parameters."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Transformer(pl.LightningModule):
    """Six layers over random tokens: 19.4 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
        self.embedding = nn.Embedding(1000, 512)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def training_step(self, tokens: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Predict each token: (N, T)."""
        found = self.layers(self.embedding(tokens)) @ self.embedding.weight.T
        return functional.cross_entropy(found.flatten(0, 1), tokens.flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Take Adam: a state twice as large as the parameters."""
        return torch.optim.Adam(self.parameters(), lr=1e-4)


Made = tuple[pl.LightningModule, list[Any]]


def denoiser(path: str) -> Made:
    """Give the denoiser and the batches of an epoch, prepared outside the clock."""
    data, module = DenoisingPairs(path), Denoiser()
    data.setup("fit")
    module.on_fit_start = lambda: None  # without its data module it has no mean to fetch
    module.configure_callbacks = list  # nor a validation to stop early by
    return module, list(data.train_dataloader())


def digits(path: str) -> Made:
    """Give digits and the batches of an epoch."""
    data = DigitImages(path)
    data.setup("fit")
    return Digits(), list(data.train_dataloader())


def peaks(_: str) -> Made:
    """Give peaks and its one batch."""
    return Peaks(), [PeaksGrid().training[0]]


def resnet18(_: str) -> Made:
    """Give the network and batches of noise."""
    return ResNet18(), [(torch.randn(32, 3, 224, 224), torch.arange(32)) for _ in range(6)]


def transformer(_: str) -> Made:
    """Give the network and batches of tokens."""
    return Transformer(), [torch.randint(1000, (8, 256)) for _ in range(8)]


class Case(NamedTuple):
    """A line of what is printed."""

    made: Callable[[str], Made]
    """The function that gives module and batches."""
    settings: dict[str, object]
    """Of the variant."""
    rounds: int
    """Trainings."""
    epochs: int = 1
    """Of each."""


FAST = {"compile": "step", "layout": "features_first"}
CASES = {
    "denoiser": Case(denoiser, {"threads": 2}, 5),
    "digits, plain": Case(digits, {"threads": 1}, 3),
    "digits, compiled": Case(
        digits, {"threads": 1, "compile": "step", "layout": "channels_last"}, 3
    ),
    "peaks, plain": Case(peaks, {"threads": 2}, 5, 300),
    "peaks, fast": Case(peaks, {"threads": 2, **FAST}, 3, 300),
    "ResNet-18": Case(resnet18, {"threads": 2}, 2),
    "transformer": Case(transformer, {"threads": 2}, 2),
}
# As above, in settings that a GPU has.
ON_GPU = {
    **{name: case for name, case in CASES.items() if "fast" not in name},
    "digits, replayed": Case(digits, {"threads": 1, "cuda_graph": True}, 3),
    "peaks, fast": Case(peaks, {"threads": 2, "compile": "step", "cuda_graph": True}, 3),
}


def train(made: Made, variant: Variant, epochs: int, callbacks: list[pl.Callback]) -> None:
    """Train on the batches."""
    module, batches = made
    torch.set_num_threads(1 if GIVEN.cpu else variant.threads)
    trainer = pl.Trainer(
        accelerator=variant.accelerator,
        devices=1,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[Speed(module, variant), *callbacks],
    )
    with compiler_switches():
        trainer.fit(module, DataLoader(cast("Dataset[Any]", batches), batch_size=None))


def ratio_of_trainings(case: Case, path: str, variant: Variant) -> float:
    """Give the time of a training with tracing over that of one without."""
    clocks = []
    for callbacks in ([Tracer()], []):
        made = case.made(path)
        epochs = -(-STEPS_ON_GPU // len(made[1]))
        clocks.append(StepClock())
        train(made, variant, epochs, [*callbacks, clocks[-1]])
    traced, untraced = clocks
    return traced.seconds / untraced.seconds


def ratio(case: Case, path: str, variant: Variant) -> float:
    """Give the time of a step with tracing over that without, from the time of its hooks."""
    tracer = TimedTracer()
    train(case.made(path), variant, case.epochs, [tracer])
    whole = tracer.ended - tracer.started
    return whole / (whole - tracer.seconds)


def main() -> None:
    """Measure and print."""
    settings = yaml.safe_load(SCHEMA.read_text())["properties"]["variants"]["additionalProperties"]
    defaults = {name: entry["default"] for name, entry in settings["properties"].items()}
    print("| a traced step takes so many times as long | median | over the trainings |")
    print("| --- | --- | --- |")
    with own_cache() as cache:
        os.environ |= cache
        cases, accelerator = (ON_GPU, "gpu") if GIVEN.gpu else (CASES, "cpu")
        measure = ratio_of_trainings if GIVEN.gpu else ratio
        for name in GIVEN.case or cases:
            case = cases[name]
            given = {**defaults, "accelerator": accelerator, "deterministic": False}
            given |= case.settings
            variant = convert(given, Variant)
            pl.seed_everything(1, verbose=False)
            ratios = [measure(case, GIVEN.dataset, variant) for _ in range(case.rounds)]
            low, high = min(ratios), max(ratios)
            middle = statistics.median(ratios)
            print(f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()

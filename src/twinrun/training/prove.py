"""Fast steps prove themselves: short trainings of the user's own module, plain and fast.

Done before a variant's first run and its first timing, with modules and data of their own, so that
nothing of it is left in what is run or timed; see `acceleration.proof` for what is compared. The
batches are the first of the loader and one of another shape, if there is one, so that an epoch is
short: hooks and schedules of epochs take part, too.
"""

import os
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.combined_loader import CombinedLoader
from torch.utils.data import BatchSampler, DataLoader

from twinrun.acceleration.compilation import compiler_switches, shapes_of, traced_only
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.proof import Recorder, compare, epsilon_of
from twinrun.acceleration.steps import is_fast
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Training, Variant
from twinrun.errors import TwinrunError, sentence_of
from twinrun.parallel.accumulation import accumulate
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.run_files import Proof, ProofLeg
from twinrun.training.assemble import build, trainer_of

EPOCHS, BATCHES = 2, 3  # of each short training
LOOKED_THROUGH = 32  # batches, for one of another shape
INDICES_AT_MOST = 100_000  # of batches, to find the last of


def proven(training: Training) -> tuple[Proof | None, str | None]:
    """Prove a training's fast steps; return the proof, or how the run ends that is refused.

    Both are None of steps that are not fast. Of several workers the first proves for all.

    Raises:
        TwinrunError: for several workers, if the proof fails: they cannot end in a result.
    """
    if not is_fast(training.variant) or int(os.environ.get("RANK", "0")):
        return None, None
    try:
        return prove(training), None
    except TwinrunError as error:
        if training.variant.devices > 1:
            raise
        traceback.print_exc()
        return None, f"refused: {error}"


def prove(training: Training) -> Proof:
    """Train shortly with and without what is fast in a variant, and compare.

    Switches and generators are as before when it is done. Several workers are left out: each does
    on its own what is proven here.

    Raises:
        TwinrunError: naming the settings and the first value that is not the plain training's.
    """
    started = time.perf_counter()
    variant = replace(training.variant, devices=1, nodes=1, data_workers=0)
    training = replace(training, variant=replace(variant, persistent_workers=False))
    own = training.variant
    legs: list[ProofLeg] = []
    not_in_float64 = None
    if own.precision != "64-true":
        exact = replace(training, variant=replace(own, precision="64-true"))
        try:
            legs.append(_leg(exact, is_traced=True)[0])
        except TwinrunError as error:
            raise _refusal(own, str(error)) from error
        except Exception as error:  # a module or a device may know no float64
            traceback.print_exc()
            not_in_float64 = sentence_of(error)
    try:
        leg, seen, in_parts = _leg(training, is_traced=False)
    except Exception as error:  # a user's module or a compiler may raise anything
        raise _refusal(own, sentence_of(error)) from error
    legs.append(leg)
    if not any(leg["judged"] for leg in legs):
        raise _refusal(own, "rounding alone moves everything too far to compare anything")
    return {
        "steps": seen.steps,
        "shapes": len(seen.shapes),
        "in_parts": in_parts,
        "legs": legs,
        "not_in_float64": not_in_float64,
        "seconds": round(time.perf_counter() - started, 3),
    }


def plain(variant: Variant) -> Variant:
    """Return a variant without what makes its steps fast."""
    return replace(variant, compile="none", layout="default", optimizer="default", cuda_graph=False)


def _leg(training: Training, *, is_traced: bool) -> tuple[ProofLeg, Recorder, str | None]:
    variant = training.variant
    switches = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    is_tf32 = variant.accelerator == "gpu" and any(switches)
    epsilon = epsilon_of(variant.precision, is_tf32=is_tf32)
    slow = replace(training, variant=plain(variant))
    expected, _ = _short_training(slow, Recorder())
    perturbed, _ = _short_training(slow, Recorder(perturbation=epsilon))
    with traced_only() if is_traced else nullcontext():
        found, in_parts = _short_training(training, Recorder())
    leg = compare(
        expected.evidence,
        perturbed.evidence,
        found.evidence,
        precision=variant.precision,
        epsilon=epsilon,
    )
    return leg, found, in_parts


def _short_training(training: Training, recorder: Recorder) -> tuple[Recorder, str | None]:
    """Train from the seed, and return what was recorded and why steps were done in parts."""
    variant = training.variant
    with (
        determinism(**{key: getattr(variant, key) for key in SWITCHES}),
        compiler_switches() if variant.compile != "none" else nullcontext(),
        tempfile.TemporaryDirectory(prefix="twinrun-") as empty,
    ):
        module, data = build(training)
        speed = Speed(module, variant)
        _shorten(data)
        if variant.accumulate > 1:
            accumulate(module, data, micro_batches=variant.accumulate)
        # Each shape is warmed up and captured before it is replayed.
        epochs = EPOCHS + (CudaGraph.CALLS_TO_WARM_UP if variant.cuda_graph else 0)
        trainer = trainer_of(
            variant,
            root=empty,
            callbacks=[speed, recorder],
            max_epochs=epochs,
        )
        trainer.limit_train_batches = BATCHES * variant.accumulate
        trainer.limit_val_batches = min(trainer.limit_val_batches, 1)
        trainer.fit(module, datamodule=data)
        return recorder, speed.in_parts


def _shorten(data: pl.LightningDataModule) -> None:
    """Have the training loader give BATCHES batches, unless it is several loaders in one."""
    original = data.train_dataloader

    def train_dataloader() -> Any:
        loader = original()
        if isinstance(loader, CombinedLoader | Mapping | list | tuple):
            return loader
        return DataLoader(
            _few_of(loader),  # pyrefly: ignore[bad-argument-type]  a list is a dataset
            batch_size=None,
            collate_fn=_as_it_is,
            # Its own: iterating a loader without one draws from the global generator.
            generator=torch.Generator().manual_seed(0),
        )

    data.train_dataloader = train_dataloader


def _few_of(loader: Iterable[Any]) -> list[Any]:
    """Return the first batches and one of another shape; where there are too few, some twice."""
    iterator = iter(loader)
    found = list(islice(iterator, BATCHES - 1))
    if not found:
        raise TwinrunError("train_dataloader gives no batch")
    shapes = {shapes_of(batch) for batch in found}
    others = (batch for batch in islice(iterator, LOOKED_THROUGH) if shapes_of(batch) not in shapes)
    other = next(others, None)
    if other is None and isinstance(loader, DataLoader):
        other = _last_batch(loader)
    return list(islice(cycle([*found, *([] if other is None else [other])]), BATCHES))


def _last_batch(loader: DataLoader) -> Any:
    """Return the last batch of an epoch, without loading the others; None where that is a guess."""
    sampler, dataset = loader.batch_sampler, loader.dataset
    if not isinstance(sampler, BatchSampler) or not hasattr(dataset, "__getitem__"):
        return None
    if not BATCHES + LOOKED_THROUGH < len(sampler) <= INDICES_AT_MOST:  # all seen, or too many
        return None
    indices: Sequence[int] = deque(sampler, maxlen=1).pop()
    return loader.collate_fn([dataset[index] for index in indices])


def _as_it_is(batch: Any) -> Any:
    return batch


def _refusal(variant: Variant, why: str) -> TwinrunError:
    usual = plain(variant)
    settings = ", ".join(
        f"{name}: {str(getattr(variant, name)).lower()}"
        for name in ("compile", "layout", "optimizer", "cuda_graph")
        if getattr(variant, name) != getattr(usual, name)
    )
    return TwinrunError(f"{settings} does not compute what the plain step computes: {why}")

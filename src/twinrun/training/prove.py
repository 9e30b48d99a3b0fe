"""Fast steps prove themselves: short trainings of the user's own module, plain and fast.

Done before a variant's first run and its first timing (see `remembered_proofs`), with modules and
data of their own, so that nothing of it is left in what is run or timed; see `acceleration.proof`
for what is compared. The batches are the first of the loader and one of another shape, if there is
one, so that an epoch is short: hooks and schedules of epochs take part, too.
"""

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
from twinrun.acceleration.placement import device_of
from twinrun.acceleration.proof import Recorder, compare, noise_of
from twinrun.acceleration.steps import check
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Training, Variant
from twinrun.errors import TwinrunError, sentence_of
from twinrun.parallel.accumulation import accumulate
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.run_records import Proof, ProofLeg
from twinrun.training.assemble import build, trainer_of

EPOCHS, BATCHES = 2, 3  # of each short training
LOOKED_THROUGH = 32  # batches, for one of another shape
INDICES_AT_MOST = 100_000  # of batches, to find the last of


class OtherComputationError(TwinrunError):
    """Fast steps that compute something else than the plain ones."""


def provable(training: Training) -> Training:
    """Return the training that a proof is made of: of one worker, which loads its batches itself.

    Several workers do each on its own what is proven here.
    """
    variant = replace(training.variant, devices=1, nodes=1, data_workers=0)
    return replace(training, variant=replace(variant, persistent_workers=False))


def prove(training: Training) -> Proof:
    """Train shortly with and without what is fast in a variant, and compare.

    Switches and generators are as before when it is done.

    Raises:
        TwinrunError: naming the settings and the first value that is not the plain training's, or
            why they cannot be tried.
        JobError: if the device is missing.
    """
    started = time.perf_counter()
    training = provable(training)
    own = training.variant
    device_of(own)
    check(own)
    legs: list[ProofLeg] = []
    not_in_float64 = None
    if own.precision != "64-true":
        exact = replace(training, variant=replace(own, precision="64-true"))
        try:
            legs.append(_leg(exact, own, is_traced=True)[0])
        except TwinrunError:
            raise
        except Exception as error:  # a module or a device may know no float64
            traceback.print_exc()
            not_in_float64 = sentence_of(error)
    try:
        leg, seen, in_parts = _leg(
            training, own, is_traced=False, is_same_in_float64=any(leg["judged"] for leg in legs)
        )
    except TwinrunError:
        raise
    except Exception as error:  # a user's module or a compiler may raise anything
        raise TwinrunError(f"{named(own)} was not proven: {sentence_of(error)}") from error
    legs.append(leg)
    if not any(leg["judged"] for leg in legs):
        raise TwinrunError(
            f"{named(own)} was not proven: rounding alone moves everything too far to compare it"
        )
    return {
        "steps": seen.steps,
        "shapes": len(seen.shapes),
        "in_parts": in_parts,
        "legs": legs,
        "not_in_float64": not_in_float64,
        "seed": training.seed,
        "seconds": round(time.perf_counter() - started, 3),
        "key": None,
        "is_remembered": False,
    }


def plain(variant: Variant) -> Variant:
    """Return a variant without what makes its steps fast."""
    return replace(variant, compile="none", layout="default", optimizer="default", cuda_graph=False)


def _leg(
    training: Training, own: Variant, *, is_traced: bool, is_same_in_float64: bool = False
) -> tuple[ProofLeg, Recorder, str | None]:
    """Compare in one precision.

    Raises:
        OtherComputationError: if a value is off; `own` is the variant that is then named.
    """
    variant = training.variant
    slow = replace(training, variant=plain(variant))
    expected, _ = _short_training(slow, Recorder())
    epsilon = expected.epsilon
    perturbed, _ = _short_training(slow, Recorder(perturbation=noise_of(epsilon)))
    with traced_only() if is_traced else nullcontext():
        found, in_parts = _short_training(training, Recorder())
    try:
        leg = compare(
            expected.evidence,
            perturbed.evidence,
            found.evidence,
            precision=variant.precision,
            epsilon=epsilon,
            is_same_in_float64=is_same_in_float64,
        )
    except TwinrunError as error:
        raise OtherComputationError(
            f"{named(own)} does not compute what the plain step computes: {error}"
        ) from error
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
    seen = BATCHES - 1 + LOOKED_THROUGH
    if not seen < len(sampler) <= INDICES_AT_MOST:  # all seen, or too many
        return None
    indices: Sequence[int] = deque(sampler, maxlen=1).pop()
    return loader.collate_fn([dataset[index] for index in indices])


def _as_it_is(batch: Any) -> Any:
    return batch


def named(variant: Variant) -> str:
    """Name the settings that make a variant's steps fast."""
    usual = plain(variant)
    return ", ".join(
        f"{name}: {str(getattr(variant, name)).lower()}"
        for name in ("compile", "layout", "optimizer", "cuda_graph")
        if getattr(variant, name) != getattr(usual, name)
    )

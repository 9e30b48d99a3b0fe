"""The samples that a network is tested on and predicts, hashed.

Rows of predictions are compared one by one, and a data module may choose other samples for another
seed, or where something else draws before it. They are hashed as the steps are given them; and as
the loaders give them, before Lightning casts them: float64 and float32 of one sample are no two.
Each loader's are hashed apart, since a metric is called after its loader's number.
"""

from collections.abc import Collection
from functools import wraps
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import xxhash
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils._pytree import tree_leaves

from twinrun.run_records import SampleHashes
from twinrun.trace.between_steps import OF_BATCHES
from twinrun.trace.fingerprints import fingerprint_batch
from twinrun.trace.samples import samples_and_rest
from twinrun.training.kept_predictions import PHASES


class Looked(NamedTuple):
    """What a batch holds."""

    samples: np.ndarray
    """A fingerprint of each, (N,) uint64."""
    is_opaque: bool
    """Whether something in it cannot be looked into."""


def no_samples() -> SampleHashes:
    """Return the hashes of a run that was neither tested nor asked to predict."""
    return {"in_order": {}, "in_any_order": {}, "numbers": {}}


def look_at(batch: object) -> Looked:
    """Fingerprint the samples of a batch."""
    _, opaque = fingerprint_batch(batch)
    samples, rest = samples_and_rest(batch)
    if rest is not None:
        # It is said of each of them: so batches of another size are no other samples.
        both = [xxhash.xxh3_64_intdigest(f"{sample} {rest}".encode()) for sample in samples]
        samples = np.array(both or [rest], dtype=np.uint64)
    return Looked(samples, bool(opaque))


class _OfLoader:
    def __init__(self) -> None:
        self.hash, self.sum, self.number = xxhash.xxh3_128(), np.uint64(0), 0

    def add(self, samples: np.ndarray) -> None:
        self.hash.update(samples.astype("<u8").tobytes())
        # Integers of NumPy begin again behind the largest, in sums of arrays without a word.
        self.sum = np.append(samples, self.sum).sum(dtype=np.uint64)
        self.number += len(samples)


class Hashed:
    """The samples of each phase, hashed as they come."""

    def __init__(self) -> None:
        self._of: dict[str, list[_OfLoader]] = {phase: [] for phase in PHASES}
        self._opaque: set[str] = set()

    def add(self, phase: str, loader: int, batch: Looked) -> None:
        """Add the samples of a batch of the loader of this number."""
        of = self._of[phase]
        of += [_OfLoader() for _ in range(len(of), loader + 1)]
        of[loader].add(batch.samples)
        if batch.is_opaque:
            self._opaque.add(phase)

    def hashes(self, failed: Collection[str]) -> SampleHashes:
        """Return the hashes of the phases that had a batch, did not fail, and had none opaque."""
        whole = {
            phase: of
            for phase, of in self._of.items()
            if of and phase not in self._opaque and phase not in failed
        }
        return {
            "in_order": {p: " ".join(x.hash.hexdigest() for x in of) for p, of in whole.items()},
            "in_any_order": {p: " ".join(f"{x.sum:016x}" for x in of) for p, of in whole.items()},
            "numbers": {phase: [x.number for x in of] for phase, of in whole.items()},
        }


class SeenSamples(pl.Callback):
    """Looks at each batch before Lightning casts it, and when its step is to have it."""

    def __init__(self) -> None:
        self.loaded, self.given = Hashed(), Hashed()
        self._is_converted = False
        self._before: Looked | None = None  # the batch as it was loaded, where that may be another

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look at the batches before they are cast."""
        plugin = trainer.precision_plugin
        convert = type(plugin).convert_input
        is_watched = _may_change_batches(trainer, pl_module)

        @wraps(convert)
        def converted(batch: object) -> object:
            found = convert(plugin, batch)
            self._is_converted = True
            is_as_before = not is_watched and _are_the_same(batch, found)
            self._before = None if is_as_before else look_at(batch)
            return found

        if stage in PHASES:
            vars(plugin)["convert_input"] = converted

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look no more."""
        vars(trainer.precision_plugin).pop("convert_input", None)

    def on_test_batch_start(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what a step is given."""
        self._add("test", dataloader_idx, look_at(batch))

    def on_predict_batch_start(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what a step is given."""
        self._add("predict", dataloader_idx, look_at(batch))

    def _add(self, phase: str, loader: int, given: Looked) -> None:
        self.given.add(phase, loader, given)
        if self._is_converted:
            self.loaded.add(phase, loader, self._before or given)
        self._is_converted, self._before = False, None


def _may_change_batches(trainer: pl.Trainer, module: pl.LightningModule) -> bool:
    """Say whether code of the user's has a batch between its loader and its step."""
    # Trainer.test sets `datamodule` without declaring it.
    data = trainer.datamodule  # pyrefly: ignore[missing-attribute]
    return any(
        is_overridden(hook, module, pl.LightningModule)
        or (data is not None and is_overridden(hook, data, pl.LightningDataModule))
        for hook in OF_BATCHES
    )


def _are_the_same(batch: object, cast: object) -> bool:
    """Say whether nothing in a batch was cast: then it holds the very same objects."""
    one, other = tree_leaves(batch), tree_leaves(cast)
    return len(one) == len(other) and all(map(lambda a, b: a is b, one, other))

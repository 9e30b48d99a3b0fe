"""The samples that a network is tested on and predicts, hashed.

Rows of predictions are compared one by one, and a data module may choose other samples for another
seed, or where something else draws before it. They are hashed as the steps are given them; and as
the loaders give them, before Lightning casts them: float64 and float32 of one sample are no two.
"""

from collections.abc import Collection
from functools import wraps

import numpy as np
import pytorch_lightning as pl
import xxhash

from twinrun.run_records import SampleHashes
from twinrun.trace.fingerprints import fingerprint_batch
from twinrun.trace.samples import fingerprint_samples
from twinrun.training.kept_predictions import PHASES


def no_samples() -> SampleHashes:
    """Return the hashes of a run that was neither tested nor asked to predict."""
    return {"in_order": {}, "in_any_order": {}}


class Hashed:
    """The samples of each phase, hashed as they come."""

    def __init__(self) -> None:
        self._of = {phase: xxhash.xxh3_128() for phase in PHASES}
        self._sums = dict.fromkeys(PHASES, np.uint64(0))
        self._begun: set[str] = set()
        self._opaque: set[str] = set()

    def add(self, phase: str, batch: object) -> None:
        """Add the samples of a batch."""
        _, opaque = fingerprint_batch(batch)
        samples = fingerprint_samples(batch)
        self._of[phase].update(samples.astype("<u8").tobytes())
        # Integers of NumPy begin again behind the largest, in sums of arrays without a word.
        self._sums[phase] = np.append(samples, self._sums[phase]).sum(dtype=np.uint64)
        self._begun.add(phase)
        if opaque:
            self._opaque.add(phase)

    def hashes(self, failed: Collection[str]) -> SampleHashes:
        """Return the hashes of the phases that had a batch, did not fail, and had none opaque."""
        whole = [p for p in PHASES if p in self._begun - self._opaque and p not in failed]
        return {
            "in_order": {phase: self._of[phase].hexdigest() for phase in whole},
            "in_any_order": {phase: f"{self._sums[phase]:016x}" for phase in whole},
        }


class SeenSamples(pl.Callback):
    """Looks at each batch before Lightning casts it, and when its step is to have it."""

    def __init__(self) -> None:
        self.loaded, self.given = Hashed(), Hashed()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look at the batches before they are cast."""
        plugin = trainer.precision_plugin
        convert = type(plugin).convert_input

        @wraps(convert)
        def converted(batch: object) -> object:
            self.loaded.add(stage, batch)
            return convert(plugin, batch)

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
        self.given.add("test", batch)

    def on_predict_batch_start(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what a step is given."""
        self.given.add("predict", batch)

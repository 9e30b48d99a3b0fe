"""What locating a difference does in fresh processes: save a step's start, and replay the step.

`save_start` trains as the run did, up to the step in which the pair diverged, and saves all that
the step starts with. This training, too, may diverge from the run before: it is led to that step
all the same, and notes where. `replay` does the step again, as often as asked, always from the
saved start, with every operation fingerprinted; the first process to replay leaves a record, the
second is compared with it. Both go through Lightning's Trainer, so that every hook of the module is
called.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pandas as pd
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset

from twinrun import artifacts, run_files
from twinrun.checkpoint.stop_request import Stopped
from twinrun.comparison.first_difference import WORDS
from twinrun.comparison.module_attributes import attribute_fingerprints_of
from twinrun.comparison.replay_record import Comparer, StepRecorder
from twinrun.comparison.replay_results import EarlierDifference, Replayed
from twinrun.comparison.replayed_step import Replayer, Start
from twinrun.comparison.step_state import state_of
from twinrun.comparison.tables import QUANTITIES
from twinrun.config.definitions import Training
from twinrun.copied_batches import copied
from twinrun.errors import TwinrunError
from twinrun.held_elsewhere import held_elsewhere
from twinrun.trace.step_tracer import Tracer
from twinrun.training.assemble import assembled, trainer_of

BATCH_HOOKS = (
    *("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"),
)


def save_start(run: Training, *, step: int, recorded: str, start: str) -> None:
    """Train up to a step and save what it starts with.

    Args:
        run: what the pair's runs were made of.
        step: the step in which the pair diverged, from 1.
        recorded: run.json of the first run of the pair; its steps.csv lies beside it.
        start: path of the file.

    Raises:
        TwinrunError: this training ends before the step.
    """
    # As text: fingerprints without a letter would be read as numbers.
    steps = artifacts.read_csv(run_files.verified(recorded, "steps.csv"), types=str)
    tracer = Tracer()
    tracer.host_step = run.variant.traced.start  # as the run had it, which traced fewer steps
    saver = _Saver(tracer, steps, step, Path(start))
    # The tracer first: the saver looks at the row that it has just written.
    with _trained(run, [tracer, saver]) as (trainer, module, data):
        _fit(trainer, module, data)
    if not Path(start).exists():
        raise TwinrunError(f"the training that was to repeat the run ended before step {step}")


def replay(
    run: Training,
    *,
    start: str,
    record: str,
    repeats: int,
    found: str | None = None,
    quantity: str = "",
    tensor: str | None = None,
) -> None:
    """Repeat the saved step with every operation fingerprinted.

    Args:
        run: as for `save_start`.
        start: what `save_start` wrote.
        record: a folder: without `found` it is written, repeat by repeat; else it is read.
        repeats: how often to do the step.
        found: path of the JSON, a `pair_records.Replayed`.
        quantity: what differed first in the pair; with `found` only.
        tensor: and in which tensor of it; None for what is one value.
    """
    # Written by `save_start`, a moment ago; mapped, so that the system may let go of what it holds
    # in its own memory. A GPU holds its part throughout.
    saved: Start = torch.load(start, weights_only=False, mmap=True)
    comparer = None
    replayer: Replayer
    if found is None:
        replayer = StepRecorder(saved, repeats, Path(record))
    else:
        replayer = comparer = Comparer(
            saved, repeats, Path(record), quantity=quantity, tensor=tensor
        )
    with _trained(_of_one_step(run), [replayer]) as (trainer, module, data):
        # torch's own collate function would make tensors of arrays.
        batches = _Copies(saved["batch"], repeats)
        loader = DataLoader(batches, batch_size=None, collate_fn=_as_it_is)
        data.train_dataloader = lambda: loader
        # The saved batch is what the module's hooks have made of the loader's: not once more.
        for owner in (module, data):
            vars(owner).update(dict.fromkeys(BATCH_HOOKS, _as_it_is))
        trainer.limit_val_batches = 0  # else an epoch's last batch would validate in each repeat
        # What a module compiles by itself shows no operations, and a whole graph (`fullgraph=True`)
        # is an error where they are watched.
        with torch.compiler.set_stance("force_eager"):
            _fit(trainer, module, data)
    if found is not None and comparer is not None:
        artifacts.write_record(found, comparer.summary(), Replayed)


def _of_one_step(run: Training) -> Training:
    """Return a training that is told nothing of how many batches there are, or when to validate."""
    told = replace(
        run.workload.trainer,
        val_check_interval=None,
        limit_train_batches=None,
        overfit_batches=0,
        num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=0,
    )
    return replace(run, workload=replace(run.workload, trainer=told))


class _Copies(Dataset[object]):
    """The saved batch, anew for each repeat: hooks and the step may change it in place."""

    def __init__(self, batch: object, count: int) -> None:
        self._batch, self._count = batch, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> object:
        return copied(self._batch)


def _as_it_is(batch: object, *_: object, **__: object) -> object:
    return batch


@contextmanager
def _trained(
    run: Training, callbacks: list[pl.Callback]
) -> Iterator[tuple[pl.Trainer, pl.LightningModule, pl.LightningDataModule]]:
    """Assemble the training as a run does, without the callbacks that watch a run."""
    with assembled(run) as assembly:
        trainer = trainer_of(
            run.variant,
            run.workload.trainer,
            root=assembly.root,
            callbacks=callbacks,
            max_epochs=run.workload.epochs,
        )
        yield trainer, assembly.module, assembly.data


def _fit(trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule) -> None:
    with suppress(Stopped):
        trainer.fit(module, datamodule=data)


class _Saver(pl.Callback):
    """Saves the start of a step, and notes where the training diverges from the record before."""

    def __init__(self, tracer: Tracer, recorded: pd.DataFrame, step: int, path: Path) -> None:
        self._tracer, self._recorded, self._step, self._path = tracer, recorded, step, path
        # A run may have been traced at some steps alone.
        self._rows = {int(number): row for row, number in enumerate(recorded["step"])}
        self._earlier: EarlierDifference | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._at_start = attribute_fingerprints_of(pl_module, trainer.optimizers)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        if self._tracer.steps + 1 != self._step:
            return
        start = Start(
            step=self._step,
            epoch=trainer.current_epoch + 1,
            batch_idx=batch_idx,
            # A view of the data would take all of them along.
            batch=copied(batch),
            state=state_of(trainer, pl_module, self._at_start),
            earlier=self._earlier,
            not_put_back=_not_put_back(trainer, pl_module) if self._step > 1 else [],
        )
        torch.save(start, self._path)
        raise Stopped

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        row = self._tracer.last_row()
        values = cast(Mapping[str, object], row)
        if self._earlier is not None or row["step"] not in self._rows:
            return
        recorded = self._recorded.iloc[self._rows[row["step"]]]
        known = {name: key for name, key in QUANTITIES.items() if key in recorded}
        differing = [name for name, key in known.items() if recorded[key] != values[key]]
        if differing:
            quantity = WORDS.get(differing[0], differing[0])
            self._earlier = EarlierDifference(step=row["step"], quantity=quantity)


def _not_put_back(trainer: pl.Trainer, module: pl.LightningModule) -> list[str]:
    """Name the weights that the state of a step does not hold."""
    found = held_elsewhere(module, trainer.optimizers)
    return sorted({**found.reached, **found.in_memory})

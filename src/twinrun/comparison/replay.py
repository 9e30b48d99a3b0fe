"""What locating a difference does in fresh processes: save a step's start, and replay the step.

`save_start` trains as the run did, up to the step in which the pair diverged (or, if a race makes
this training part from the run earlier, up to that step), and saves all that the step starts with.
`replay` does that step again, as often as asked, always from the saved start, with every operation
fingerprinted; the first process to replay leaves a record, the second is compared with it.
Both go through Lightning's Trainer, so that every hook of the module is called.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
import xxhash
from torch.utils.data import DataLoader, Dataset

from twinrun import artifacts, run_files
from twinrun.batches import copied
from twinrun.checkpoint.stop_request import Stopped
from twinrun.comparison.distances import Distances, distances
from twinrun.comparison.step_state import set_progress, set_state, state_of
from twinrun.config.definitions import Training
from twinrun.trace.op_tracer import KEY, OpTracer
from twinrun.trace.step_tracer import Tracer
from twinrun.training.assemble import assembled, trainer_of

MOST_ELEMENTS = 2**18  # of an operation's output that are kept to measure a distance: 1 MiB


def save_start(run: Training, *, step: int, recorded: str, start: str) -> None:
    """Train up to a step and save what it starts with.

    Args:
        run: what the pair's runs were made of.
        step: the step in which the pair diverged, from 1.
        recorded: run.json of the first run of the pair; its steps.csv lies beside it.
        start: path of the file.
    """
    # As text: fingerprints without a letter would be read as numbers.
    steps = pd.read_csv(run_files.verified(recorded, "steps.csv"), dtype=str)
    tracer = Tracer()
    saver = _Saver(tracer, steps, step, Path(start))
    # The tracer first: the saver looks at the row that it has just written.
    with _trained(run, [tracer, saver]) as (trainer, module, data):
        _fit(trainer, module, data)


def replay(
    run: Training, *, start: str, record: str, repeats: int, found: str | None = None
) -> None:
    """Repeat the saved step with every operation fingerprinted.

    Args:
        run: as for `save_start`.
        start: what `save_start` wrote.
        record: a folder: without `found` it is written, after one repeat; else it is read.
        repeats: how often to do the step.
        found: path of the JSON: `step`, `epoch`, `repeats`, `firsts` (of each repeat the place of
            the first operation that differed, or None) and `operations` (those of the first
            repeat that diverged).
    """
    state = torch.load(start, weights_only=False)  # written by `save_start`, a moment ago
    recorder = _Recorder(state, Path(record), repeats) if found is None else None
    comparer = _Comparer(state, Path(record), repeats) if found is not None else None
    replayer: list[pl.Callback] = [callback for callback in (recorder, comparer) if callback]
    with _trained(run, replayer) as (trainer, module, data):
        # A list is a dataset to torch, whatever its types say.
        batches = cast(Dataset[object], [state["batch"]] * repeats)
        loader = DataLoader(batches, batch_size=None)
        data.train_dataloader = lambda: loader
        trainer.limit_val_batches = 0  # else an epoch's last batch would validate in each repeat
        _fit(trainer, module, data)
    if found is not None and comparer is not None:
        place = {"step": state["step"], "epoch": state["epoch"]}
        artifacts.write_json(found, {**place, **comparer.summary()})


@contextmanager
def _trained(
    run: Training, callbacks: list[pl.Callback]
) -> Iterator[tuple[pl.Trainer, pl.LightningModule, pl.LightningDataModule]]:
    """Assemble the training as a run does, without the callbacks that watch a run."""
    with assembled(run) as assembly:
        trainer = trainer_of(
            run.variant, root=assembly.root, callbacks=callbacks, max_epochs=run.workload.epochs
        )
        yield trainer, assembly.module, assembly.data


def _fit(trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule) -> None:
    with suppress(Stopped):
        trainer.fit(module, datamodule=data)


class _Saver(pl.Callback):
    """Saves the start of the step in which the training ends or diverges from what was recorded."""

    def __init__(self, tracer: Tracer, recorded: pd.DataFrame, step: int, path: Path) -> None:
        self._tracer, self._recorded, self._step, self._path = tracer, recorded, step, path
        self._start: dict[str, Any] = {}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        step = len(self._tracer.rows) + 1
        place = {"step": step, "epoch": trainer.current_epoch + 1, "batch_idx": batch_idx}
        # At every step, since a race may decide which one is the last.
        self._start = place | {"batch": copied(batch), "state": state_of(trainer, pl_module)}
        if step == self._step:
            self._end()

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        row = self._tracer.rows[-1]
        recorded = self._recorded.iloc[row["step"] - 1]
        if any(recorded[key] != row[key] for key in row if isinstance(row[key], str)):
            self._end()

    def _end(self) -> None:
        torch.save(self._start, self._path)
        raise Stopped


class _Replayer(pl.Callback):
    """Does the saved step in place of each of the Trainer's, with every operation fingerprinted."""

    def __init__(self, start: Mapping[str, Any], record: Path, repeats: int) -> None:
        self._start, self._record, self._repeats = start, record, repeats
        self._done = 0

    def watch(self, row: dict[str, Any], outputs: list[torch.Tensor]) -> None:
        """Look at what an operation gave, while it is there."""

    def end_repeat(self, rows: list[dict[str, Any]]) -> None:
        """Take the operations of a repeat."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        step, start = pl_module.training_step, self._start

        @functools.wraps(step)  # Lightning passes what the step's signature asks for
        def saved_step(batch: object, *index: object) -> Any:
            return step(self._batch, *([start["batch_idx"]] if index else []))

        pl_module.training_step = saved_step
        # The loop counts batches from 0 where it begins: from then on it is at the saved step.
        loop = trainer.fit_loop.epoch_loop
        begin = loop.on_run_start

        def begin_at_the_step(data_fetcher: Any) -> None:
            begin(data_fetcher)
            set_progress(trainer, start["state"]["progress"], batches_begun=0)

        loop.on_run_start = begin_at_the_step
        pl_module.log = pl_module.log_dict = _log_nothing  # it adds up from repeat to repeat
        cast(Any, trainer.fit_loop.epoch_progress.current).processed = start["epoch"] - 1
        # Lightning has no hook after an optimizer's step.
        for optimizer in trainer.optimizers:
            optimizer.register_step_post_hook(lambda *_: self._set_phase("forward"))

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object, **__: object
    ) -> None:
        set_state(trainer, pl_module, self._start["state"])
        set_progress(trainer, self._start["state"]["progress"], batches_begun=1)
        # A step may change its batch in place.
        self._batch = copied(self._start["batch"])
        self._tracer = OpTracer(pl_module, self.watch)
        self._following = self._tracer.following()
        self._following.__enter__()

    def on_before_backward(self, *_: object, **__: object) -> None:
        self._set_phase("backward")

    def on_after_backward(self, *_: object, **__: object) -> None:
        self._set_phase("forward")

    def on_before_optimizer_step(self, *_: object, **__: object) -> None:
        self._set_phase("optimizer")

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        self._following.__exit__(None, None, None)
        self.end_repeat(self._tracer.rows)
        self._done += 1
        if self._done == self._repeats:
            raise Stopped
        # So that the loop gives the next repeat the index of the same batch.
        set_progress(trainer, self._start["state"]["progress"], batches_begun=0)

    def _set_phase(self, phase: str) -> None:
        self._tracer.phase = phase


class _Recorder(_Replayer):
    """Leaves the operations of one repeat and a sample of what each gave."""

    def watch(self, row: dict[str, Any], outputs: list[torch.Tensor]) -> None:
        for place, tensor in enumerate(outputs):
            np.save(self._record / f"{_file_of(row)}.{place}.npy", sample_of(tensor))

    def end_repeat(self, rows: list[dict[str, Any]]) -> None:
        artifacts.write_json(self._record / "ops.json", rows)


class _Comparer(_Replayer):
    """Holds the operations of each repeat against the record."""

    def __init__(self, start: Mapping[str, Any], record: Path, repeats: int) -> None:
        super().__init__(start, record, repeats)
        self._recorded = {
            _key(row): row
            for row in artifacts.read_record(record / "ops.json", list[dict[str, Any]])
        }
        self._firsts: list[dict[str, Any] | None] = []
        self._operations: list[dict[str, Any]] = []

    def watch(self, row: dict[str, Any], outputs: list[torch.Tensor]) -> None:
        recorded = self._recorded.get(_key(row))
        row["is_known"] = recorded is not None
        for side in ("inputs", "outputs"):
            row[f"{side}_equal"] = recorded is not None and recorded[side] == row[side]
        # Measured up to the first repeat that diverged: the table is of that one.
        if recorded is not None and not row["outputs_equal"] and not self._operations:
            row |= self._measured(row, outputs)

    def end_repeat(self, rows: list[dict[str, Any]]) -> None:
        first = first_of(rows, len(self._recorded))
        self._firsts.append(first)
        if first is not None and not self._operations:
            self._operations = rows

    def summary(self) -> dict[str, Any]:
        """Return what was found."""
        return {"repeats": self._done, "firsts": self._firsts, "operations": self._operations}

    def _measured(
        self, row: dict[str, Any], outputs: list[torch.Tensor]
    ) -> Distances | dict[str, Any]:
        """Return the distances of the output that is farthest from the recorded one."""
        found = []
        for place, tensor in enumerate(outputs):
            recorded = np.load(self._record / f"{_file_of(row)}.{place}.npy")
            own = sample_of(tensor)
            if own.shape == recorded.shape and own.dtype == recorded.dtype:
                # torch's name of the type: to NumPy a bfloat16 is a uint16.
                found.append(distances(recorded, own, str(tensor.dtype).split(".")[1]))
        return max(found, key=lambda distance: distance["relative_l2"], default={})


def first_of(rows: Sequence[Mapping[str, Any]], recorded: int) -> dict[str, Any] | None:
    """Return the first operation that differs: its place in the step, its row, and in what.

    Args:
        rows: operations in order, with `is_known`, `inputs_equal` and `outputs_equal`.
        recorded: how many operations the other process did.

    Returns:
        The row with `place` and `differs_in`: `outputs` (of equal inputs), `inputs` (no operation
        before it made them differ: they came from outside of torch) or `operations` (the two
        processes did not do the same); None if all is equal.
    """
    for place, row in enumerate(rows):
        if not row["is_known"]:
            return {**row, "place": place, "differs_in": "operations"}
        if not row["inputs_equal"]:
            return {**row, "place": place, "differs_in": "inputs"}
        if not row["outputs_equal"]:
            return {**row, "place": place, "differs_in": "outputs"}
    if len(rows) < recorded:
        return {**rows[-1], "place": len(rows) - 1, "differs_in": "operations"}
    return None


def _log_nothing(*_: object, **__: object) -> None:
    pass


def sample_of(tensor: torch.Tensor) -> np.ndarray:
    """Return at most MOST_ELEMENTS evenly spaced elements, flat; of bfloat16 the bits as uint16."""
    if tensor.layout is not torch.strided:
        tensor = tensor.coalesce().values()
    # Conjugate and negative views are resolved: NumPy knows neither.
    flat = tensor.detach().reshape(-1)
    flat = flat[:: max(1, -(-flat.numel() // MOST_ELEMENTS))].cpu().resolve_conj().resolve_neg()
    return (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).numpy()


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row[part] for part in KEY])


def _file_of(row: Mapping[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(_key(row).encode())

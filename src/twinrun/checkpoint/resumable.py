"""Resume a training that was killed; it ends in the bits of an uninterrupted one.

`Resumable` is a Lightning callback, of use in any training:

    resumable = Resumable("checkpoints")
    trainer = pl.Trainer(callbacks=[resumable, ...])  # before all others
    trainer.fit(module, data, ckpt_path=resumable.last(), weights_only=True)
    resumable.remove()

Lightning's own checkpoint holds no RNG state, and its loader's iterator is made before the sampler
knows its epoch. This one is taken where an epoch starts, or between two batches of one longer than
`minutes`, and put back there, where the iterator is made once more and has given the batches of
before. What it cannot hold, it says. Where another batch comes first, the training is broken off.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint import other_shapes, restored
from twinrun.checkpoint.at_start import state_at_start
from twinrun.checkpoint.best_models import KEY
from twinrun.checkpoint.completed import complete, write
from twinrun.checkpoint.first_batch import FirstBatch
from twinrun.checkpoint.folder import Folder
from twinrun.checkpoint.kept_beside import NOTHING_TOLD, KeptBeside, told_now
from twinrun.checkpoint.loaded import Loaded, cannot_be_loaded
from twinrun.checkpoint.looks import fingerprint_of_batch
from twinrun.checkpoint.making_loaders import MakingLoaders
from twinrun.checkpoint.plain_attributes import Attributes
from twinrun.checkpoint.refusals import refusals
from twinrun.checkpoint.replayed_data import has_reloaded
from twinrun.checkpoint.running_epoch import RunningEpoch
from twinrun.checkpoint.together import Alone, Together, agreed, hindrance_of_all
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.determinism import restore_rng_states, rng_states


class Resumable(pl.Callback):
    """Keeps the last checkpoint of a training in a folder, and restores what Lightning does not."""

    def __init__(
        self,
        folder: str | Path,
        *,
        identity: Mapping[str, object] | None = None,
        minutes: float = 10,
        in_epoch: Callable[[pl.Trainer, int], bool] | None = None,
        say: Callable[[str], None] = print,
        fingerprint: Callable[[object], int] | None = fingerprint_of_batch,
        together: Together | None = None,
        trained_otherwise: Callable[[], str | None] | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            folder: for this training alone.
            identity: what must be the same for a checkpoint to be used, as JSON can hold it.
            minutes: between two, at least; 0 writes one where each epoch starts, and no other.
            in_epoch: says behind which batches of an epoch one is written whatever the clock says.
            say: takes sentences about checkpoints that cannot be used or written.
            fingerprint: of a batch, by which it is known again; None does not look at the first.
            together: the workers, where several train one network.
            trained_otherwise: says how the last step is not what it was before the stop, if it is.
        """
        self._together = together or Alone()
        self._say, self._folder = say, Folder(folder, identity or {}, say, self._together)
        self._minutes, self._in_epoch, self._written = minutes, in_epoch, time.monotonic()
        self._not_in_epoch: str | None = None
        self._is_refused, self._told, self._kept = False, NOTHING_TOLD, dict[str, Any]()
        self._restored: dict[str, Any] | None = None
        self._at_start: KeptBeside | None = None
        self._attributes: Attributes = {}
        self._shapes, self._making = other_shapes.TensorShapes(), MakingLoaders()
        self._fingerprint = fingerprint or fingerprint_of_batch
        self._first_batch = FirstBatch(self._folder, fingerprint, self._together, trained_otherwise)
        self.made_anew = self._first_batch.made_anew
        self.on_validation_batch_start = self._first_batch.validation_begins
        self._epoch: RunningEpoch | None = None

    @property
    def refused(self) -> str | None:
        """Why `last` found no checkpoint that can be used."""
        return self._folder.refused

    def last(self) -> str | None:
        """Return the path of the last checkpoint, None if there is none that can be used."""
        return self._folder.last()

    def remove(self) -> None:
        """Remove the folder, when the training has been finished."""
        self._folder.remove()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look at what there is before Lightning loads a checkpoint, or a hook has loaders made."""
        self._told = told_now(trainer)
        if stage != "fit":
            return
        told = self._told[1] if self._folder.is_used else {}
        self._constructed = state_at_start(trainer, told, is_this=True)
        self._epoch = RunningEpoch(
            trainer,
            self._fingerprint,
            lambda: self._before_batch(trainer),
            lambda: self._go_on(trainer, pl_module),
            lambda: self._making.noting(trainer, self._restored),
            self._first_batch,
            is_watched=self._left is not None,
            together=self._together,
        )

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at what a checkpoint would be loaded into: by now Lightning has done that."""
        if self._restored is not None:
            self._restored["loaded"].look(trainer)
        self._shapes = other_shapes.tensor_shapes_of(pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse a training that can have no checkpoint, now that all has been set up."""
        if (why := hindrance_of_all(self._together, trainer)) is not None:
            self._give_up(why)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave Lightning's loops as they were."""
        if self._epoch is not None:
            self._epoch.remove()

    @property
    def _left(self) -> float | None:
        """Seconds until a checkpoint in mid-epoch may be due; None if none will be."""
        if self._is_refused or self._not_in_epoch is not None:
            return None
        if self._in_epoch is not None:
            return 0.0
        left = 60 * self._minutes - (time.monotonic() - self._written)
        return left if self._minutes else None

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put everything back where the training is resumed; else write a checkpoint if one is due.

        Nothing of this epoch has been drawn yet, neither by another hook nor by the loader.
        """
        assert self._epoch is not None  # noqa: S101  made in `setup`
        if self._restored is not None:
            self._begin_again(trainer, pl_module, self._restored)
            return
        is_due = time.monotonic() - self._written >= 60 * self._minutes
        self._at_start = self._at_start or KeptBeside(trainer, self._first_batch.late, *self._told)
        self._at_start.epoch_begins(trainer)
        # Before the first epoch nothing is lost by a start from the beginning.
        is_possible = trainer.current_epoch > 0 and not self._is_refused and has_reloaded(trainer)
        is_possible &= self._first_batch.compiled.is_seen(trainer.current_epoch)
        if is_possible and self._together.firsts_number(is_due):
            if (why := agreed(self._together, self._hindrance(trainer))) is None:
                self._write(trainer, f"epoch{trainer.current_epoch}.ckpt", None)
            else:
                self._give_up(why)
        self._epoch.begin(self._left)

    def _hindrance(self, trainer: pl.Trainer, *, is_in_first_epoch: bool = False) -> str | None:
        """Say why no checkpoint can be written now."""
        assert self._at_start is not None  # noqa: S101
        self._attributes, changed = self._at_start.changed(trainer)
        found = refusals(trainer, self._shapes, is_in_first_epoch=is_in_first_epoch)
        return next(iter((*self._first_batch.hindrances(trainer), *found, *changed)), None)

    def _before_batch(self, trainer: pl.Trainer) -> None:
        """Write a checkpoint before a batch is fetched, if one is due and the epoch was seen."""
        epoch, batches = self._epoch, trainer.fit_loop.epoch_loop.batch_progress.current.completed
        left = self._left
        if epoch is None or not batches or left is None or self._at_start is None:
            return
        is_due = left <= 0 if self._in_epoch is None else self._in_epoch(trainer, batches)
        # Another checkpoint would be taken of data of which nobody knows yet that they went on.
        is_due = epoch.is_due(left, is_due and not self._first_batch.is_awaited)
        if not is_due or (found := epoch.known) is None:
            return
        why = self._hindrance(trainer, is_in_first_epoch=trainer.current_epoch == 0)
        why = agreed(self._together, why or next(epoch.hindrances(found, self._making), None))
        if why is None:
            self._write(trainer, f"epoch{trainer.current_epoch}-batch{batches}.ckpt", epoch.state())
        else:
            # What changes in the midst of an epoch may be as it was where the next one starts.
            self._not_in_epoch = why
            self._folder.note_refusal(f"in mid-epoch {why}")
            self._say(f"no checkpoints are written in mid-epoch: {why}")
            epoch.leave()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Remember the first batch behind a checkpoint, or compare it.

        Raises:
            TwinrunError: if the data did not go on where the checkpoint was taken.
        """
        self._break_off_if(self._first_batch.comes(trainer, batch))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notice a stream that ended before its first batch; end what objects were parted for."""
        self._break_off_if(self._first_batch.came_not(trainer))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notice what has changed behind that in the last epoch."""
        self._break_off_if(self._first_batch.changed(trainer))

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare what validation data were told; end a training that was told nothing of it."""
        self._break_off_if(self._first_batch.validated(trainer))

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Complete a checkpoint of this callback; those of others stay as they are."""
        if self._kept:
            checkpoint[KEY] = complete(checkpoint, trainer, pl_module, **self._kept)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keep what is to be put back later."""
        # Lightning restores callbacks before it asks for the training loader and its generators.
        if KEY in checkpoint:
            begun = self._first_batch.load(checkpoint[KEY])
            self._restored = {**checkpoint[KEY], **begun, "loaded": Loaded(checkpoint, trainer)}

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leave a checkpoint alone that cannot be loaded: each attempt would fail like this one."""
        self.on_fit_end(trainer, pl_module)
        if self._restored is not None and cannot_be_loaded(exception):
            self._folder.forget()
            self._give_up(f"it could not be loaded ({sentence_of(exception)})")

    def _unless(self, what: str | None) -> None:
        """Go on unless a worker says what is not as it was."""
        self._break_off_if(agreed(self._together, what))

    def _break_off_if(self, why: str | None) -> None:
        if why is not None:
            self._folder.forget()
            self._give_up(why)
            raise TwinrunError(f"{why}; the next attempt trains from the beginning")

    def _give_up(self, why: str) -> None:
        self._is_refused = True
        self._folder.note_refusal(why)
        self._say(f"no checkpoints are written: {why}")

    def _write(self, trainer: pl.Trainer, name: str, state: dict[str, Any] | None) -> None:
        before, self._written = rng_states(), time.monotonic()
        if self._first_batch.waits(trainer, is_in_epoch=state is not None):
            return
        assert self._at_start is not None  # noqa: S101
        self._kept = {"attributes": self._attributes, "start": self._at_start, "epoch": state}
        self._kept |= {**self._first_batch.state(trainer), "making": self._making.noted}
        try:
            self._folder.write(name, lambda path: write(trainer, path, key=KEY))
        except TwinrunError as error:
            self._give_up(str(error))
        finally:
            self._kept = {}
            restore_rng_states(before)  # a module's own hook may have drawn

    def _begin_again(
        self, trainer: pl.Trainer, module: pl.LightningModule, state: dict[str, Any]
    ) -> None:
        """Put back the state of a checkpoint, or what an epoch that was under way begins with."""
        assert self._epoch is not None  # noqa: S101
        made, found = self._constructed, KeptBeside(trainer, self._first_batch.late, self._told[0])
        self._unless(self._making.unlike or restored.begin_as_before(trainer, state, found, made))
        if is_whole := "epoch" not in state:
            told, together = self._first_batch.is_told, self._together
            self._unless(restored.restore(trainer, module, state, together, is_compared=told))
            self._restored = None
            self._unless(self._first_batch.resumed(trainer, state))
        self._at_start = KeptBeside(trainer, self._first_batch.late).since(found)
        self._epoch.begin(self._left)
        if not is_whole:
            restored.begin_epoch(trainer, module, state)
            self._epoch.resume(state["epoch"], state.get("late", {}))
        restored.begin_anew(trainer)

    def _go_on(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Put back the state of a checkpoint in mid-epoch, whose batches have been replayed.

        Raises:
            TwinrunError: if they were other ones, or something is not as it was.
        """
        state, epoch, before = self._restored, self._epoch, self._at_start
        assert state and epoch and before  # noqa: S101, PT018
        self._unless(epoch.unlike(state["epoch"]))
        self._unless(restored.restore_mid_epoch(trainer, module, state, before, self._together))
        self._restored = None
        self._unless(self._first_batch.resumed(trainer, state, before))
        self._at_start = KeptBeside(trainer, self._first_batch.late).since(before)

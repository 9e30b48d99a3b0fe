"""Resume a training that was killed; it ends in the bits of an uninterrupted one.

`Resumable` is a Lightning callback, of use in any training:

    resumable = Resumable("checkpoints")
    trainer = pl.Trainer(callbacks=[resumable, ...])  # before all others
    trainer.fit(module, data, ckpt_path=resumable.last(), weights_only=True)
    resumable.remove()

Lightning's own checkpoint holds no RNG state, and resuming from it makes the loader's iterator
before the sampler knows its epoch. This one is taken where an epoch starts, when all of the last
one is done (schedulers and early stopping too), and put back at the same point of a resumed
training, whose iterator is then made once more. A training killed in mid-epoch so repeats that
epoch's steps. What it cannot hold, it says, and leaves the training alone. The first batch behind a
checkpoint is remembered: where a resumed training gets another one, it is broken off.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, NotRequired, TypedDict

import pytorch_lightning as pl

from twinrun import artifacts
from twinrun.checkpoint import left_out
from twinrun.checkpoint.kept_beside import KeptBeside
from twinrun.checkpoint.loaded import Loaded, cannot_be_loaded, metrics_of, put_back_metrics
from twinrun.checkpoint.plain_attributes import Attributes, restore_attributes
from twinrun.checkpoint.refusals import (
    TensorShapes,
    as_data,
    generators_of,
    loaders_of,
    other_than,
    refusals,
    tensor_shapes_of,
)
from twinrun.checkpoint.stream_position import positions_of, put_back
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.determinism import restore_rng_states, rng_states

KEY = "twinrun"  # of what this callback adds to Lightning's checkpoint


class CheckpointEntry(TypedDict):
    """The checkpoint.json of a folder: which of its files is the last whole checkpoint."""

    file: str
    """Its name in the folder."""
    sha256: str
    """SHA-256 of its bytes."""
    identity: dict[str, object]
    """What must be the same for it to be used."""
    batch: NotRequired[int | None]
    """Fingerprint of the first batch behind it, where one came and somebody looked."""


class Resumable(pl.Callback):
    """Keeps the last checkpoint of a training in a folder, and restores what Lightning does not.

    Costs nothing but a look at the clock where an epoch starts, until a checkpoint is due.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        identity: Mapping[str, object] | None = None,
        minutes: float = 10,
        say: Callable[[str], None] = print,
        fingerprint: Callable[[object], int] | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            folder: for this training alone.
            identity: what must be the same for a checkpoint to be used, as JSON can hold it.
            minutes: at least these lie between two checkpoints; 0 writes one every epoch.
            say: takes sentences about checkpoints that cannot be used or written.
            fingerprint: of a batch, by which it is known again.
        """
        self._folder = Path(folder)
        self._entry = self._folder / "checkpoint.json"
        self._refusal = self._folder / "refused.txt"
        self.refused: str | None = None
        """Why `last` found no checkpoint that can be used."""
        self._identity: dict[str, object] = json.loads(json.dumps(identity or {}))
        self._minutes = minutes
        self._say = say
        self._is_refused = False
        self._written = time.monotonic()
        self._is_writing = False
        self._restored: dict[str, Any] | None = None
        self._at_start: KeptBeside | None = None
        self._attributes: Attributes = {}
        self._shapes: TensorShapes = {}
        self._fingerprint = fingerprint
        self._new: CheckpointEntry | None = None
        self._expected: int | None = None

    def last(self) -> str | None:
        """Return the path of the last checkpoint, None if there is none that can be used."""
        self.refused = None
        if not self._entry.exists():
            self.refused = "none had been written before the stop"
            if self._refusal.exists():  # an earlier process says why
                self.refused = self._refusal.read_text(encoding="utf-8")
            return None
        try:
            entry = artifacts.read_record(self._entry, CheckpointEntry)
            path = self._folder / Path(entry["file"]).name
            is_whole = path.is_file() and artifacts.sha256(path) == entry["sha256"]
            others = other_than(entry["identity"], self._identity)
            self._expected = None
            if is_whole and not others:
                as_data(path)
                self._expected = entry["batch"] if "batch" in entry else None  # noqa: SIM401
        except TwinrunError:
            path, is_whole, others = self._entry, False, []
        if is_whole and not others:
            return str(path)
        what = f"is of another {' and '.join(others)}" if others else "is corrupt"
        self.refused = f"it {what}"
        self._say(f"{path} {what}: the training starts from its beginning")
        return None

    def remove(self) -> None:
        """Remove the folder, when the training has been finished."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at what a checkpoint would be loaded into: by now Lightning has done that."""
        self._shapes = tensor_shapes_of(pl_module)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put everything back where the training is resumed; else write a checkpoint if one is due.

        Nothing of this epoch has been drawn yet, neither by another hook nor by the loader.
        """
        if self._restored is not None:
            found = KeptBeside(trainer)
            self._restore(trainer, pl_module, self._restored)
            self._restored = None
            self._at_start = KeptBeside(trainer)
            # From before: what had changed by the last checkpoint is in the next one, too.
            self._at_start.attributes = found.attributes
            return
        is_due = time.monotonic() - self._written >= 60 * self._minutes
        if self._at_start is None:
            self._at_start = KeptBeside(trainer)
        # Before the first epoch nothing is lost by a start from the beginning.
        if trainer.current_epoch == 0 or self._is_refused or not is_due:
            return
        # A resumed training makes its loaders: so must this one have done for this epoch.
        has_reloaded = trainer.fit_loop._last_train_dl_reload_epoch == trainer.current_epoch
        if vars(trainer).get("reload_dataloaders_every_n_epochs") and not has_reloaded:
            return
        self._attributes, changed = self._at_start.changed(trainer)
        why = next(iter((*refusals(trainer, self._shapes), *changed)), None)
        if why is not None:
            self._give_up(why)
            return
        before = rng_states()
        self._write(trainer)
        restore_rng_states(before)  # a module's own hook may have drawn
        self._written = time.monotonic()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Remember the first batch behind a checkpoint, or compare it.

        Raises:
            TwinrunError: if the data did not go on where the checkpoint was taken.
        """
        if self._fingerprint is None or (self._new is None and self._expected is None):
            return
        found = self._fingerprint(batch)
        if self._new is not None:
            entry, self._new = {**self._new, "batch": found}, None
            with suppress(OSError):  # without it the checkpoint is as good, and not checked
                artifacts.write_record(self._entry, entry, CheckpointEntry)
        elif found != self._expected:
            self._break_off("the first batch after the stop is another one")
        self._expected = None

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notice a stream that has ended, where a batch came after the checkpoint.

        Raises:
            TwinrunError: if it has.
        """
        if self._expected is not None:
            self._break_off("no batch came after the stop")

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Complete a checkpoint of this callback; those of others stay as they are."""
        if not self._is_writing:
            return
        # The epoch has been made ready, but a resumed training makes it ready itself.
        for progress in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
            progress["ready"] -= 1
        left_out.drop_hyperparameters(checkpoint)
        checkpoint[KEY] = {
            "random": rng_states(),
            "generators": [each.get_state() for each in generators_of(loaders_of(trainer))],
            "metrics": metrics_of(trainer),
            # Asked for before `min_epochs` or `min_steps` have been reached.
            "should_stop": trainer.should_stop,
            "buffers": dict(left_out.transient_buffers(pl_module)),
            "averages": left_out.left_out_of_averages(trainer),
            "positions": positions_of(loaders_of(trainer)),
            "attributes": self._attributes,
        }

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keep what is to be put back later."""
        # Lightning restores callbacks before it asks for the training loader and its generators.
        if KEY in checkpoint:
            self._restored = {**checkpoint[KEY], "loaded": Loaded(checkpoint)}

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leave a checkpoint alone that cannot be loaded: each attempt would fail like this one."""
        if self._restored is not None and cannot_be_loaded(exception):
            self._entry.unlink(missing_ok=True)
            self._give_up(f"it could not be loaded ({sentence_of(exception)})")

    def _break_off(self, how: str) -> NoReturn:
        why = f"the data does not go on where it was: {how}"
        self._entry.unlink(missing_ok=True)
        self._give_up(why)
        raise TwinrunError(f"data: {why}; the next attempt trains from the beginning")

    def _give_up(self, why: str) -> None:
        self._is_refused = True
        artifacts.write_text(self._refusal, why)
        self._say(f"no checkpoints are written: {why}")

    def _write(self, trainer: pl.Trainer) -> None:
        path = self._folder / f"epoch{trainer.current_epoch}.ckpt"
        self._is_writing = True
        try:
            with artifacts.atomic(path) as temporary:
                trainer.save_checkpoint(temporary, weights_only=False)
                # Before it replaces an older one: `fit` loads it with weights_only=True.
                saved = as_data(temporary)
                left_out.add_left_out(temporary, saved, trainer.lightning_module, key=KEY)
            # After the checkpoint, so that an entry never names one that is not whole.
            entry = self._new = CheckpointEntry(
                file=path.name,
                sha256=artifacts.sha256(path),
                identity=self._identity,
            )
            artifacts.write_record(self._entry, entry, CheckpointEntry)
        except OSError as error:
            self._say(
                f"{path} could not be written ({error.strerror}): the training continues without"
            )
            return
        except TwinrunError as error:
            self._give_up(str(error))
            return
        finally:
            self._is_writing = False
        # Last, so that there is a whole one at any moment.
        for other in self._folder.glob("*.ckpt"):
            if other != path:
                other.unlink()

    def _restore(
        self, trainer: pl.Trainer, module: pl.LightningModule, state: Mapping[str, Any]
    ) -> None:
        state["loaded"].put_back(trainer, module)
        put_back(loaders_of(trainer), state["positions"])
        found = generators_of(loaders_of(trainer))
        for generator, saved in zip(found, state["generators"], strict=True):
            generator.set_state(saved)
        # A callback may monitor what was logged before the stop.
        put_back_metrics(trainer, state["metrics"], module.device)
        trainer.should_stop = state.get("should_stop", False)
        # Most checkpoints have none that were left out.
        left_out.put_back_tensors(module, state["buffers"], state.get("left_out", {}))
        left_out.put_back_averages(trainer, state["averages"])
        restore_attributes(module, state["attributes"])
        restore_rng_states(state["random"])
        # Lightning made the iterator before this hook; now it makes it again, after all hooks.
        trainer.fit_loop._resuming_from_checkpoint = False
        # With `max_steps` it takes the epoch before for one that was broken off, however whole.
        trainer.fit_loop._restarting = trainer.fit_loop.epoch_loop.restarting = False

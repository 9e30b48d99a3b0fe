"""The first batch behind a checkpoint: remembered with it, and compared where it is used.

And the steps behind it that a killed process had trained, which have to be the same again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.begun_anew import BegunAnew
from twinrun.checkpoint.first_validated import FirstValidated
from twinrun.checkpoint.folder import Folder
from twinrun.checkpoint.kept_beside import KeptBeside
from twinrun.checkpoint.late_attributes import LateAttributes
from twinrun.checkpoint.late_compared import first_other, lacks, more_than
from twinrun.checkpoint.looks import rng_states_in_a_word
from twinrun.checkpoint.other_batches import cure_of_stream
from twinrun.checkpoint.own_compiled import OwnCompiled
from twinrun.checkpoint.parted import Parted
from twinrun.checkpoint.plain_values import shown
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.restored import ELSEWHERE, SETS_ALL
from twinrun.checkpoint.together import Together, agreed
from twinrun.checkpoint.told_epochs import STATE, ToldEpochs, told_and_said

_LATE, _BEGUN = "late", "begun"  # among what data say
_CHANGED = "has changed by the first mini-batch behind the last checkpoint, which is not used"


class FirstBatch:
    """Each worker remembers its own, and compares it."""

    def __init__(
        self,
        folder: Folder,
        fingerprint: Callable[[object], int] | None,
        together: Together,
        trained_otherwise: Callable[[], str | None] | None,
    ) -> None:
        """Wait for a checkpoint that is written or used.

        Args:
            folder: of the checkpoints.
            fingerprint: of a batch; None looks at none.
            together: the workers.
            trained_otherwise: says how the last step is not what it was before the stop.
        """
        self._trained_otherwise = trained_otherwise or (lambda: None)
        self._folder, self._fingerprint, self._together = folder, fingerprint, together
        self.compiled, self.parted = OwnCompiled(), Parted()
        self.late = LateAttributes()
        """What data were first given as they were read."""
        self.begun = BegunAnew()
        """How streams have begun that keep what they are told for that."""
        self._validated = FirstValidated(fingerprint)
        # Validation loaders that have given a batch: now, in the last validation, before the stop.
        self._giving, self._gave, self._had_given = set[int](), set[int](), set[int]()
        self._unlike: Callable[[], str | None] | None = None  # until the first batch comes
        self._is_in_epoch = False  # resumed there
        self._validations: ToldEpochs | None = None  # until data have been validated

    def made_anew(self) -> list[str]:
        """Name what data had made, and no checkpoint held that the training was resumed from."""
        return sorted({shown(called) for called in self.late.anew})

    def begins(self, trainer: pl.Trainer, *, is_of_training: bool) -> None:
        """Look at data before an iterator is made, of training data or of validation data."""
        self.late.begin(trainer)
        validated = tree_leaves(trainer.val_dataloaders)
        self.begun.begins(trainer, training_loaders(trainer) if is_of_training else validated)

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say why the workers, or code that the module compiles, could not go on as they would."""
        yield from self._together.hindrances(trainer)
        yield from self.compiled.hindrances(trainer)
        if (why := self.parted.changed()) is not None:
            yield why

    def waits(self, trainer: pl.Trainer, *, is_in_epoch: bool) -> bool:
        """Say whether a checkpoint cannot be written yet, and leave word of it."""
        waits = self.late.waits(trainer, is_in_epoch=is_in_epoch)
        why = agreed(self._together, waits or self.begun.waits(trainer))
        if why is not None:
            self._folder.note_refusal(f"none had been written before the stop: {why}")
        return why is not None

    def state(self, trainer: pl.Trainer) -> dict[str, Any]:
        """Return what a checkpoint keeps of them, and which objects it might part."""
        kept = {"worker": self._together.state(), "compiled_for": self.compiled.state()}
        beside = {**self.parted.state(trainer), "late": self.late.state()}
        begun = {"iterators": self.begun.state(), "giving": sorted(self._gave)}
        more = {**begun, "validated": self._validated.state()}
        return {**kept, "beside": {**beside, **more}}

    def load(self, state: Mapping[str, Any]) -> dict[str, BegunAnew]:
        """Take what a checkpoint holds, and return what is needed as it is put back."""
        self.compiled.began_with = state["compiled_for"]
        told = str(self._folder.expected).split(" ", 2)[2:]
        expected = json.loads(told[0]).get(_BEGUN, {}) if told else {}
        self.begun.resumed(state.get("iterators"), expected)  # older versions have none
        return {"begun": self.begun}

    def resumed(
        self, trainer: pl.Trainer, state: Mapping[str, Any], before: KeptBeside | None = None
    ) -> str | None:
        """Await what a resumed training is told, now that a checkpoint's state is put back.

        Args:
            trainer: of the training.
            state: of the checkpoint.
            before: in mid-epoch a look at what the training began with.

        Returns:
            What cannot be compared, though it has to be.
        """
        told = self._validations = ToldEpochs(trainer, state)
        self._had_given = {*state.get("giving", [])}  # older versions have none
        self._validated.resumed(state.get("validated"))
        self._is_in_epoch = before is not None
        self.parted.resumed(trainer, state)

        def unlike() -> str | None:
            # What is compared with that of the first process needs no such guess.
            other = None if self.is_told else told.unlike()
            other = other or self.late.unlike(trainer, is_at_first_batch=True)
            if other is not None or before is None:
                return other
            return before.not_as_it_was(trainer, state["attributes"], is_begun=True)

        self._unlike = unlike
        is_first = before is not None and trainer.current_epoch == 0
        late, is_compared = state.get("late", {}), self.is_awaited
        # In mid-epoch those of training were put back before it was read again.
        for is_of_training in (False,) if self._is_in_epoch else (True, False):
            other = self.late.put_back(trainer, late, is_of_training=is_of_training)
            if other is not None:
                return other
        plain = late.get("plain", {})  # older versions have none
        other = self.late.plain.put_back(trainer, plain, is_replayed=self._is_in_epoch)
        if other is not None:
            return other
        return self.late.resumed(trainer, late, is_first_epoch=is_first, is_compared=is_compared)

    @property
    def is_awaited(self) -> bool:
        """Whether a batch is still to be compared."""
        return self._fingerprint is not None and self._folder.expected is not None

    @property
    def is_told(self) -> bool:
        """Whether what data had been told by then is compared with it."""
        return self.is_awaited and len(str(self._folder.expected).split(" ", 2)) > 2

    def comes(self, trainer: pl.Trainer, batch: object) -> str | None:
        """Remember a batch, or compare it; return why it is not the one that was remembered."""
        if (other := self._trained_otherwise()) is not None:
            return other
        begun = self._has_begun(trainer)
        self.late.first_read(trainer)
        if (asked := self._unlike) is not None:
            self._unlike = None
            if (unlike := agreed(self._together, asked())) is not None:
                return unlike
        expected, self._folder.expected = self._folder.expected, None
        if (unlike := self.compiled.unlike(batch)) is not None:
            return unlike  # of one worker alone: several have no such checkpoint
        if self._fingerprint is None or not (self._folder.waits or expected is not None):
            return None
        seen, _ = self.late.look(trainer)
        more = more_than(self.late.known, seen) if self._folder.waits else seen
        said = {**told_and_said(trainer), _LATE: more, _BEGUN: begun}
        random, told = rng_states_in_a_word(), json.dumps(said)
        found = f"{self._fingerprint(batch):016x} {random} {told}"
        if self._folder.waits:
            other = agreed(self._together, first_other(self.late.known, seen))
            if other is not None:
                # A resumed training would end here, as it comes to the same.
                self._folder.note_refusal(f"{other.partition(' ')[2]} {_CHANGED}")
                self._folder.forget()
                found = ""
            self._folder.note_batch(found or None)
            return None
        return agreed(self._together, self._other_than(trainer, str(expected), found))

    def _has_begun(self, trainer: pl.Trainer) -> dict[str, str]:
        """Look at what data say with the first batch of an epoch; nothing with the others."""
        loop, begun = trainer.fit_loop, dict[str, str]()
        if loop.epoch_loop.batch_progress.current.ready == 1:
            begun = self.begun.comes(trainer, training_loaders(trainer), loop._data_fetcher)
        if self._unlike is not None:  # it is the first one behind a resume
            self.begun.let_go(trainer, training_loaders(trainer))
        return begun

    def validation_begins(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what data say with the first mini-batch of a validation; a hook of Lightning."""
        self._giving.add(dataloader_idx)
        self._validated.comes(dataloader_idx, batch, batch_idx)
        if batch_idx == 0:
            loaders = tree_leaves(trainer.val_dataloaders)[dataloader_idx : dataloader_idx + 1]
            self.begun.comes(trainer, loaders, trainer.fit_loop.epoch_loop.val_loop._data_fetcher)
            self.begun.let_go(trainer, loaders)

    def validated(self, trainer: pl.Trainer) -> str | None:
        """Return why the first validation behind a checkpoint was none of the same data."""
        told, self._validations = self._validations, None
        self._gave, self._giving, had_given = self._giving, set(), self._had_given
        self._had_given = set()
        self.late.has_passed(trainer, is_of_training=False)
        loaders = tree_leaves(trainer.val_dataloaders)
        other = self._validated.ends(loaders, is_whole=not trainer.sanity_checking)
        if told is None:
            return None
        none = f"{ELSEWHERE}: no mini-batch of validation data came after the stop"
        is_without = bool(had_given - self._gave)
        return agreed(
            self._together,
            none
            if is_without
            else other or told.unlike_in_validation() or self.late.unlike(trainer),
        )

    def changed(self, trainer: pl.Trainer) -> str | None:
        """Return what has changed, or was made otherwise, where nobody compares it any more."""
        return self.parted.changed() or self.late.unlike(trainer)

    def came_not(self, trainer: pl.Trainer) -> str | None:
        """Return why an epoch should not have ended, if a batch was to come before that."""
        self._folder.note_batch(None)
        self.late.has_passed(trainer, is_of_training=True)
        if self._folder.expected is None:
            return self._trained_otherwise() or self.changed(trainer)
        return f"{ELSEWHERE}: no batch came after the stop{cure_of_stream(trainer)}"

    def _other_than(self, trainer: pl.Trainer, expected: str, found: str) -> str | None:
        # One of an older version knows nothing of what was told.
        (batch, random, *told), (first, drawn, now) = (
            each.split(" ", 2) for each in (expected, found)
        )
        if first != batch:
            cure = cure_of_stream(trainer)
            return f"{ELSEWHERE}: the first batch after the stop is another one{cure}"
        if drawn != random:
            return f"{ELSEWHERE}: other random numbers had been drawn for its first batch"
        known, seen = json.loads(told[0] if told else now), json.loads(now)
        wanted, made = known.pop(_LATE, {}), seen.pop(_LATE, {})
        known.pop(_BEGUN, None), seen.pop(_BEGUN, None)  # of what `told_and_said` has
        if (name := first_other(wanted, made) or lacks(made, wanted)) is not None:
            return (
                f"{ELSEWHERE}: {name.partition(' ')[2]} is another one at the first batch after "
                f"the stop, as data make it where they are first read"
            )
        for name in sorted({*known, *seen}):
            # In mid-epoch they have been asked where they are.
            is_left = self._is_in_epoch and STATE in name
            if not is_left and known.get(name) != seen.get(name):
                cure = f" ({SETS_ALL})" if STATE in name else ""
                return (
                    f"{ELSEWHERE}: {name.partition(' ')[2]} is another one at the first batch "
                    f"after the stop{cure}"
                )
        return None

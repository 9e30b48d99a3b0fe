"""Attributes that data are first given as they are read: a cache, or state.

A resumed training has that put back (see `late_held`), or makes it anew. It has to be what it was:
a cache is, a count that moves is not. So what has come where nothing was (None or an empty
container) stays what it is from the first look on, and a resumed training has to have the same.

Proven is what has stayed the same through a whole pass over its data. What is not has to be there
again at the first batch behind the checkpoint, or where the first epoch has been read again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.late_begun import LateData
from twinrun.checkpoint.late_compared import first_other, lacks, more_than, with_more
from twinrun.checkpoint.late_content import Content, UnseenError, content_of_late
from twinrun.checkpoint.late_held import LateHeld, Pieces, held_in
from twinrun.checkpoint.late_plain import LatePlain
from twinrun.checkpoint.late_spots import NewSpots
from twinrun.checkpoint.plain_values import shown
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_code import is_users
from twinrun.checkpoint.validated_batches import ValidatedBatches

_WHY = "changes while the training runs, and no checkpoint holds it"
_ANEW = "and a resumed training would make it anew"
_SAY = "its data's `state_dict` and `load_state_dict` may hold it"
_LETS_GO = "lets go of what it has kept, as a cache of a few rows does, and no checkpoint holds it"
_KEEPS = "it may keep all or nothing"
_KILLED = "was made as data were read, and the process was killed before the first batch behind"
_UNLIKE = "is another one than before the stop: no checkpoint holds it"
_WAITS = "is first set as data are read: a checkpoint waits until it has stayed the same in"
_MOVED = "has changed since the epoch began: a checkpoint waits for its end"
_PASSES = 2  # which show that
_BATCHES = 3  # of the first epoch, at which what comes late is looked at before a checkpoint


class LateAttributes:
    """What data had before they were first read, and what came later."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._data = LateData()
        self._held = LateHeld(self._data)
        self.plain = LatePlain(self._data)  # what was there before
        self.anew = set[str]()
        """What the checkpoints did not hold that the training was resumed from."""
        self._pieces: Pieces = {}  # of the checkpoint that is being written
        self._gone, self._aliased = set[str](), set[str]()  # the latter another one holds too
        self.known: dict[str, Content] = {}
        """What has been seen of each."""
        self._last: dict[str, Content] = {}  # look
        # Whether a look, and the last of these, has seen all of it.
        self._are_all, self._were_all = dict[str, bool](), dict[str, bool]()
        self._moved: str | None = None
        # Whole passes over training data, and validations; in which of them each was first seen.
        self._passes = {True: 0, False: 0}
        self._since, self._batches, self._looked = dict[str, int](), 0, dict[str, int]()
        self._trained = 0  # parts of the training loaders, which come first
        self._proven, self._grown = set[str](), set[str]()  # the latter entry by entry
        self._validated = ValidatedBatches()
        # Of the checkpoint that is resumed, and of these at the first batch.
        self._restored, self._awaited = dict[str, Content](), dict[str, Content]()

    def begin(self, trainer: pl.Trainer) -> None:
        """Look at data that are about to be read, if they are new."""
        for called in self._data.begin(trainer):
            for seen in (self.known, self._since, self._restored, self._awaited, self._last):
                seen.pop(called, None)
            self._proven.discard(called)
            self._gone.discard(called)

    def left(self, trainer: pl.Trainer) -> set[tuple[int, str]]:
        """Name what is looked at here alone, by the identity of its owner."""
        return self._data.left(trainer) | self.plain.left(trainer)

    def look(self, trainer: pl.Trainer) -> tuple[dict[str, Content], list[str]]:
        """Write down what has come late, and say of what that cannot be done or trusted."""
        found, refused, self._are_all = dict[str, Content](), list[str](), {}
        self._trained = len(parts_of(training_loaders(trainer)))
        # Data that have only now been made are looked at by their own attributes, too.
        parts = {id(part): part for part in parts_of(loaders_of(trainer))}
        new = NewSpots({**self._data.owners, **parts})
        self._aliased = set()
        for called, each, before in self._data.late(trainer):
            name = shown(called)
            self._aliased |= {called} if id(each.value) in new else set()
            try:
                known = self.known.get(called, {})
                looked = content_of_late(each.value, new, before, known)
                content, spots, self._are_all[called] = looked
            except UnseenError as error:
                refused.append(f"{name} is first set as data are read, and {error}")
                continue
            except Exception as error:  # of whatever class
                why = f"cannot be looked at ({type(error).__name__})"
                refused.append(f"{name} {why}, and it may change while the training runs")
                continue
            if content == {}:
                continue
            is_first = before.is_nothing and called not in self.known
            others = [] if is_first else [p for key, p in spots.items() if key not in known]
            is_seen = not before.is_nothing or bool(each.fills)
            if content and not (is_seen and all(map(each.is_filled_at, others))):
                refused.append(f"{name} {_WHY}{each.cure()}")
            found[called] = content
        return found, refused

    def _note(self, trainer: pl.Trainer, *, is_at_end_of: bool | None = None) -> list[str]:
        """Look, and remember it; return what cannot be looked at or trusted.

        Args:
            trainer: of the training.
            is_at_end_of: where a pass has just ended: whether over training data.
        """
        were_all = self._were_all
        found, refused = self.look(trainer)
        if (other := first_other(self.known, found)) is not None:
            self._moved = f"{shown(other)} {_WHY}, {_ANEW} ({_SAY})"
        elif (other := self._let_go(found, were_all)) is not None:
            self._moved = f"{shown(other)} {_LETS_GO} ({_KEEPS}, or {_SAY})"
        gone = self._last.keys() - found.keys() - self._aliased
        self._gone |= {key for key in gone if self._last[key] and self._data.has_owner(key)}
        grown = self.known.keys() & more_than(self.known, found).keys()
        self._grown |= grown
        self.known, self._last = with_more(self.known, found), found
        self._were_all = self._are_all
        for key in found:
            kind = self._is_of_training(key)
            is_new = key not in self._since or key in grown
            # What comes of a first reading must not be another than what is read later.
            if is_new or (is_at_end_of is False and not kind and not self._validated.are_same):
                self._since[key] = self._passes[kind] + (kind is not is_at_end_of)
            if self._passes[kind] > self._since[key] and self._moved is None:
                self._proven.add(key)
        return refused

    def _let_go(self, found: Mapping[str, Content], were_all: Mapping[str, bool]) -> str | None:
        """Name what has less than at the last look, of which all was seen as now."""
        both = [key for key in found if were_all.get(key) and self._are_all.get(key)]
        return lacks(found, {key: self._last[key] for key in both if key in self._last})

    def _is_of_training(self, key: str) -> bool:
        return int(key.partition(" ")[0]) <= self._trained

    def first_read(self, trainer: pl.Trainer) -> None:
        """Look where the first training batches of all have come, and later ever more seldom."""
        self._batches += 1
        is_seldom = self._batches & (self._batches - 1) == 0
        if not self._passes[True] and (self._batches <= _BATCHES or is_seldom):
            self._note(trainer)
            for key in self._last:
                self._looked[key] = self._looked.get(key, 0) + 1

    def watch(
        self, trainer: pl.Trainer, fetcher: Any, fingerprint: Callable[[object], int]
    ) -> None:
        """Look at what is validated from now on, while it may be unproven.

        Args:
            trainer: of the training.
            fetcher: of validation batches, which has begun.
            fingerprint: of a batch.
        """
        parts = parts_of(tree_leaves(trainer.val_dataloaders))
        is_own = any(is_users(type(part).__module__) for part in parts)
        is_open = self._passes[False] <= _PASSES or self.known.keys() - self._proven
        if is_own and is_open and getattr(fetcher, "iterator", None) is not None:
            self._validated.watch(fetcher, fingerprint)

    def has_passed(self, trainer: pl.Trainer, *, is_of_training: bool) -> None:
        """Look where all training data have been read, or validated, until all is proven."""
        self._passes[is_of_training] += 1
        if self._passes[is_of_training] <= _PASSES or self.known.keys() - self._proven:
            self._note(trainer, is_at_end_of=is_of_training)

    def changed(self, trainer: pl.Trainer) -> list[str]:
        """Say what stands against a checkpoint; what is seen now has to stay what it is."""
        refused = self._note(trainer)
        return [*refused, *filter(None, [self._moved]), *self.plain.gone(trainer)]

    def epoch_begins(self, trainer: pl.Trainer) -> None:
        """Note what there is as an epoch begins in which a checkpoint may be due."""
        self._held.begins(trainer, {*self.known, *self._aliased})
        self.plain.begins(trainer)

    def waits(self, trainer: pl.Trainer, *, is_in_epoch: bool) -> str | None:
        """Say why a checkpoint is not written yet: of what nobody could tell that it is the same.

        Args:
            trainer: of the training.
            is_in_epoch: whether it lies in mid-epoch; in the first epoch all is read again.
        """
        if is_in_epoch and (moved := self._held.moved(trainer)) is not None:
            return f"{shown(moved)} {_MOVED}"
        self._pieces = self._held.pieces(trainer, self._last, is_in_epoch=is_in_epoch)
        held = held_in(self._pieces)
        if why := self._waits(held, is_first_epoch=is_in_epoch and trainer.current_epoch == 0):
            return why
        # What was not there as the epoch began comes again where it is read again.
        anew = {k for k in self._gone if is_in_epoch and self._is_of_training(k)}
        gone = self._gone & self._last.keys() - held - (anew - self._held.begun.keys())
        why = next((f"{shown(key)} {_WHY} ({_SAY})" for key in sorted(gone)), None)
        return why or self.plain.hold(trainer, held, is_in_epoch=is_in_epoch)

    def _waits(self, held: Iterable[str], *, is_first_epoch: bool) -> str | None:
        certain = {*self._proven, *held}  # what is put back is the same
        open_ = {key for key, content in self._last.items() if content and key not in certain}
        names = [key.rpartition(".")[2] for key in open_ if self._is_of_training(key)]
        for key in sorted(open_):
            if is_first_epoch and self._looked.get(key, 0) < _BATCHES and not self._passes[True]:
                self._batches = 0  # look at the next ones
                return f"{shown(key)} {_WAITS} {_BATCHES} mini-batches"
            is_of_training, name = self._is_of_training(key), key.rpartition(".")[2]
            # The first batch behind a checkpoint need not make all of these again.
            is_part = key in self._grown or names.count(name) > 1
            is_read_again = is_first_epoch and not self._passes[False]
            if not is_of_training or (is_part and not is_read_again):
                what = "epoch" if is_of_training else "validation more, of the same mini-batches"
                return f"{shown(key)} {_WAITS} a whole {what}"
        return None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        pieces, self._pieces = self._pieces, {}
        kept = {"held": pieces, "plain": self.plain.state(), "proven": sorted(self._proven)}
        return {"seen": self._last, "anew": sorted(self.anew | self._held.anew), **kept}

    def put_back(
        self, trainer: pl.Trainer, saved: Mapping[str, Any], *, is_of_training: bool
    ) -> str | None:
        """Put back what a checkpoint holds of it; say what could not be.

        Args:
            trainer: of the training.
            saved: what `state` returned before the stop.
            is_of_training: of which data.
        """
        self.begin(trainer)
        held = saved.get("held", {})  # older versions have none
        return self._held.put_back(trainer, held, is_of_training=is_of_training)

    def resumed(
        self,
        trainer: pl.Trainer,
        saved: Mapping[str, Any],
        *,
        is_first_epoch: bool,
        is_compared: bool,
    ) -> str | None:
        """Await what a checkpoint tells of; say what is another one, or cannot be compared.

        Args:
            trainer: of the training.
            saved: what `state` returned before the stop.
            is_first_epoch: whether the first epoch has been read again up to there.
            is_compared: whether the first batch behind the checkpoint is compared.
        """
        self.anew |= {*saved.get("anew", ())}  # older versions have none, and see none
        seen = saved.get("seen", {})
        self._restored = {key: content for key, content in seen.items() if content}
        self._proven |= {*saved.get("proven", ())}
        self.known = {**self._restored}
        found, _ = self.look(trainer)
        self.known = with_more(self._restored, found)
        certain = self._proven | held_in(saved.get("held", {}))  # what was put back is the same
        unproven = {k: content for k, content in self._restored.items() if k not in certain}
        self._awaited = {} if is_first_epoch else unproven
        other = first_other(self._restored, found) or (
            lacks(found, unproven) if is_first_epoch else None
        )
        if other is not None:
            return f"{shown(other)} {_UNLIKE}"
        # What is made only now may also draw random numbers.
        if (other := lacks(found, self._restored)) is not None and not is_compared:
            what = "the checkpoint, which shows whether it is made anew as it was"
            return f"{shown(other)} {_KILLED} {what}"
        return None

    def unlike(self, trainer: pl.Trainer, *, is_at_first_batch: bool = False) -> str | None:
        """Name what a resumed training has made otherwise than it was before the stop."""
        if not self._restored:
            return None
        found, _ = self.look(trainer)
        other = first_other(self._restored, found)
        if is_at_first_batch:
            other = other or lacks(found, self._awaited)
        if other is not None:
            return f"{shown(other)} {_UNLIKE}"
        if lacks(found, self._restored) is None:  # all is there again: `known` holds it
            self._restored = {}
        return None

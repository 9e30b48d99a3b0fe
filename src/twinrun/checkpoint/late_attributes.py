"""Attributes that data are first given as they are read: a cache, or state.

A dataset may load its rows where it is first asked for one, and keep there what it has read. A
resumed training makes that anew. It has to be what it was: a cache is, a count or a mean that moves
is not. So what has come into the place of nothing (of None, of an empty container, of a list of
None) has to stay what it is from the first look on, is written into checkpoints, and is compared
with what the resumed training has made.

Proven is what has stayed the same through a whole pass over its data. What is not has to be there
again at the first batch behind the checkpoint, or where the first epoch has been read again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.late_compared import first_other, lacks, more_than, with_more
from twinrun.checkpoint.late_content import (
    Content,
    UnseenError,
    blank_depth,
    content_of_late,
    is_blank,
)
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_attributes import UsersAttribute, users_attributes
from twinrun.checkpoint.users_code import is_computed_once, is_users
from twinrun.checkpoint.validated_batches import ValidatedBatches

_WHY = "changes while the training runs, and no checkpoint holds it"
_ANEW = "and a resumed training would make it anew"
_UNSET = "it is filled under way, and not seen to be by `self.x = ...` or `self.x[...] = ...`"
_CURE = "where data are read: do so there, or fill it in `__init__`"
_KILLED = "was made as data were read, and the process was killed before the first batch behind"
_UNLIKE = "is another one than before the stop: no checkpoint holds it"
_WAITS = "is first set as data are read: a checkpoint waits until it has stayed the same in a whole"
_PASSES = 2  # which show that


class LateAttributes:
    """What data had before they were first read, and what came later."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._owners: dict[int, object] = {}  # kept, so that no others get their numbers
        self._there: set[tuple[int, str]] = set()
        self._of_none: dict[tuple[int, str], int] = {}  # containers, inside each other
        self._held_by: dict[str, int] = {}  # and who has them
        self.known: dict[str, Content] = {}
        """What has been seen of each."""
        self._last: dict[str, Content] = {}  # look
        self._moved: str | None = None
        # Whole passes over training data, and validations; in which of them each was first seen.
        self._passes = {True: 0, False: 0}
        self._since: dict[str, int] = {}
        self._trained = 0  # parts of the training loaders, which come first
        self._proven: set[str] = set()
        self._grown: set[str] = set()  # filled entry by entry
        self._validated = ValidatedBatches()
        self._restored: dict[str, Content] = {}  # of the checkpoint that is resumed
        self._awaited: dict[str, Content] = {}  # of these at the first batch

    def begin(self, trainer: pl.Trainer) -> None:
        """Look at data that are about to be read, if they are new."""
        loaders = loaders_of(trainer)
        parts = [vars(trainer).get("datamodule"), *parts_of(loaders)]
        if all(part is None or id(part) in self._owners for part in parts):
            return
        known, late = self._owners, tuple[str, ...]()
        # Those of an epoch whose loaders are made anew are let go.
        self._owners = {id(part): part for part in parts if part is not None}
        for called, each in users_attributes(trainer, loaders):
            key = id(each.owner), each.name
            if called.startswith(late):
                continue
            if key[0] in known and key not in self._there:
                late += () if is_blank(each.value) else (f"{called}.", f"{called}[")
            self._owners[key[0]] = each.owner
            if self._held_by.setdefault(called, key[0]) != key[0]:
                self._held_by[called] = key[0]
                for seen in (self.known, self._since, self._restored, self._awaited):
                    seen.pop(called, None)
                self._proven.discard(called)
            if key[0] not in known:
                self._has(key, each.value)

    def _has(self, key: tuple[int, str], value: Any) -> None:
        self._there.discard(key)
        self._of_none.pop(key, None)
        if (depth := blank_depth(value)) is None:
            self._there.add(key)
        elif depth:
            self._of_none[key] = depth

    def _late(self, trainer: pl.Trainer) -> Iterator[tuple[str, UsersAttribute]]:
        loaders = loaders_of(trainer)
        # A dataset that a data module keeps, where its loader is made, is looked at as what it is.
        parts = {id(part) for part in parts_of(loaders)}
        for called, each in users_attributes(trainer, loaders):
            key = id(each.owner), each.name
            is_late = key[0] in self._owners and key not in self._there and not is_blank(each.value)
            if is_late and id(each.value) not in parts:
                yield called, each

    def left(self, trainer: pl.Trainer) -> set[tuple[int, str]]:
        """Name what is looked at here alone, by the identity of its owner."""
        return {
            (id(each.owner), each.name)
            for _, each in self._late(trainer)
            if not is_computed_once(each.owner, each.name)
        }

    def look(self, trainer: pl.Trainer) -> tuple[dict[str, Content], list[str]]:
        """Write down what has come late, and say of what that cannot be done or trusted."""
        found: dict[str, Content] = {}
        refused = []
        self._trained = len(parts_of(training_loaders(trainer)))
        # Data that have only now been made are looked at by their own attributes, too.
        owners = {**self._owners, **{id(part): part for part in parts_of(loaders_of(trainer))}}
        for called, each in self._late(trainer):
            name = _called(called)
            try:
                depth = self._of_none.get((id(each.owner), each.name), 0)
                content = content_of_late(each.value, owners, depth=depth)
            except UnseenError as error:
                refused.append(f"{name} is first set as data are read, and {error}")
                continue
            except Exception as error:  # of whatever class
                why = f"cannot be looked at ({type(error).__name__})"
                refused.append(f"{name} {why}, and it may change while the training runs")
                continue
            if content and not each.is_filled:
                unset = _UNSET.replace("self.x", f"self.{each.name}")
                refused.append(f"{name} {_WHY} ({unset} {_CURE})")
            found[called] = content
        return found, refused

    def _note(self, trainer: pl.Trainer, *, is_at_end_of: bool | None = None) -> list[str]:
        """Look, and remember it; return what cannot be looked at or trusted.

        Args:
            trainer: of the training.
            is_at_end_of: where a pass has just ended: whether over training data.
        """
        found, refused = self.look(trainer)
        if (other := first_other(self.known, found)) is not None:
            self._moved = f"{_called(other)} {_WHY}, {_ANEW}"
        grown = self.known.keys() & more_than(self.known, found).keys()
        self._grown |= grown
        self.known, self._last = with_more(self.known, found), found
        for key in found:
            kind = self._is_of_training(key)
            is_new = key not in self._since or key in grown
            # What comes of a first reading must not be another than what is read later.
            if is_new or (is_at_end_of is False and not kind and not self._validated.are_same):
                self._since[key] = self._passes[kind] + (kind is not is_at_end_of)
            if self._passes[kind] > self._since[key] and self._moved is None:
                self._proven.add(key)
        return refused

    def _is_of_training(self, key: str) -> bool:
        return int(key.partition(" ")[0]) <= self._trained

    def first_read(self, trainer: pl.Trainer) -> None:
        """Look where the first training batch has come."""
        if not self._last and not self._passes[True]:
            self._note(trainer)

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
        return [*refused, *([self._moved] if self._moved is not None else [])]

    def waits(self, *, is_first_epoch: bool) -> str | None:
        """Say why a checkpoint is not written yet: of what nobody could tell that it is the same.

        Args:
            is_first_epoch: whether it lies in the first epoch, which is read again.
        """
        open_ = {k for k, content in self._last.items() if content and k not in self._proven}
        names = [key.rpartition(".")[2] for key in open_]
        for key in sorted(open_):
            is_of_training, name = self._is_of_training(key), key.rpartition(".")[2]
            # The first batch behind a checkpoint need not make all of these again.
            is_part = key in self._grown or names.count(name) > 1
            is_read_again = is_first_epoch and not self._passes[False]
            if not is_of_training or (is_part and not is_read_again):
                what = "epoch" if is_of_training else "validation more, of the same mini-batches"
                return f"{_called(key)} {_WAITS} {what}"
        return None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return {"seen": self._last, "proven": sorted(self._proven)}

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
        seen = saved.get("seen", {})  # older versions have none
        self._restored = {key: content for key, content in seen.items() if content}
        self._proven |= {*saved.get("proven", ())}
        found, _ = self.look(trainer)
        self.known = with_more(self._restored, found)
        unproven = {k: content for k, content in self._restored.items() if k not in self._proven}
        self._awaited = {} if is_first_epoch else unproven
        other = first_other(self._restored, found) or (
            lacks(found, unproven) if is_first_epoch else None
        )
        if other is not None:
            return f"{_called(other)} {_UNLIKE}"
        # What is made only now may also draw random numbers.
        if (other := lacks(found, self._restored)) is not None and not is_compared:
            what = "the checkpoint, which shows whether it is made anew as it was"
            return f"{_called(other)} {_KILLED} {what}"
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
            return f"{_called(other)} {_UNLIKE}"
        if lacks(found, self._restored) is None:  # all is there again: `known` holds it
            self._restored = {}
        return None


def _called(key: str) -> str:
    return key.partition(" ")[2]

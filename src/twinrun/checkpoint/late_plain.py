"""Plain values of data that were there before these were read, and that reading turns.

A flag that is set once, a number of columns, a count: a checkpoint holds what has changed, as it is
and as it was where the epoch began, and a resumed training puts it back before data are read on.
Beside what no checkpoint can hold none is put back: a flag may stand for it.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.held_arrays import UnheldError
from twinrun.checkpoint.late_begun import LateData
from twinrun.checkpoint.late_handles import handle_in
from twinrun.checkpoint.late_parts import new_parts
from twinrun.checkpoint.late_put import owners_and_values
from twinrun.checkpoint.late_spots import Before
from twinrun.checkpoint.plain_values import (
    PlainValue,
    bytes_of,
    is_like,
    is_same,
    made,
    put_value,
    shown,
    turn_of,
)
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.set_uses import may_show_order
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_attributes import UsersAttribute, users_attributes
from twinrun.checkpoint.users_code import attributes_seen

_WHY = "changes while the training runs, and no checkpoint holds it"
_BESIDE = "changes while the training runs, and is not put back beside"
_LATE = "that no checkpoint holds"
_CURE = "where code asks whether that is None, and keeps no flag of it, both are made anew"
_SAY = "its data's `state_dict` and `load_state_dict` may hold it"
_UNLIKE = "is not what it was before the stop, now that its epoch has been read again"


class LatePlain:
    """Holds them, and puts them back."""

    def __init__(self, data: LateData) -> None:
        """Know nothing yet.

        Args:
            data: that are looked at.
        """
        self._data = data
        self._start: dict[str, object] = {}
        """What had changed as the epoch began."""
        # By the first batch of the first epoch, whose iterator is made before any hook.
        self._first: dict[str, object] | None = None
        self._there = set[str]()  # then of what was made late
        self._watched: list[PlainValue] = []  # while an epoch runs
        self._kept: dict[str, Any] = {}  # in a checkpoint that is being written

    def left(self, trainer: pl.Trainer) -> set[tuple[int, str]]:
        """Name what is looked at here alone, by the identity of its owner."""
        return {each.key for each in self._now(trainer)}

    def _now(self, trainer: pl.Trainer) -> Iterator[PlainValue]:
        """Yield what was plain before data were read, and is."""
        for called, each in self._every(trainer):
            key = id(each.owner), each.name
            was = self._data.plain.get(key)
            if was is None or not is_like(each.value, was):
                continue
            if not isinstance(was, frozenset) or not may_show_order(each.name):
                yield PlainValue(called, each.owner, each.name, each.value, was)

    def _every(self, trainer: pl.Trainer) -> Iterator[tuple[str, UsersAttribute]]:
        # Loaders that are made anew for an epoch may be made from it.
        if not vars(trainer).get("reload_dataloaders_every_n_epochs"):
            for called, each in users_attributes(trainer, loaders_of(trainer)):
                if turn_of(called):  # a data module makes loaders from its own
                    yield called, each

    def _changed(self, trainer: pl.Trainer) -> dict[str, object]:
        return {
            each.called: each.kept
            for each in self._now(trainer)
            if each.is_changed and each.key not in self._data.unread
        }

    def look(self) -> dict[str, str]:
        """Write down those of training data, to see whether fetches or others move them."""
        return {each.called: each.few() for each in self._watched}

    def note_first(self, trainer: pl.Trainer) -> None:
        """Note what has changed by the first batch of an epoch, whose iterator was made before."""
        self._first = self._changed(trainer)

    def _watch(self, trainer: pl.Trainer) -> None:
        trained, unread = count_of_trained(trainer), self._data.unread
        now = [each for each in self._now(trainer) if each.key not in unread]
        self._watched = [each for each in now if turn_of(each.called) <= trained]

    def gone(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say which are no plain values any more, or are not there."""
        owners, known = dict[int, tuple[object, str]](), self._data.plain
        for called, each in self._every(trainer):
            key = id(each.owner), each.name
            owners[key[0]] = each.owner, shown(called).rpartition(".")[0]
            if (
                key in known
                and key not in self._data.unread
                and not is_like(each.value, known[key])
            ):
                yield f"{shown(called)} has changed to what is no plain value ({_SAY})"
        for key in known.keys() - self._data.unread:
            owner, path = owners.get(key[0], (None, ""))
            if owner is not None and key[1] not in attributes_seen(owner):
                yield f"{path}.{key[1]} is there before data are read, and is not any more ({_SAY})"

    def begins(self, trainer: pl.Trainer) -> None:
        """Note what has changed as an epoch begins."""
        self._there = {called for called, *_ in self._data.late(trainer)}
        self._start, self._first = self._changed(trainer) if self._data.plain else {}, None
        self._watch(trainer)

    def hold(self, trainer: pl.Trainer, kept: Container[str], *, is_in_epoch: bool) -> str | None:
        """Hold what has changed; say why that cannot be.

        Args:
            trainer: of the training.
            kept: attributes of which the checkpoint holds what has come late.
            is_in_epoch: whether it is in mid-epoch; what was not there as the epoch began is made
                again there.
        """
        now, start = self._changed(trainer), self._start if is_in_epoch else {}
        begun = self._first or {} if is_in_epoch else {}
        self._kept = {}
        if not now and not start and not begun:
            return None
        trained = count_of_trained(trainer)
        late = [*self._data.late(trainer)]
        unheld = [each[0] for each in late if each[0] not in kept and self._has_come(each)]
        before_it = [each for each in unheld if each in self._there or turn_of(each) > trained]
        first = next(iter({**start, **begun, **now}))
        is_replayed = is_in_epoch and not any(turn_of(called) > trained for called in now)
        if (start or begun or not is_replayed) and (found := before_it if is_in_epoch else unheld):
            beside = f"{shown(found[0])}, {_LATE}"
            return f"{shown(first)} {_BESIDE} {beside} ({_CURE}, or {_SAY})"
        if (handle := self._handle(trainer, {called for called, *_ in late})) is not None:
            return f"{shown(first)} {_BESIDE} {handle}, whose place no checkpoint holds ({_SAY})"
        try:
            self._kept = {
                "now": bytes_of(now),
                "start": bytes_of(_up_to(trained, start)),
                "first": bytes_of(_up_to(trained, begun)),
                "has_first": is_in_epoch and self._first is not None,
                "there": sorted(self._there),
                # What cannot be held may stand behind what is replayed.
                "is_set": not unheld,
            }
        except UnheldError as error:
            return f"{shown(first)} {_WHY}: {error} ({_SAY})"
        return None

    def _has_come(self, late: tuple[str, UsersAttribute, Before]) -> bool:
        """Say whether something has come into an attribute, or may have."""
        _, each, before = late
        try:
            return new_parts(each.value, before, self._data.owners) != []
        except Exception:  # of whatever class: a key of a user's raises
            return True

    def _handle(self, trainer: pl.Trainer, late: Container[str]) -> str | None:
        """Name what is there from the first on, and may have a place that nobody sees."""
        for called, each in users_attributes(trainer, loaders_of(trainer)):
            if called not in late and (kind := handle_in(each.value)) is not None:
                return f"{shown(called)} ({kind})"
        return None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of them."""
        kept, self._kept = self._kept, {}
        return kept

    def begin_again(self, trainer: pl.Trainer, saved: Mapping[str, Any]) -> str | None:
        """Put back those of training data as they were where they are read from: say what is not.

        Args:
            trainer: of the training.
            saved: what `state` returned, of a checkpoint in mid-epoch.
        """
        self._start = made(saved.get("start"))
        self._first = made(saved.get("first")) if saved.get("has_first") else None
        self._there = {*saved.get("there", ())}
        return self._put(trainer, self._start, count_of_trained(trainer))

    def go_on(self, trainer: pl.Trainer) -> str | None:
        """Put back what hooks had moved by the first batch, now that the iterator is made."""
        why = None
        if self._first is not None:
            why = self._put(trainer, self._first, count_of_trained(trainer))
        self._watch(trainer)
        return why

    def begin(self, trainer: pl.Trainer, saved: Mapping[str, Any]) -> str | None:
        """Put back those of training data before validation loaders may be made of them."""
        return self._put(trainer, made(saved.get("now")), count_of_trained(trainer))

    def put_back(
        self, trainer: pl.Trainer, saved: Mapping[str, Any], *, is_replayed: bool
    ) -> str | None:
        """Put all back as they were at the checkpoint; say what is not as it was.

        Args:
            trainer: of the training.
            saved: what `state` returned.
            is_replayed: whether the epoch has been read again up to there.
        """
        if is_replayed and (other := self._unlike(trainer, saved)) is not None:
            return other
        return self._put(trainer, made(saved.get("now")), None)

    def _unlike(self, trainer: pl.Trainer, saved: Mapping[str, Any]) -> str | None:
        """Name what a replay has made otherwise, where it may not be put back."""
        if saved.get("is_set", True):
            return None
        now, wanted = self._changed(trainer), made(saved.get("now"))
        for called in sorted({*now, *wanted}):
            is_both = called in now and called in wanted
            is_same_now = is_both and is_same(now[called], wanted[called])
            if turn_of(called) <= count_of_trained(trainer) and not is_same_now:
                return f"{shown(called)} {_UNLIKE}"
        return None

    def _put(
        self, trainer: pl.Trainer, wanted: Mapping[str, object], most: int | None
    ) -> str | None:
        for _ in self._data.late(trainer):
            pass  # what is unread is known behind that
        there = {each.called: each for each in self._now(trainer)}
        for called in sorted(wanted):
            if called not in there and (most is None or turn_of(called) <= most):
                return f"{shown(called)} could not be put back"
        owners, _ = owners_and_values(trainer)
        for called, each in there.items():
            value = wanted.get(called, each.first)
            # An iterator that is under way has set what nobody reads unset.
            is_put = called in wanted or each.key not in self._data.unread
            is_put &= most is None or turn_of(called) <= most
            if is_put and not is_same(each.kept, value):
                try:
                    put_value(owners, each, value)
                except Exception as error:  # of whatever class: a user's object does not take it
                    return f"{shown(called)} could not be put back ({type(error).__name__})"
        return None


def _up_to(most: int, values: Mapping[str, object]) -> dict[str, object]:
    return {called: value for called, value in values.items() if turn_of(called) <= most}


def count_of_trained(trainer: pl.Trainer) -> int:
    """Return how many parts training loaders have, which come first."""
    return len(parts_of(training_loaders(trainer)))

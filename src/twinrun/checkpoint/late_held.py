"""What data have made as they were read, held by a checkpoint and put back before they are read on.

Data may depend on whether it is there yet: a row that is skipped where it first comes, a bank that
others are mixed with, how much a cache holds. What no checkpoint can hold is made anew.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.held_content import Part, UnheldError, held, made_again
from twinrun.checkpoint.held_memory import NOTHING_KNOWN, Known, known_stretch
from twinrun.checkpoint.held_shared import Root, beside, is_shared
from twinrun.checkpoint.late_begun import LateData
from twinrun.checkpoint.late_content import is_data
from twinrun.checkpoint.late_orders import order_of
from twinrun.checkpoint.late_parts import new_parts
from twinrun.checkpoint.late_put import (
    ATTRIBUTE,
    OWNER,
    lies_at,
    named,
    owners_and_values,
    path_of,
    put,
)
from twinrun.checkpoint.late_spots import Before
from twinrun.checkpoint.late_texts import key_text
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import PLAIN, parts_of
from twinrun.checkpoint.users_attributes import UsersAttribute
from twinrun.containers import is_really, size_of

MOST_BYTES = 1 << 26  # that a checkpoint holds of training data, and of validation data
Pieces = dict[str, dict[str, Any]]
"""Of training and of validation data: bytes as a tensor, and what there is of each in a word."""
_Late = tuple[str, UsersAttribute, Before]
_Where = tuple[str, object, tuple[object, ...]]  # an attribute's name, its owner, keys from there
_OF_TRAINING, _OF_VALIDATION, _NOTHING = "training", "validation", "nothing"


class LateHeld:
    """Holds it, and puts it back."""

    def __init__(self, data: LateData) -> None:
        """Know nothing yet.

        Args:
            data: that are looked at.
        """
        self._data = data
        self.begun: dict[str, str] = {}
        """What there was as the epoch began, in a word each."""
        self._there = set[str]()
        """What there was of anything then."""
        self.anew = set[str]()
        """What there is that the last checkpoint does not hold."""
        self._known: Container[str] = ()
        self._nothing: dict[str, Any] = {}

    def begins(self, trainer: pl.Trainer, known: Iterable[str]) -> None:
        """Note what there is as an epoch begins.

        Args:
            trainer: of the training.
            known: what of it has been looked at.
        """
        late = [*self._data.late(trainer)]
        self.begun, self._known = self._orders(late), {*known}
        self._there = {called for called, *_ in late}
        self._nothing = self._nothing_now(trainer, late)

    def moved(self, trainer: pl.Trainer) -> str | None:
        """Name what of training data is not as it was as the epoch began, or may not be."""
        now = self._orders([*self._data.late(trainer)]) if self.begun else {}
        trained = _count_of_trained(trainer)
        for called, order in self.begun.items():
            is_same = now.get(called) == order and called in self._known
            if _turn(called) <= trained and not is_same:
                return called
        return None

    def pieces(self, trainer: pl.Trainer, seen: Container[str], *, is_in_epoch: bool) -> Pieces:
        """Hold what there is, in mid-epoch of training data what was there as the epoch began.

        All of it or nothing: one thing may stand for another one, as an index for its open file.

        Args:
            trainer: of the training.
            seen: to what something has come at the last look.
            is_in_epoch: whether it is in mid-epoch.
        """
        every = [*self._data.late(trainer)]
        nothing = self._nothing if is_in_epoch else self._nothing_now(trainer, every)
        trained = _count_of_trained(trainer)
        # What else has come by then, comes again where it is read again.
        late = [
            each
            for each in every
            if each[0] in seen or each[2].is_nothing
            if not is_in_epoch or _turn(each[0]) > trained or each[0] in self._there
        ]
        pieces, spots = self._all(trainer, late, every)
        kept = held_in(pieces)
        unheld = [each for each in late if each[0] not in kept]
        self.anew = {each[0] for each in unheld if _parts(each, self._data.owners) != []}
        del every, late, unheld  # but for the data nobody holds it now
        if is_shared(*self._groups(trainer, spots), data=beside(trainer, self._data.owners)):
            pieces, self.anew = {}, self.anew | kept
        return {**pieces, **({_NOTHING: nothing} if nothing else {})}

    def _all(
        self, trainer: pl.Trainer, late: Sequence[_Late], every: Sequence[_Late]
    ) -> tuple[Pieces, dict[str, list[_Where]]]:
        """Hold all of it, or nothing; return where it lies, too."""
        pieces, spots, made = Pieces(), dict[str, list[_Where]](), dict[int, str]()
        trained = _count_of_trained(trainer)
        for name in (_OF_TRAINING, _OF_VALIDATION):
            is_of_training = name == _OF_TRAINING
            own = [each for each in late if (_turn(each[0]) <= trained) is is_of_training]
            found = [_parts(each, self._data.owners) for each in own]
            if None in found:
                return {}, {}
            parts = [part for some in found for part in some or ()]
            if not parts:
                continue
            # In mid-epoch validation data may not be there where those of training are put back.
            known = self._known_besides(trainer, every, trained if is_of_training else None)
            try:
                raw = held(parts, known._replace(names={**known.names, **made}), MOST_BYTES)
            except UnheldError:
                return {}, {}
            values = {each[0]: each for each in own}
            names = dict.fromkeys(part.called for part in parts)
            pieces[name] = {
                "data": torch.frombuffer(bytearray(raw), dtype=torch.uint8),
                "orders": {called: self._order(values[called]) for called in names},
            }
            owners = {called: values[called][1].owner for called in names}
            spots[name] = [(part.called, owners[part.called], part.keys) for part in parts]
            whole = [part for part in parts if not part.keys]
            made |= {id(part.value): f"{ATTRIBUTE}{part.called}" for part in whole}
        return pieces, spots

    def _groups(
        self, trainer: pl.Trainer, spots: Mapping[str, Sequence[_Where]]
    ) -> Iterator[tuple[list[Root], Known]]:
        """Yield where it lies, and what is known without it, for `is_shared`."""
        for name, some in spots.items():
            most = _count_of_trained(trainer) if name == _OF_TRAINING else None
            known = self._known_besides(trainer, [*self._data.late(trainer)], most)
            yield [self._root(*where) for where in some], known

    def _root(self, called: str, owner: object, keys: tuple[object, ...]) -> Root:
        get = partial(lies_at, {path_of(called): owner}, called, keys)
        is_old = not keys and self._data.was_there(owner, called.rpartition(".")[2], get())
        return Root(get, is_whole=not keys, is_old=is_old)

    def _nothing_now(self, trainer: pl.Trainer, late: Sequence[_Late]) -> dict[str, Any]:
        """Hold where there is nothing in training data: an iterator may set it that nobody reads.

        A resumed training has such a one made before any hook.
        """
        trained = _count_of_trained(trainer)
        found = [Part(called, (), value) for called, value in self._data.nothing]
        parts = [each for each in found if _turn(each.called) <= trained]
        parts = [each for each in parts if each.value is None or _can_be_held(each)]
        there = [*(called for called, *_ in late), *(each.called for each in found)]
        try:
            raw = held(parts, NOTHING_KNOWN, MOST_BYTES)
        except UnheldError:  # they are too large together
            raw = held([each for each in parts if each.value is None], NOTHING_KNOWN)
        data = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return {"data": data, "orders": {}, "there": there}

    def _known_besides(self, trainer: pl.Trainer, late: Sequence[_Late], most: int | None) -> Known:
        """Name what is there without them: also of parts up to a number alone."""
        apart = {(id(each.owner), each.name) for _, each, before in late if before.is_nothing}
        apart |= self._data.unread
        owners, values = owners_and_values(trainer)
        there = self._data.owners  # none that data have made as they were read
        found = {id(o): f"{OWNER}{called}" for called, o in owners.items() if id(o) in there}
        for called, each in values.items():
            # An empty tuple is one in all of a process.
            is_empty = is_really(each.value, tuple) and not size_of(each.value)
            is_one = type(each.value) not in PLAIN and not is_empty
            is_one &= id(each.owner) in there and (id(each.owner), each.name) not in apart
            if is_one:
                found.setdefault(id(each.value), f"{ATTRIBUTE}{called}")
        found = {key: it for key, it in found.items() if most is None or _turn(it[1:]) <= most}
        memory = [known_stretch(each.value) for each in values.values() if id(each.value) in found]
        return Known(found, [each for each in memory if each is not None])

    def put_back(self, trainer: pl.Trainer, pieces: Pieces, *, is_of_training: bool) -> str | None:
        """Put back what a checkpoint holds; say what of it could not be.

        Args:
            trainer: of the training; its data have been looked at before they were read.
            pieces: of the checkpoint.
            is_of_training: of which data.
        """
        piece = pieces.get(_OF_TRAINING if is_of_training else _OF_VALIDATION)
        wanted = {} if piece is None else piece["orders"]
        nothing = pieces.get(_NOTHING) if is_of_training else None
        try:
            if nothing is not None:
                self._take_away(trainer, nothing["there"])
            # What is of the data module until validation loaders are made is called otherwise then.
            _fill(trainer, nothing, are_all=False)
            _fill(trainer, piece)
            orders = self._orders([*self._data.late(trainer)])
        except Exception as error:  # of whatever class: a user's object does not take it
            what = _shown(min(wanted, default=" what data make as they are read"))
            return f"{what} could not be put back ({type(error).__name__}: {error})"
        other = next((each for each in sorted(wanted) if orders.get(each) != wanted[each]), None)
        if is_of_training:
            self.begun = {each: orders[each] for each in wanted if each in orders}
            self._known, self._nothing = self.begun, nothing or {}
            self._there = {*self.begun}
        return None if other is None else f"{_shown(other)} could not be put back as it was"

    def _take_away(self, trainer: pl.Trainer, there: Container[str]) -> None:
        """Delete attributes that this process has made already, and that were not there."""
        trained = _count_of_trained(trainer)
        for called, each, _ in [*self._data.late(trainer)]:
            if called not in there and _turn(called) <= trained and self._data.was_absent(each):
                object.__delattr__(each.owner, each.name)

    def _orders(self, late: Sequence[_Late]) -> dict[str, str]:
        data = [each for each in late if _holds(each[1])]
        return {each[0]: order for each in data if (order := self._order(each))}

    def _order(self, late: _Late) -> str:
        owners = self._data.owners
        parts = _parts(late, owners) or []  # of more than is looked at nothing is told
        words = ((*map(key_text, part.keys), order_of(part.value, owners)) for part in parts)
        return " ".join(" ".join(each) for each in words)


def _fill(trainer: pl.Trainer, piece: Mapping[str, Any] | None, *, are_all: bool = True) -> None:
    if not piece:
        return
    owners, values = owners_and_values(trainer)

    def there(called: str, keys: tuple[object, ...]) -> object:
        is_there = are_all or called.rpartition(".")[0] in owners
        return lies_at(owners, called, keys) if is_there else None

    raw = piece["data"].numpy().tobytes()
    for part in made_again(raw, lambda name: named(name, owners, values), there):
        if are_all or part.called.rpartition(".")[0] in owners:
            put(owners, part)


def held_in(pieces: Pieces) -> set[str]:
    """Name the attributes of which a checkpoint holds something."""
    return {called for piece in pieces.values() for called in piece["orders"]}


def _parts(late: _Late, owners: Container[int]) -> list[Part] | None:
    called, each, before = late
    try:
        found = new_parts(each.value, before, owners)
    except Exception:  # of whatever class: a key of a user's raises
        return None
    return None if found is None else [Part(called, keys, value) for keys, value in found]


def _can_be_held(part: Part) -> bool:
    try:
        held([part], NOTHING_KNOWN, MOST_BYTES)
    except UnheldError:
        return False
    return True


def _holds(each: UsersAttribute) -> bool:
    try:
        return is_data(each.value)
    except Exception:  # of whatever class: it cannot be looked at
        return False


def _turn(called: str) -> int:
    return int(called.partition(" ")[0])


def _count_of_trained(trainer: pl.Trainer) -> int:
    return len(parts_of(training_loaders(trainer)))


def _shown(called: str) -> str:
    return called.partition(" ")[2]

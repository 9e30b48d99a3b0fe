"""What data had before they were first read, and what they were given later."""

from collections.abc import Iterable, Iterator

import pytorch_lightning as pl

from twinrun.checkpoint.late_disturbed import Disturbing
from twinrun.checkpoint.late_spots import LEAF, NOTHING, SEEN, Before, Outlines, is_blank
from twinrun.checkpoint.late_unread import read_elsewhere, set_anew
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_attributes import UsersAttribute, users_attributes
from twinrun.checkpoint.users_code import is_computed_once, is_plain, is_set
from twinrun.containers import is_container


class LateData:
    """Their attributes, by who has them."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.owners: dict[int, object] = {}
        """By identity; they are kept, so that no others get their numbers."""
        self._before: dict[tuple[int, str], Before] = {}
        self.plain: dict[tuple[int, str], object] = {}
        """What was a plain value then, or a set of these, by the identity of its owner."""
        self.owning = set[str]()
        """At the last look the names of owners."""
        self.nothing: list[tuple[str, object]] = []
        """Then attributes that held nothing, when all the others have been yielded."""
        self.unread: set[tuple[int, str]] = set()
        """Then what need not be looked at, by the identity of its owner."""
        self._held_by: dict[str, int] = {}
        self._containers: dict[tuple[int, str], object] = {}  # before

    def begin(self, trainer: pl.Trainer) -> set[str]:
        """Look at data that are about to be read, if they are new.

        Returns:
            What another object has by now that is called alike.
        """
        loaders = loaders_of(trainer)
        parts = [vars(trainer).get("datamodule"), *parts_of(loaders)]
        if all(part is None or id(part) in self.owners for part in parts):
            return set()
        known, late, others = self.owners, tuple[str, ...](), set[str]()
        # Those of an epoch whose loaders are made anew are let go.
        self.owners = {id(part): part for part in parts if part is not None}
        new: list[UsersAttribute] = []
        for called, each in users_attributes(trainer, loaders):
            owner = id(each.owner)
            if called.startswith(late):
                continue
            if owner in known and self._before_of(each).is_nothing:
                late += () if is_blank(each.value) else (f"{called}.", f"{called}[")
            self.owners[owner] = each.owner
            if self._held_by.setdefault(called, owner) != owner:
                self._held_by[called] = owner
                others.add(called)
            if owner not in known:
                new.append(each)
        outlines = Outlines(self.owners)
        for each in new:
            key = id(each.owner), each.name
            try:
                before = outlines.before(each.value)
            except Exception:  # of whatever class: something in it cannot be looked at
                before = SEEN
            self._before[key] = before
            if before.is_container:
                self._containers[key] = each.value
            if is_plain(each.value):
                self.plain[key] = each.value
            elif is_set(each.value):
                self.plain[key] = frozenset(each.value)
        for by_key in (self._before, self._containers, self.plain):
            for key in [key for key in by_key if key[0] not in self.owners]:
                del by_key[key]
        return others

    def _before_of(self, each: UsersAttribute) -> Before:
        return self._before.get((id(each.owner), each.name), NOTHING)

    def late(self, trainer: pl.Trainer) -> Iterator[tuple[str, UsersAttribute, Before]]:
        """Yield what may have been given something later, and what it had before."""
        loaders = loaders_of(trainer)
        found = [*users_attributes(trainer, loaders)]
        self.unread = unread = _unread(trainer, found)
        self.nothing = []
        self.owning = {called.rpartition(".")[0] for called, _ in found}
        # A dataset that a data module keeps, where its loader is made, is looked at as what it is.
        parts = {id(part) for part in parts_of(loaders)}
        for called, each in found:
            before = self._before_of(each)
            is_known = id(each.owner) in self.owners and (id(each.owner), each.name) not in unread
            if not is_known or id(each.value) in parts:
                continue
            if before.outline is not LEAF and not is_blank(each.value):
                yield called, each, before
            elif before.is_nothing and not self.was_absent(each):
                self.nothing.append((called, each.value))

    def was_there(self, owner: object, name: str, value: object) -> bool:
        """Say whether a container is the one that an attribute held before it was first read."""
        return value is not None and self._containers.get((id(owner), name)) is value

    def was_absent(self, each: UsersAttribute) -> bool:
        """Say whether its owner had no such attribute before it was first read."""
        return (id(each.owner), each.name) not in self._before

    def has_owner(self, called: str) -> bool:
        """Say whether what an attribute belongs to was there at the last look."""
        return called.rpartition(".")[0] in self.owning

    def left(self, trainer: pl.Trainer) -> set[tuple[int, str]]:
        """Name what is looked at here alone, or need not be, by the identity of its owner."""
        found = [*users_attributes(trainer, loaders_of(trainer))]
        late = [each for _, each, before in self.late(trainer) if before.is_nothing]
        alone = {id(each.value) for each in late if is_container(each.value)}
        names = {(id(each.owner), each.name): each for each in late}
        # What has come to one of several that have it is looked at there.
        names |= {(id(each.owner), each.name): each for _, each in found if id(each.value) in alone}
        return _unread(trainer, found) | {
            key for key, each in names.items() if not is_computed_once(each.owner, each.name)
        }


def _unread(
    trainer: pl.Trainer, found: Iterable[tuple[str, UsersAttribute]]
) -> set[tuple[int, str]]:
    """Name what nobody reads that has not set it before, by the identity of its owner."""
    every = [each for _, each in found]
    try:
        asked = [each for each in every if each.name in set_anew(type(each.owner))]
        if not asked:
            return set()
        read = read_elsewhere([each.owner for each in every])
        disturbing = Disturbing(trainer, read)
        return {
            (id(each.owner), each.name)
            for each in asked
            if each.name not in read and not disturbing.disturbs(each.owner, each.name)
        }
    except Exception:  # of whatever class: their code cannot be read
        return set()

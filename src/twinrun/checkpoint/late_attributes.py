"""Attributes that data are first given as they are read: a cache, or state.

A dataset may load its rows where it is first asked for one, and keep there what it has read. A
resumed training makes that anew. It has to be what it was: of a cache it is, of a count or a mean
that moves it is not. So what has come into the place of nothing (of None, of an empty container, of
a list of None) has to stay what it is from the first look on, is written into checkpoints, and is
compared with what the resumed training has made.
"""

from collections.abc import Iterator, Mapping

import pytorch_lightning as pl

from twinrun.checkpoint.late_compared import first_other, lacks, with_more
from twinrun.checkpoint.late_content import Content, UnseenError, content_of_late, is_blank
from twinrun.checkpoint.late_places import Place, places
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_code import is_computed_once
from twinrun.containers import is_container, size_of

_WHY = "changes while the training runs, and no checkpoint holds it"
_ANEW = "and a resumed training would make it anew"
_UNSET = "it is first set under way, and not seen to be by `self.x = ...` or `self.x[...] = ...`"
_CURE = "where data are read: `__init__` may set it, if it stays what it is"
_KILLED = "was made as data were read, and the process was killed before the first batch behind"


class LateAttributes:
    """What data had before they were first read, and what came later."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._owners: dict[int, object] = {}  # kept, so that no others get their numbers
        self._there: set[tuple[int, str]] = set()
        self._of_none: set[tuple[int, str]] = set()  # lists
        self._places: dict[str, int] = {}  # and who has them
        self.known: dict[str, Content] = {}
        """What has been seen of each."""
        self._restored: dict[str, Content] = {}  # of the checkpoint that is resumed

    def begin(self, trainer: pl.Trainer) -> None:
        """Look at data that are about to be read, if they are new."""
        loaders = loaders_of(trainer)
        parts = [vars(trainer).get("datamodule"), *parts_of(loaders)]
        if all(part is None or id(part) in self._owners for part in parts):
            return
        found = list(places(trainer, loaders))
        new = {id(place.owner) for _, place in found} - self._owners.keys()
        # Those of an epoch whose loaders are made anew are let go.
        self._owners = {id(part): part for part in parts if part is not None}
        for called, place in found:
            key = id(place.owner), place.name
            self._owners[key[0]] = place.owner
            if self._places.setdefault(called, key[0]) != key[0]:
                self._places[called] = key[0]
                self.known.pop(called, None)
                self._restored.pop(called, None)
            if key[0] in new:
                self._there.discard(key)
                self._of_none.discard(key)
            if key[0] in new and not is_blank(place.value):
                self._there.add(key)
            elif key[0] in new and is_container(place.value) and size_of(place.value):
                self._of_none.add(key)

    def _late(self, trainer: pl.Trainer) -> Iterator[tuple[str, Place]]:
        for called, place in places(trainer, loaders_of(trainer)):
            key = id(place.owner), place.name
            if key[0] in self._owners and key not in self._there and not is_blank(place.value):
                yield called, place

    def left(self, trainer: pl.Trainer) -> set[tuple[int, str]]:
        """Name what is looked at here alone, by the identity of its owner."""
        return {
            (id(place.owner), place.name)
            for _, place in self._late(trainer)
            if not is_computed_once(place.owner, place.name)
        }

    def look(self, trainer: pl.Trainer) -> tuple[dict[str, Content], list[str]]:
        """Write down what has come late, and say of what that cannot be done or trusted."""
        found: dict[str, Content] = {}
        refused = []
        for called, place in self._late(trainer):
            name = called.partition(" ")[2]
            try:
                is_of_none = (id(place.owner), place.name) in self._of_none
                content = content_of_late(place.value, self._owners, is_filled=is_of_none)
            except UnseenError as error:
                refused.append(f"{name} is first set as data are read, and {error}")
                continue
            except Exception as error:  # of whatever class
                why = f"cannot be looked at ({type(error).__name__})"
                refused.append(f"{name} {why}, and it may change while the training runs")
                continue
            if content and not place.is_filled:
                unset = _UNSET.replace("self.x", f"self.{place.name}")
                refused.append(f"{name} {_WHY} ({unset} {_CURE})")
            found[called] = content
        return found, refused

    def changed(self, trainer: pl.Trainer) -> list[str]:
        """Say what stands against a checkpoint; what is seen now has to stay what it is."""
        found, refused = self.look(trainer)
        if (other := first_other(self.known, found)) is not None:
            refused.append(f"{_called(other)} {_WHY}, {_ANEW}")
        self.known = with_more(self.known, found)
        return refused

    def resumed(self, saved: Mapping[str, Content], *, is_compared: bool) -> str | None:
        """Await what a checkpoint tells of; say why that cannot be, if it cannot.

        Args:
            saved: `known` of the process before the stop.
            is_compared: whether the first batch behind the checkpoint is compared.
        """
        self._restored = {key: content for key, content in saved.items() if content}
        self.known = with_more(self._restored, self.known)
        if self._restored and not is_compared:
            name = _called(next(iter(self._restored)))
            return f"{name} {_KILLED} the checkpoint, which shows whether it is made anew as it was"
        return None

    def unlike(self, trainer: pl.Trainer) -> str | None:
        """Name what a resumed training has made otherwise than it was before the stop."""
        if not self._restored:
            return None
        found, _ = self.look(trainer)
        if (other := first_other(self._restored, found)) is None:
            if lacks(found, self._restored) is None:  # all is there again: `known` holds it
                self._restored = {}
            return None
        return f"{_called(other)} is another one than before the stop: no checkpoint holds it"


def _called(key: str) -> str:
    return key.partition(" ")[2]

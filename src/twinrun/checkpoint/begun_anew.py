"""Streams that keep what they are told for their next iterator: whether each one begins anew.

Such a stream (a Hugging Face `IterableDataset`) says where its last iterator was. Told so, its next
one goes on there, where in an undisturbed training it begins at the stream's start. Whether it does
shows in what the stream says with the first mini-batch of an epoch or a validation: if that is the
same behind two states, a resumed training need not bring it from one to the other.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import pytorch_lightning as pl
import xxhash
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from twinrun.checkpoint.keeping_told import keeps, kept_in
from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.own_states import keys_in, values_seen
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.restored import ELSEWHERE
from twinrun.checkpoint.stateful import UNSAID, Stateful, begins_anew, is_asked, state_told
from twinrun.checkpoint.stream_position import parts_of, told_anew
from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import set_attribute_of

_MOST = 16  # states of a stream that are remembered: most have one at each epoch's end


class Record(TypedDict):
    """How the iterators of a stream have begun."""

    state: dict[str, Any]
    """What it said before the first one of all."""
    fresh: str
    """A look at that."""
    begun: dict[str, list[str]]
    """Looks at states behind which one began, by what was said with its first mini-batch."""


class _Told(NamedTuple):
    """Where a part keeps what it is told."""

    part: object
    """It."""
    owner: object
    """It, or a stream in it."""
    name: str
    """Of the owner's attribute."""
    before: object
    """What that was."""
    position: dict[str, Any]
    """What the part is told."""

    def is_kept(self) -> bool:
        """Say whether it is still there, or what of it is the owner's; most use it up."""
        now = attributes_seen(self.owner).get(self.name)
        if now is self.before or not isinstance(now, Mapping):
            return False
        return {seen for _, seen in values_seen(now, "")} <= {
            seen for _, seen in values_seen(self.position, "")
        }


class BegunAnew:
    """How they have begun, and what they are told where a training is resumed."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._records: dict[str, Record] = {}
        self._before: dict[str, str | None] = {}  # an iterator that has begun now
        self._expected: Mapping[str, str] = {}  # with the first batch behind the checkpoint
        self._unknown = set[str]()  # those whose state cannot be looked at
        self._told, self._told_at = list[_Told](), dict[str, str | None]()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return copy.deepcopy(dict(self._records))

    def resumed(self, saved: Mapping[str, Any] | None, expected: Mapping[str, str]) -> None:
        """Take what a checkpoint holds.

        Args:
            saved: what `state` returned.
            expected: what `comes` returned at the first batch behind it, if that is known.
        """
        self._records, self._expected = copy.deepcopy(dict(saved or {})), expected

    def begins(self, trainer: pl.Trainer, loaders: Iterable[object]) -> None:
        """Look at what is said before an iterator of loaders is made."""
        for key, part in _keeping(trainer, loaders):
            state = _said(part)
            seen = _seen(part, state)
            # It does not say yet what it has been told.
            self._before[key] = self._told_at.get(key, seen)
            if key not in self._records and key not in self._unknown and seen is not None:
                self._records[key] = {"state": state, "fresh": seen, "begun": {}}

    def comes(self, trainer: pl.Trainer, loaders: Iterable[object], fetcher: Any) -> dict[str, str]:
        """Return looks at what is said with the first mini-batch of an iterator of loaders.

        Args:
            trainer: of the training.
            loaders: that have begun.
            fetcher: of Lightning; it may have fetched a batch ahead.
        """
        found = dict[str, str]()
        for key, part in _keeping(trainer, loaders):
            seen, before = _seen(part, _said(part)), self._before.pop(key, None)
            if (record := self._records.get(key)) is None or before is None:
                continue
            if seen is None:
                del self._records[key]
                self._unknown.add(key)
                continue
            found[key] = f"{getattr(fetcher, 'fetched', 0)} {seen}"
            alike = [each for each in record["begun"].get(found[key], []) if each != before]
            record["begun"][found[key]] = [*alike, before][-_MOST:]
            record["begun"] = dict([*record["begun"].items()][-_MOST:])
        return found

    def waits(self, trainer: pl.Trainer) -> str | None:
        """Say why a checkpoint is not written yet: of validation data none is compared."""
        for key, part in _keeping(trainer, tree_leaves(trainer.val_dataloaders)):
            if (record := self._records.get(key)) is None or _goes_on(record):
                continue
            if record["begun"] and not _alike(record, _seen(part, _said(part))):
                return (
                    f"{type(part).__name__} keeps what it is told for its next iterator: a "
                    f"checkpoint waits until one more validation has shown how this begins"
                )
        return None

    def positions(
        self,
        trainer: pl.Trainer,
        loaders: Sequence[object],
        positions: Sequence[dict[str, Any]],
        *,
        is_in_epoch: bool,
        under_way: Sequence[object] = (),
    ) -> tuple[list[dict[str, Any] | None], str | None]:
        """Return what parts are told, None if it is nothing, and why that is not known, if so.

        Args:
            trainer: of the training.
            loaders: whose parts these are.
            positions: of all that have one, as the checkpoint has them.
            is_in_epoch: whether first mini-batches had come of all that were being read.
            under_way: those of the loaders that are being read, and whose parts are told nothing.
        """
        keys = {id(part): key for key, part in _keeping(trainer, loaders_of(trainer))}
        trained = {id(part) for part in parts_of(training_loaders(trainer))}
        stateful = [part for part in parts_of(loaders) if isinstance(part, Stateful)]
        for part in parts_of(under_way):
            keys.pop(id(part), None)
        found, why = list[dict[str, Any] | None](), None
        position: dict[str, Any] | None
        for part, position in zip(stateful, positions, strict=True):
            key = keys.get(id(part), "")
            if key and (record := self._records.get(key)) is not None:
                seen = _seen(part, position)
                if id(part) in trained and not is_in_epoch and not _alike(record, seen):
                    seen = next(iter(record["begun"].get(self._expected.get(key, ""), [])), None)
                    is_open = key not in self._expected and not _goes_on(record)
                    why = _unknown(part) if is_open and record["begun"] else why
                alike = _alike(record, seen)
                if _seen(part, _said(part)) in alike:
                    position = None
                elif record["fresh"] in alike:
                    position = copy.deepcopy(record["state"])
            if begins_anew(part) and not (is_in_epoch and id(part) in trained):
                position = None
            if key and position is not None and _is_said(part, position):
                position = None  # so a flag stays as it is that it was told something
            if key and position is not None:
                self._told_at[key] = _seen(part, position)
                for owner, name in kept_in(part):
                    kept = attributes_seen(owner).get(name)
                    self._told.append(_Told(part, owner, name, kept, position))
            found.append(position)
        return found, why

    def let_go(self, trainer: pl.Trainer, loaders: Sequence[object]) -> None:
        """Have the parts of loaders forget what they were told, now that these have begun there.

        The next iterator begins as in the undisturbed training, where nobody told them.
        """
        begun = {id(part) for part in parts_of(loaders)} if self._told else ()
        for told in self._told:
            if id(told.part) in begun and told.is_kept():
                set_attribute_of(told.owner, told.name, told.before)
        self._told = [told for told in self._told if id(told.part) not in begun]
        for key, _ in _keeping(trainer, loaders) if begun else ():
            self._told_at.pop(key, None)


def _alike(record: Record, seen: str | None) -> set[str]:
    """Return the states behind which an iterator began as behind another one.

    There are none if one began otherwise behind the same state: something else decides that.
    """
    times = Counter(
        (key.partition(" ")[0], each)
        for key, several in record["begun"].items()
        for each in several
    )
    if any(number > 1 for number in times.values()):
        return set()
    return {each for several in record["begun"].values() if seen in several for each in several}


def _goes_on(record: Record) -> bool:
    """Say whether iterators have begun each in its own way, as those of a stream that goes on."""
    counts = [key.partition(" ")[0] for key in record["begun"]]
    return len({*counts}) < len(counts)


def _unknown(part: object) -> str:
    return (
        f"{ELSEWHERE}: the process was killed before the first mini-batch behind the checkpoint, "
        f"which shows where {type(part).__name__} begins that epoch"
    )


def _said(part: Any) -> dict[str, Any]:
    try:
        return state_told(part)
    except Exception:  # of whatever class: there is no copy of it
        return UNSAID


def _seen(part: object, state: dict[str, Any]) -> str | None:
    """Look at what a part says, but for what it is told anew; None if that cannot be seen."""
    if state is UNSAID or state == UNSAID or look(state, ()).startswith(UNSEEN):
        return None
    anew = told_anew(part)
    values = [each for each in values_seen(state, "") if anew.isdisjoint(keys_in(each[0]))]
    return xxhash.xxh3_64_hexdigest(repr(sorted(values)).encode(errors="backslashreplace"))


def _is_said(part: object, position: dict[str, Any]) -> bool:
    """Say whether a part says already that it is there."""
    said = _said(part)
    is_seen = _seen(part, said) is not None
    return is_seen and {*values_seen(said, "")} == {*values_seen(position, "")}


def _keeping(trainer: pl.Trainer, of: Iterable[object]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of loaders that keep what they are told, by their place and class."""
    trained, validated = training_loaders(trainer), tree_leaves(trainer.val_dataloaders)
    parts = {"training": parts_of(trained), "validation": parts_of(validated)}
    asked = {id(part) for part in parts_of([*of])} - set(map(id, (*trained, *validated)))
    # What both read has begun elsewhere meanwhile.
    both = set.intersection(*({id(part) for part in each} for each in parts.values()))
    for name, several in parts.items():
        for turn, part in enumerate(several):
            if id(part) not in asked - both or isinstance(part, DataLoader):
                continue
            if isinstance(part, Stateful) and is_asked(part) and keeps(part):
                yield f"{name} {turn} {type(part).__name__}", part

"""The attributes of a user's own datasets, samplers, loaders, data module, and of their helpers."""

import functools
import inspect
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from twinrun.checkpoint.late_filling import ANY, ITSELF, SET, asked_by, filled_by
from twinrun.checkpoint.late_spots import Spot
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.stream_position import PLAIN, is_stream, parts_of, telling_data, told_anew
from twinrun.checkpoint.unsaved_state import LATE, OURS, WRAPPED
from twinrun.checkpoint.users_code import attributes_seen, is_computed_once, is_users
from twinrun.containers import entries, is_container, is_faceless, is_really, shown, size_of
from twinrun.hidden_content import NUMBERS

MOST_INSIDE = 64  # entries of a container in which helpers are sought
DEEPEST = 4  # helpers inside each other
READING = ("__getitem__", "__getitems__", "__iter__", "__next__", "__len__", "__call__", "forward")
_MAKING = ("train_dataloader", "val_dataloader", "setup", "on_before_batch_transfer")
_MAKING += ("on_after_batch_transfer", "transfer_batch_to_device")
_FUNCTIONS = ("collate_fn", "worker_init_fn")  # of a loader
_UNSET = "it is filled under way, and not seen to be by `self.x = ...` or `self.x[...] = ...`"
_CURE = "in `__getitem__`, `__iter__` or what these call: do so there, or fill it in `__init__`"
_OF_STREAM = (*PLAIN, *NUMBERS)
_OF_DATA = frozenset({*vars(pl.LightningDataModule()), "_hparams_initial"})


class UsersAttribute(NamedTuple):
    """An attribute of a user's own dataset, sampler or helper."""

    owner: object
    """What has it."""
    name: str
    """The attribute's."""
    value: object
    """What it holds."""
    fills: frozenset[str]
    """How code of its owner that reads data sets or fills it (see `late_filling`)."""
    inside: frozenset[str]
    """How what lies deeper in it is filled: of a data module's by any of its datasets."""
    reading: frozenset[str]
    """The names of methods that read, of an object in it."""

    def is_filled_at(self, spot: Spot) -> bool:
        """Say whether code that reads data is seen to put something there."""
        key = spot.key if isinstance(spot.key, str) else ANY
        keys = self.fills | (self.inside if spot.is_deep else frozenset())
        if spot.holder is not None:
            kind, name = spot.holder
            found = filled_by(kind, self.reading)[0].get(name, frozenset())
            keys |= found - {SET} | ({key} if key == f".{name}" and SET in found else frozenset())
        return bool(keys & {key, ANY})

    def cure(self) -> str:
        """Say what helps where it is filled by what is not seen to read data."""
        if is_really(self.owner, pl.LightningDataModule):  # which hooks of others fill
            return LATE
        return f" ({_UNSET.replace('self.x', f'self.{self.name}')} {_CURE})"


def users_attributes(
    trainer: pl.Trainer, loaders: Sequence[object]
) -> Iterator[tuple[str, UsersAttribute]]:
    """Yield the attributes of a user's own data module, loaders, samplers, datasets and helpers.

    By where they lie, as another process would call it. What says itself where it is is left to its
    state, and what `set_epoch` sets is told anew. Data of which data workers have copies are among
    them: hooks may set what these are made of.
    """
    found = [*_attributes(trainer, loaders)]
    # What a dataset fills may have been given to it: by its data module, or in a helper.
    filled: dict[int, frozenset[str]] = defaultdict(frozenset)
    everywhere = frozenset[str]()
    for _, each in found:
        everywhere |= each.fills - {SET}
        if is_container(each.value):
            filled[id(each.value)] |= each.fills
    data = vars(trainer).get("datamodule")
    for called, each in found:
        inside = everywhere if each.owner is data else each.inside
        yield called, each._replace(fills=each.fills | filled[id(each.value)], inside=inside)


def _attributes(
    trainer: pl.Trainer, loaders: Sequence[object]
) -> Iterator[tuple[str, UsersAttribute]]:
    seen: set[int] = set()
    data = vars(trainer).get("datamodule")
    parts = parts_of(loaders)
    has_workers = any(getattr(part, "num_workers", 0) for part in parts)
    copied = [*_copied(trainer, loaders, parts)] if has_workers else []
    copies = {id(part) for _, part in copied}
    # A data module comes last, as it may have them all in attributes.
    for turn, part in [*copied, *enumerate(parts, 1), (0, data)]:
        is_telling = isinstance(part, Stateful) if turn else telling_data(trainer) is not None
        if part is None or is_telling:
            continue
        reading = {*_MAKING} if turn == 0 else {*READING}
        called = f"{turn} {type(part).__name__}"
        if is_users(type(part).__module__):
            # The numbers of a stream are positions, but of one that is copied before it is read;
            # those of a data module are looked at elsewhere.
            is_read = is_stream(part) and id(part) not in copies
            left = _OF_STREAM if is_read else ()
            yield from _of_owner(part, called, reading, DEEPEST, seen, left)
        elif isinstance(part, DataLoader):
            for name in _FUNCTIONS:
                value = getattr(part, name)
                yield from _inside(value, f"{called}.{name}", reading, DEEPEST, seen)


def _copied(
    trainer: pl.Trainer, loaders: Sequence[object], parts: Sequence[object]
) -> Iterator[tuple[int, object]]:
    """Yield datasets of which data workers have copies, those trained on by negative numbers."""
    training = tree_leaves(trainer.train_dataloader)
    here = {id(part) for part in parts_of(training)}
    trained = parts_of(training, with_copied=True)
    yield from ((-turn, part) for turn, part in enumerate(trained, 1) if id(part) not in here)
    known = {id(part) for part in (*trained, *parts)}
    others = [part for part in parts_of(loaders, with_copied=True) if id(part) not in known]
    yield from enumerate(others, 1 + len(parts))


def _of_owner(
    owner: object,
    called: str,
    reading: set[str],
    deeper: int,
    seen: set[int],
    left: tuple[type, ...] = (),
) -> Iterator[tuple[str, UsersAttribute]]:
    if id(owner) in seen:
        return
    seen.add(id(owner))
    told = told_anew(owner) | _OF_DATA
    filled, named = filled_by(type(owner), frozenset(reading))
    asked = asked_by(type(owner), frozenset(reading))
    for name, value in attributes_seen(owner).items():
        is_position = isinstance(value, left) and value is not None
        if name in told or is_position:
            continue
        fills = filled.get(name, frozenset())
        fills |= {SET} if is_computed_once(owner, name) else set()
        inner = frozenset((*READING, *reading, *named, *_called_to_fill(fills)))
        fills |= _fills_itself(value, inner, is_asked=name in asked)
        yield f"{called}.{name}", UsersAttribute(owner, name, value, fills, frozenset(), inner)
        if name not in WRAPPED:
            yield from _inside(value, f"{called}.{name}", {*inner}, deeper - 1, seen)


def _called_to_fill(keys: frozenset[str]) -> Iterator[str]:
    """Name the methods that are called where something is put into an object."""
    if any(key != SET and not key.startswith(".") for key in keys):
        yield "__setitem__"
    if any(key.startswith(".") for key in keys):
        yield "__setattr__"


def _fills_itself(value: object, reading: frozenset[str], *, is_asked: bool) -> frozenset[str]:
    """Return by which keys a container puts something into itself.

    Args:
        value: it.
        reading: names of its methods that read.
        is_asked: whether it is asked for what lies in it.
    """
    if is_asked and is_really(value, defaultdict):
        return frozenset({ANY})
    if not is_container(value) or not is_users(type(value).__module__):
        return frozenset()
    return filled_by(type(value), reading)[0].get(ITSELF, frozenset())


def _inside(
    value: object, called: str, reading: set[str], deeper: int, seen: set[int]
) -> Iterator[tuple[str, UsersAttribute]]:
    """Seek helpers in a value."""
    if not deeper or value is None or is_faceless(value):
        return
    if is_container(value):
        if size_of(value) <= MOST_INSIDE:
            for turn, (key, item) in enumerate(entries(value)):
                inner = f"{called}[{shown(key, turn)}]"
                yield from _inside(item, inner, reading, deeper - 1, seen)
        return
    if isinstance(value, functools.partial):
        yield from _inside([value.func, *value.args], called, reading, deeper, seen)
    elif isinstance(value, types.MethodType):
        yield from _inside(value.__self__, called, reading | {value.__name__}, deeper, seen)
    elif (
        isinstance(value, Stateful)
        or inspect.isroutine(value)
        or isinstance(value, type)
        or is_really(value, pl.LightningModule)
        or is_really(value, pl.Trainer)
    ):
        return
    elif is_users(type(value).__module__):
        yield from _of_owner(value, called, reading, deeper, seen)
    elif callable(value) and not type(value).__module__.startswith(OURS):
        # A library's may hold one's own: transforms in turn.
        for name, item in attributes_seen(value).items():
            yield from _inside(item, f"{called}.{name}", reading, deeper - 1, seen)

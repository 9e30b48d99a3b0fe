"""Where a stream of data is: what its loaders and datasets say of it, and what they do not.

A stream that goes on where the last epoch ended has a position. What has `state_dict` and
`load_state_dict` (a `StatefulDataLoader`, a dataset, a sampler) is asked for it; a stateful loader
speaks for all that it holds. Of the others a position shows where a plain attribute changes while
the training runs, or where one is an iterator or an open file: these are named, and nothing is
resumed from them in silence.
"""

import dis
import functools
import inspect
import types
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
from torch.utils.data import DataLoader, IterableDataset

from twinrun.checkpoint.looks import look
from twinrun.checkpoint.own_states import keys_in, values_seen
from twinrun.checkpoint.state_code import functions_behind, names_of_state
from twinrun.checkpoint.stateful import Stateful, is_asked, said_by
from twinrun.checkpoint.unsaved_state import MOST_WRAPPED, OURS, WRAPPED
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import entries, is_container
from twinrun.hidden_content import NUMBERS
from twinrun.set_attributes import set_by_other_bases

_SETTING = ("__init__", "__new__", "__post_init__", "__setstate__", "load_state_dict", "set_epoch")
_READING = ("__iter__", "__next__", "__getitem__", "__getitems__", "__len__", "set_epoch")
PLAIN = (int, float, str, bytes, bool, type(None))


def positions_of(loaders: Sequence[object]) -> list[dict[str, Any]]:
    """Return the states of all that have one, in order."""
    return [said_by(each) for each in parts_of(loaders) if isinstance(each, Stateful)]


def telling_data(trainer: pl.Trainer) -> pl.LightningDataModule | None:
    """Return the data module, if its class says itself what is to be kept of it."""
    owner = vars(trainer).get("datamodule")
    methods = (getattr(type(owner), name, None) for name in ("state_dict", "load_state_dict"))
    is_own = all(not str(getattr(each, "__module__", None)).startswith(OURS) for each in methods)
    return owner if owner is not None and is_own else None


def put_back(
    loaders: Sequence[object],
    positions: Sequence[dict[str, Any] | None],
    compared: Sequence[object] = (),
) -> str | None:
    """Bring them to where `positions_of` found them; name the class of one that is not there.

    Args:
        loaders: of the training.
        positions: of all that have one, in order; None tells it nothing.
        compared: those of the loaders whose parts are asked where their first batch comes.
    """
    later = {id(part) for part in parts_of(compared)}
    stateful = [each for each in parts_of(loaders) if isinstance(each, Stateful)]
    found = [_goes_to(*both) for both in zip(stateful, positions, strict=True)]
    are_there = [each or id(part) in later for part, each in zip(stateful, found, strict=True)]
    return _first_elsewhere(stateful, are_there)


def _first_elsewhere(parts: Sequence[object], are_there: Sequence[bool]) -> str | None:
    pairs = zip(parts, are_there, strict=True)
    return next((type(part).__name__ for part, is_there in pairs if not is_there), None)


def _goes_to(part: Stateful, position: dict[str, Any] | None) -> bool:
    """Bring a part to a position; say whether it says so, also where nobody can know.

    It may keep what it is told in another attribute, for its next iterator.
    """
    if position is None:
        return True
    saved, before = dict(values_seen(position, "")), attributes_seen(part)
    part.load_state_dict(position)
    if not is_asked(part):
        return True
    try:
        now, again = (dict(values_seen(part.state_dict(), "")) for _ in range(2))
    except Exception:  # of whatever class: it may need what comes later
        return True
    anew = told_anew(part)  # looked at where it is told: see `told_epochs`
    others = [
        path
        for path in {**saved, **now}
        if saved.get(path) != now.get(path) and anew.isdisjoint(keys_in(path))
    ]
    if now != again or not others:
        return True
    attributes = attributes_seen(part).items()
    told = [value for name, value in attributes if before.get(name, part) is not value]
    kept = [{seen for _, seen in values_seen(value, "")} for value in told]
    waiting = set[str]().union(*kept)
    return any(each.issuperset(saved.values()) for each in kept) or all(
        saved.get(path) in waiting or _begins_anew(part, saved.get(path), now.get(path))
        for path in others
    )


def _begins_anew(part: object, saved: str | None, now: str | None) -> bool:
    """Say whether a position is that of an end, at which a part may begin from its start."""
    try:
        return now == "0" and int(saved or "") % len(part) == 0  # pyrefly: ignore[bad-argument-type]
    except Exception:  # of whatever class: it has no size, or is no number
        return False


def put_back_in_epoch(
    loaders: Sequence[object], positions: Sequence[dict[str, Any] | None], trained: Sequence[object]
) -> str | None:
    """Do so with those that the training loaders have no part in; look at all.

    Args:
        loaders: of the training.
        positions: of all that have one, in order.
        trained: the training loaders: these are being read, and have been brought there.
    """
    under_way = {id(each) for each in parts_of(trained)}
    told = {id(each) for each in trained}  # these were told so
    stateful = [each for each in parts_of(loaders) if isinstance(each, Stateful)]
    are_there = []
    for each, position in zip(stateful, positions, strict=True):
        if id(each) not in under_way:
            are_there.append(_goes_to(each, position))
        else:
            is_told = id(each) in told
            are_there.append(is_told or look(said_by(each), ()) == look(position, ()))
    return _first_elsewhere(stateful, are_there)


def possible_positions(
    loaders: Sequence[object], told: Container[tuple[int, str]]
) -> dict[str, object]:
    """Return what might be a position of a stream that says nothing of it, by `Class.attribute`.

    Values of plain types; of an iterator or an open file only that it is one, as its class.

    Args:
        loaders: of the training.
        told: as of `told_alone`.
    """
    found: dict[str, object] = {}
    for index, part in enumerate(parts_of(loaders)):
        if not is_stream(part) or isinstance(part, Stateful | DataLoader):
            continue
        found[f"{index} {type(part).__name__}."] = None  # it is there
        for name, value in attributes_seen(part).items():
            key = f"{index} {type(part).__name__}.{name}"
            if (id(part), name) in told:
                continue
            if hasattr(value, "__next__"):
                found[key] = type(value)
            elif isinstance(value, PLAIN):
                found[key] = value
            elif isinstance(value, NUMBERS):
                found[key] = repr(value)
    return found


def is_stream(part: object) -> bool:
    """Say whether a part of a loader is a stream, which may go on where it ended."""
    return isinstance(part, IterableDataset) or not hasattr(part, "__len__")


def told_anew(owner: object) -> set[str]:
    """Name the attributes that Lightning sets at each epoch: by `set_epoch` of a sampler.

    Of what says itself where it is not those that its other methods move: it is to say them.
    """
    kind = type(owner)
    if not hasattr(kind, "set_epoch"):
        return set()
    moved_too = _set_in_methods(kind) if isinstance(owner, Stateful) else set()
    return {"epoch", *_set_in(kind, lambda name: name == "set_epoch")} - moved_too


def told_alone(loaders: Sequence[object]) -> set[tuple[int, str]]:
    """Name what `set_epoch` sets of all that loaders hold and no other method does, by identity.

    What is set elsewhere too may be counted there.
    """
    return {
        (id(part), name)
        for part in told_parts(loaders)
        for name in told_anew(part) - _set_in_methods(type(part))
    }


def names_told(owner: Stateful) -> set[str] | None:
    """Name the attributes that the code of a state names, or that are set anew as it is read.

    None is returned if that may be any.
    """
    if (named := names_of_state(owner)) is None:
        return None
    bases = [base for base in type(owner).__mro__ if is_users(base.__module__)]
    reading = functions_behind(bases, _READING)
    set_anew = {name for function in reading for name in _stored_by(function)}
    return named | set_anew | set_by_other_bases(type(owner), is_users)


def _set_in_methods(kind: type) -> set[str]:
    return _set_in(kind, lambda name: name not in _SETTING)


def _set_in(kind: type, is_asked_for: Callable[[str], bool]) -> set[str]:
    """Name what methods of a class and its bases set; one may call that of a base."""
    members = [each for base in kind.__mro__ for each in vars(base).items()]
    asked = [each for name, each in members if is_asked_for(name) and inspect.isroutine(each)]
    return {name for function in asked for name in _stored_by(function)}


def _stored_by(function: Callable[..., object]) -> set[str]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return set() if code is None else _stored_in(code)


@functools.cache
def _stored_in(code: types.CodeType) -> set[str]:
    steps = dis.get_instructions(code)
    return {str(step.argval) for step in steps if step.opname == "STORE_ATTR"}


def moved(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    """Name the attributes that no checkpoint can put back."""
    for key, value in before.items():
        is_there = f"{key.rpartition('.')[0]}." in after
        if key not in after and value is not None and is_there:
            name = key.partition(" ")[2]
            yield f"{name} changes while the training runs, and there is no state_dict that has it"
    for key, value in after.items():
        name = key.partition(" ")[2]
        is_new = key not in before and f"{key.rpartition('.')[0]}." in before
        if isinstance(value, type):
            yield f"{name} is a {value.__name__}, whose position no checkpoint holds"
        elif is_new or before.get(key, value) != value:
            yield f"{name} changes while the training runs, and there is no state_dict that has it"


def told_parts(loaders: Sequence[object]) -> list[object]:
    """List loaders and what lies in them and has a `set_epoch`, or may wrap what has one."""
    return parts_of(loaders, are_all=True)


def wrapped_in(value: object) -> list[object]:
    """Return what lies in an attribute that names wrapped parts: it, or several in a container.

    A container of a user's may have attributes of its own: it is a part, too.
    """
    if not is_container(value) or isinstance(value, dict):
        return [value]
    own = [value] if is_users(type(value).__module__) else []
    return [*own, *(item for _, item in entries(value))]


def parts_of(
    loaders: Sequence[object], *, are_all: bool = False, with_copied: bool = False
) -> list[object]:
    """List loaders, samplers and datasets, each once; nothing inside of what is stateful.

    Args:
        loaders: of the training.
        are_all: also those inside, of which data workers have copies, and in other attributes, as
            loaders there.
        with_copied: also those inside, of which data workers have copies.
    """
    found: dict[int, object] = {}

    def walk(part: object, deeper: int) -> None:
        if part is None or id(part) in found:
            return
        found[id(part)] = part
        if (isinstance(part, Stateful) and not are_all) or not deeper:
            return
        # Data workers have copies of the dataset, which end with the epoch.
        has_workers = getattr(part, "num_workers", 0) > 0 and not (are_all or with_copied)
        attributes = attributes_seen(part)
        kinds = {name: type(value) for name, value in attributes.items()}
        # A prefetcher may show the sampler of a loader that it holds as its own.
        others = [
            name
            for name, kind in kinds.items()
            if issubclass(kind, DataLoader)
            or hasattr(kind, "set_epoch")
            or hasattr(kind, "sampler")
        ]
        for name in dict.fromkeys([*WRAPPED, *(others if are_all else ())]):
            value = attributes.get(name)
            if value is not None and not (has_workers and name == "dataset"):
                for inner in wrapped_in(value):
                    walk(inner, deeper - 1)

    for loader in loaders:
        walk(loader, MOST_WRAPPED)
    return list(found.values())

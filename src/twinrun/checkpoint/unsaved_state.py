"""What callbacks keep that no checkpoint holds.

A resumed training would go on without a moving average, say. Looked at are the attributes of
callbacks that change while the training runs, that no `state_dict` gives, and that are no part of
the module, its optimizers or schedulers. Of a callback that adds to one of Lightning's, what it
adds; of one, and of a schedule, with a `state_dict` of its own, what this leaves out.
"""

import hashlib
import io
import pickle
import types
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress

import numpy as np
import pytorch_lightning as pl
import torch
from torch.optim.lr_scheduler import LRScheduler

from twinrun.checkpoint.held_by_called import held_in, holds_something, look_inside
from twinrun.checkpoint.looks import UNSEEN, look, look_at_users, unseen_iterator
from twinrun.checkpoint.own_states import MAY_GO, SAID, OwnState, is_other
from twinrun.checkpoint.plain_data import is_plain
from twinrun.checkpoint.said_inside import said_inside
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.users_code import (
    attributes_seen,
    held_by_others,
    is_called_object,
    is_users,
)
from twinrun.containers import (
    attributes_of,
    entries,
    is_bar,
    is_container,
    is_hidden_iterator,
    is_really,
    size_of,
)
from twinrun.hidden_content import flat
from twinrun.set_attributes import set_by, settings_of

MOST_LOOKED_AT = 16  # of a list: of generators there are few, of samples millions
WRAPPED = ("dataset", "datasets", "sampler", "batch_sampler", "_loader")
MOST_DEEP = 3  # of a callback's attributes, in search of an iterator
MOST_WRAPPED = 10  # inside each other; a dataset that holds itself has no end
_PICKLED, _LEFT_OUT = "pickled ", "left out "  # by a state_dict
_GIVEN = "given "  # to Lightning's part of a callback
_SAID_TOO = " (it may, under that name, if load_state_dict sets it)"
_LATE = " (it is first set under way: `__init__` may set it)"
LATE = " (it is first set under way: `__init__` may set it, if it stays what it is)"  # of data
_LIGHTNING = ("pytorch_lightning.", "lightning.")
OURS = ("twinrun.", *_LIGHTNING)  # keep what they need, or need none


def inside(value: object, deeper: int = MOST_DEEP) -> Iterator[object]:
    """Yield a value, and what is in its containers, in short ones of these too."""
    yield value
    # Short lists only, and of long ones no more: a dataset may hold millions of samples in them.
    if deeper and is_container(value):
        is_short = size_of(value) <= MOST_LOOKED_AT
        for _, item in entries(value) if is_short or isinstance(value, dict) else ():
            yield from inside(item, deeper - 1 if is_short else 0)


class _Pickler(pickle.Pickler):
    """Pickles a callback's attribute, and of what the checkpoint holds anyway only its name."""

    def __init__(self, file: io.BytesIO, kept: Mapping[int, str]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_id(self, obj: object) -> str | None:
        # Functions do not change, and those that have no name in their file cannot be pickled.
        if isinstance(obj, types.FunctionType):
            return f"function {obj.__qualname__}"
        return self._kept.get(id(obj))


def states_of_callbacks(trainer: pl.Trainer) -> dict[str, str]:
    """Hash the attributes of callbacks, by `Class.attribute`.

    As it is pickled, and what can be looked at where something in it cannot be; value by value
    where there is a `state_dict`, which may hold some of them.
    """
    kept = kept_anyway(trainer)
    found = dict(_beside_own_states(trainer, kept))
    for turn, callback in enumerate(vars(trainer)["callbacks"]):
        kind = type(callback)
        for name in settings_of(kind, _LIGHTNING) & vars(callback).keys():
            if is_plain(value := vars(callback)[name]):
                found[f"{turn} {kind.__name__}.{name}"] = f"{_GIVEN}{value!r}"
    for key, value in attributes_of_callbacks(trainer, kept):
        if (hidden := _iterator_in(value, kept, MOST_DEEP)) is not None:
            found[key] = unseen_iterator(hidden)
            continue
        state = _state_of(value) if isinstance(value, torch.nn.Module) else value
        # A file, a lock or a connection cannot be pickled: what lies beside it is looked at.
        found[key] = _pickled(state, kept) or look_at_users(value, kept)
    return found


def _beside_own_states(trainer: pl.Trainer, kept: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    owners = {
        **{str(turn): owner for turn, owner in enumerate(vars(trainer)["callbacks"])},
        **{f"schedule{turn}": owner for turn, owner in enumerate(schedules_of(trainer))},
    }
    # First, as one may count how often it is asked.
    states = {key: OwnState(each) for key, each in owners.items() if says_itself(type(each))}
    for key, state in states.items():
        yield from _called_beside(key, owners[key], state, kept)
        for name, value in own_of_callback(owners[key], kept, also_called=True):
            if isinstance(value, torch.nn.Module):
                value = _state_of(value)
            path, only_users = f"{type(owners[key]).__name__}.{name}", _pickled(value, kept) is None
            others = {**kept, **held_by_others(owners[key], value)}
            for where, seen, is_said in state.seen_in(
                name, value, path, others, only_users=only_users
            ):
                told = SAID if is_said or state.is_nothing else _LEFT_OUT
                yield f"{key} {where}", f"{told}{seen}"


def _called_beside(
    key: str, owner: object, state: OwnState, kept: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """Look at functions, methods and partials that hold something: None may become one."""
    for name, value in attributes_seen(owner).items() if isinstance(owner, pl.Callback) else ():
        if is_called_object(value) or not holds_something(value, kept):
            continue
        others = {**kept, **held_by_others(owner, value)}
        if not (seen := look_inside(value, others)).startswith(UNSEEN):
            is_said = state.is_nothing or all(said_inside(state, name, held_in(value), others))
            yield f"{key} {type(owner).__name__}.{name}", f"{SAID if is_said else _LEFT_OUT}{seen}"


def _pickled(state: object, kept: Mapping[int, str]) -> str | None:
    if (seen := flat(state)) is not None:
        return f"{_PICKLED}{seen.kind} {seen.content}"
    try:
        file = io.BytesIO()
        _Pickler(file, kept).dump(state)
        return f"{_PICKLED}{hashlib.sha256(file.getbuffer()).hexdigest()}"
    except Exception:  # of whatever class
        return None


def attributes_of_callbacks(
    trainer: pl.Trainer, kept: Mapping[int, str]
) -> Iterator[tuple[str, object]]:
    """Yield the attributes of callbacks that have no `state_dict`, beside `<number> Class.name`.

    Args:
        trainer: of the training.
        kept: as of `kept_anyway`.
    """
    for index, callback in enumerate(vars(trainer)["callbacks"]):
        kind = type(callback)
        if not kind.__module__.startswith(OURS) and not says_itself(kind):
            for name, value in own_of_callback(callback, kept):
                yield f"{index} {kind.__name__}.{name}", value


def look_of_callbacks(value: object, held: Container[int], kept: Mapping[int, str]) -> str:
    """Look at an attribute of a callback, as any process would.

    Of a library's object that cannot be pickled (a bar of progress, a thread) no more than what it
    holds of a user's own.
    """
    is_theirs = not (
        is_container(value)
        or any(is_really(value, kind) for kind in (torch.nn.Module, torch.Tensor, np.ndarray))
        or is_users(type(value).__module__)
        or is_plain(value)
    )
    if is_theirs and _pickled(value, kept) is None:
        return look_at_users(value, kept)
    return look(value, held)


def own_of_callback(
    owner: object, kept: Mapping[int, str], *, also_called: bool = False
) -> Iterator[tuple[str, object]]:
    """Yield the attributes of a callback or a schedule that its library does not set itself.

    Objects of a user's own that can be called are among them if these are asked for, too.
    """
    found = attributes_of(owner)
    # What torch counts and shows of a schedule, and computes anew.
    theirs = {name for name in set_by(LRScheduler, ("torch.",)) if name[0] == "_"}
    for name in sorted(found.keys() - set_by(type(owner), OURS) - theirs):
        value = found[name]
        # Lightning gives each callback the module's `log`, with which all of it is pickled.
        is_function = callable(value) and not isinstance(value, torch.nn.Module)
        is_function &= not (also_called and is_called_object(value))
        if not (is_function or _is_kept(value, kept) or is_bar(value)):
            yield name, value


def says_itself(kind: type) -> bool:
    """Say whether a class of callbacks or of schedules has a `state_dict` of its own."""
    says = next((each for each in kind.__mro__ if "state_dict" in vars(each)), None)
    libraries = (*OURS, "torch.") if issubclass(kind, LRScheduler) else OURS
    return says is not None and not says.__module__.startswith(libraries)


def kept_anyway(trainer: pl.Trainer) -> dict[int, str]:
    """Name what the checkpoint holds, or a resumed training makes anew, by identity."""
    module = trainer.lightning_module
    parts = (
        *(trainer, *module.modules(), *module.parameters(), *module.buffers()),
        *trainer.optimizers,
        *schedules_of(trainer),
        vars(trainer).get("datamodule"),
    )
    return {
        id(part): f"{index} {type(part).__name__}"
        for index, part in enumerate(parts)
        if part is not None
    }


def _is_kept(value: object, kept: Mapping[int, str]) -> bool:
    # Itself, or a list of such: one may be made under way.
    _, *found = inside(value)
    return id(value) in kept or (bool(found) and all(id(each) in kept for each in found))


def _iterator_in(value: object, kept: Mapping[int, str], deeper: int) -> object | None:
    """Find an iterator whose position cannot be seen, in containers and objects of a user's."""
    if is_hidden_iterator(value):
        return value
    if not deeper or id(value) in kept or callable(value):
        return None
    inside: list[object] = []
    if is_container(value) and size_of(value) <= MOST_LOOKED_AT:
        inside = [item for _, item in entries(value)]
    elif not type(value).__module__.startswith((*OURS, "torch.")):
        with suppress(Exception):  # of whatever class
            inside = list(attributes_of(value).values())
    found = (_iterator_in(each, kept, deeper - 1) for each in inside)
    return next((each for each in found if each is not None), None)


def _state_of(module: torch.nn.Module) -> object:
    """Return what a module keeps, also beside its state_dict, as metrics do."""
    beside = {
        f"{name}.{key}": value
        for name, part in module.named_modules()
        for key, value in attributes_of(part).items()
        if any(isinstance(each, torch.Tensor) for each in inside(value)) and key[0] != "_"
    }
    return module.state_dict(), beside


def changed_callbacks(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Name the attributes of callbacks that have changed between two looks."""
    nothing = look_at_users(None, ())
    # It may be a part of the training now, or a function.
    may_go = {nothing, *(_pickled(empty, {}) for empty in (None, [], {}, (), set()))}
    for key in {**before, **after}:
        name, then, state = key.partition(" ")[2], before.get(key), after.get(key)
        if (state or then or "").startswith(_GIVEN):
            if state != then:
                yield f"{name} changes while the training runs, and load_state_dict does not set it"
            continue
        if (state or then or "").startswith((SAID, _LEFT_OUT)):
            if _is_left_out(then, state):
                is_late = then is None and (state or "").removeprefix(_LEFT_OUT) in MAY_GO
                yield (
                    f"{name} changes while the training runs, and the state_dict does not hold it"
                    f"{_LATE if is_late else _SAID_TOO}"
                )
            continue
        if state is not None and state.startswith(UNSEEN):
            yield f"{name} {state}, and it may change while the training runs"
            continue
        if state is None:
            is_changed = then not in may_go
        elif not state.startswith(_PICKLED) and (then is None or then.startswith(_PICKLED)):
            # What is opened late, a file, say, holds nothing of a user's.
            is_changed = state != nothing
        else:
            is_changed = then != state
        if is_changed:
            yield (
                f"{name} changes while the training runs, and the callback has no state_dict"
                " (one that returns {} says that nothing is to be kept; what "
                "on_save_checkpoint adds is not looked at)"
            )


def _is_left_out(then: str | None, now: str | None) -> bool:
    """Say whether a value has changed that a callback's own state does not hold."""
    was = None if then is None else then.removeprefix(_LEFT_OUT)
    return is_other(was, None if now is None else now.removeprefix(_LEFT_OUT)) and (
        now is not None or was not in MAY_GO
    )

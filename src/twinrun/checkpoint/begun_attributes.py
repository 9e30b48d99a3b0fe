"""The attributes of module, callbacks, optimizers and data that hooks may set before a training.

Each by a key that says whose it is; in a resumed training those hooks set it once more.
"""

from collections.abc import Container, Iterator, Mapping
from pathlib import PurePath

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.begun_generators import with_generators
from twinrun.checkpoint.beside_states import (
    BESIDE,
    DATA,
    beside_states,
    beside_states_now,
)
from twinrun.checkpoint.held_by_called import is_called, is_few, look_inside
from twinrun.checkpoint.looks import UNSEEN
from twinrun.checkpoint.own_to_process import is_name_or_moment
from twinrun.checkpoint.plain_attributes import looked_at, set_attribute, states_of_attributes
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.tensor_attributes import FLAG, of_tensor
from twinrun.checkpoint.unsaved_optimizers import (
    TEXT,
    states_of_optimizers,
    values_of_optimizers,
)
from twinrun.checkpoint.unsaved_state import (
    attributes_of_callbacks,
    kept_anyway,
    look_of_callbacks,
    says_itself,
)
from twinrun.checkpoint.users_code import attributes_seen, is_called_object, is_users
from twinrun.containers import is_really

IS_CALLED = "()"  # behind the name of what can be called, of which others look at the name alone
MODULE, CALLBACK, OPTIMIZER = "module ", "callback ", "optimizer "


def looks_now(trainer: pl.Trainer) -> dict[str, str]:
    """Hash what module, callbacks and optimizers have in attributes, as any process would."""
    module = trainer.lightning_module
    attributes = states_of_attributes(trainer, ())
    held = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    kept = kept_anyway(trainer)
    callbacks = attributes_of_callbacks(trainer, kept)
    found = {
        **{key: state for key, state in attributes.items() if key.startswith(MODULE)},
        **{f"{CALLBACK}{key}": look_of_callbacks(value, held, kept) for key, value in callbacks},
        **{f"{OPTIMIZER}{key}": state for key, state in states_of_optimizers(trainer).items()},
        **{key: look_inside(value, kept) for key, value in _called_objects(trainer).items()},
        **{key: look_inside(value, kept) for key, value in _of_schedules(trainer, kept)},
    }
    found = with_generators(found, attributes_now(trainer), kept) | beside_states_now(trainer)
    return {key: state for key, state in found.items() if not state.startswith((UNSEEN, TEXT))}


def made_since(trainer: pl.Trainer, told: Mapping[str, str]) -> dict[str, str]:
    """Return of `looks_now` what has changed since, all texts, and all that is beside states.

    What of that a state holds is not known: it is put back if it stays what it is.
    """
    names, looks = left_alone(trainer), looks_now(trainer).items()
    return {k: v for k, v in looks if told.get(k) != v or k.startswith(BESIDE) or k in names}


def left_alone(trainer: pl.Trainer, values: Mapping[str, object] | None = None) -> set[str]:
    """Tell which are texts, paths or moments: those may be of the process that made them.

    Args:
        trainer: of the training.
        values: what can be put back: a text there is none of its process.
    """
    names = {k: v for k, v in attributes_now(trainer).items() if is_name_or_moment(v)}
    texts = {k for k, v in names.items() if isinstance(v, str | PurePath)}
    return names.keys() - (texts & (values or {}).keys())


def attributes_now(trainer: pl.Trainer) -> dict[str, object]:
    """Return the values of what `looks_now` hashes."""
    parts = trainer.lightning_module.named_modules()
    callbacks = attributes_of_callbacks(trainer, kept_anyway(trainer))
    return {
        **{f"{MODULE}{p} {name}": v for p, part in parts for name, v in looked_at(part).items()},
        **{f"{CALLBACK}{key}": value for key, value in callbacks},
        **{f"{OPTIMIZER}{key}": value for key, value in _of_optimizers(trainer).items()},
        **beside_states(trainer),
        **_called_objects(trainer),
    }


def _called_objects(trainer: pl.Trainer) -> dict[str, object]:
    """Return functions, and what can be called and holds something."""
    kept = kept_anyway(trainer)
    owners: dict[str, object] = {
        f"{MODULE}{path} ": part for path, part in trainer.lightning_module.named_modules()
    }
    for turn, each in enumerate(vars(trainer)["callbacks"]):
        kind = type(each)
        if is_users(kind.__module__):
            prefix = BESIDE if says_itself(kind) else CALLBACK
            owners[f"{prefix}{turn} {kind.__name__}."] = each
    if (data := vars(trainer).get("datamodule")) is not None:
        owners[f"{BESIDE}{DATA} {type(data).__name__}."] = data
    found = {
        f"{key}{name}{IS_CALLED}": value
        for key, owner in owners.items()
        for name, value in attributes_seen(owner).items()
        if id(value) not in kept
        # Layers of a module are parts of it, and of callbacks looked at elsewhere.
        and (is_called(value, kept) or (owner is data and is_really(value, torch.nn.Module)))
    }
    of_data = f"{BESIDE}{DATA} "  # which may be data
    return {k: v for k, v in found.items() if not k.startswith(of_data) or is_few(v)}


def _of_schedules(trainer: pl.Trainer, kept: Container[int]) -> Iterator[tuple[str, object]]:
    """Yield the functions that schedules hold: no state holds what is in them.

    Lightning has them made when the weights of a checkpoint have been loaded.
    """
    for turn, schedule in enumerate(schedules_of(trainer)):
        for name, value in attributes_seen(schedule).items():
            several = value if is_really(value, list) else [value]
            for index, each in enumerate(several):
                # Of an object its own state has the attributes, or says nothing of them.
                if is_called(each, kept) and not is_called_object(each):
                    where = f"{name}[{index}]" if several is value else name
                    yield f"{OPTIMIZER}schedule {turn} {type(schedule).__name__}.{where}", each


def _of_optimizers(trainer: pl.Trainer) -> dict[str, object]:
    """Return what can be set in optimizers: plain attributes, and tensors and arrays anywhere."""
    return {
        key: value
        for key, path, value in values_of_optimizers(trainer)
        if path.isidentifier() or isinstance(value, torch.Tensor | np.ndarray)
    }


def called(trainer: pl.Trainer, key: str) -> str:
    """Return the name of an attribute in a sentence."""
    path, _, name = key.removeprefix(MODULE).removesuffix(IS_CALLED).rpartition(" ")
    if not key.startswith(MODULE):
        return name
    return f"{type(trainer.lightning_module.get_submodule(path)).__name__}.{name}"


def set_to(trainer: pl.Trainer, key: str, value: object) -> None:
    """Set the attribute that a key names."""
    owner, name = owner_of(trainer, key)
    if isinstance(owner, torch.nn.Module):
        set_attribute(owner, name, value)
    else:
        setattr(owner, name, value)


def owner_of(trainer: pl.Trainer, key: str) -> tuple[object, str]:
    """Return what has the attribute that a key names, and its name there."""
    key = key.removesuffix(IS_CALLED)
    if key.startswith(MODULE):
        path, _, name = key.removeprefix(MODULE).rpartition(" ")
        part = trainer.lightning_module.get_submodule(path)
        tensor, attribute = of_tensor(part, name)
        return (part, name) if tensor is None or attribute == FLAG else (tensor, attribute)
    kind = next(kind for kind in (CALLBACK, OPTIMIZER, BESIDE) if key.startswith(kind))
    index, name = key.removeprefix(kind).split(" ", 1)
    if index == DATA:
        return vars(trainer)["datamodule"], name.partition(".")[2]
    several = trainer.optimizers if kind == OPTIMIZER else vars(trainer)["callbacks"]
    return several[int(index)], name.partition(".")[2]

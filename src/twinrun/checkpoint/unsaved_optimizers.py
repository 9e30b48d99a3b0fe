"""What optimizers keep beside their `state_dict`, which no checkpoint holds; what it cannot say."""

import re
from collections.abc import Iterator, Mapping

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.batches import leaves
from twinrun.checkpoint.looks import UNSEEN, look, look_at_leaf
from twinrun.checkpoint.own_states import SAID, OwnState, is_other, seen_as
from twinrun.checkpoint.schedules import schedules_of
from twinrun.containers import entries, is_container
from twinrun.optimizer_attributes import all_beside

_DEFAULTS = "defaults["  # of an optimizer
TEXT = "text "  # or nothing: no number


def values_of_optimizers(trainer: pl.Trainer) -> Iterator[tuple[str, str, object]]:
    """Yield what optimizers keep beside their `state_dict`: its key, its path and what it is."""
    module = trainer.lightning_module
    parts = (*module.parameters(), *module.buffers(), *module.modules())
    held = [*parts, *schedules_of(trainer), trainer]
    for index, optimizer in enumerate(trainer.optimizers):
        for path, value in all_beside(optimizer, held).items():
            yield f"{index} {type(optimizer).__name__}.{path}", path, value


def states_of_optimizers(trainer: pl.Trainer) -> dict[str, str]:
    """Hash what optimizers keep beside their `state_dict`, by `Class.attribute`."""
    beside = [*values_of_optimizers(trainer)]
    found = {}
    for index, optimizer in enumerate(trainer.optimizers):
        kind = type(optimizer)
        methods = (kind.state_dict, kind.load_state_dict)
        is_own = not any(each.__module__.startswith("torch.") for each in methods)
        own = OwnState(optimizer) if is_own else None
        # Counts of steps are alike by chance, and each parameter may have one.
        saved = {
            look_at_leaf(leaf)
            for _, leaf in leaves(optimizer.state_dict())
            if isinstance(leaf, torch.Tensor | np.ndarray) and np.prod(leaf.shape) > 1
        }
        for key, path, value in beside:
            if not key.startswith(f"{index} "):
                continue
            state = look_at_leaf(value)
            # By its own name, as a state may hold such a number of another one.
            name = re.split(r"\W", path)[0]
            if state in saved or (
                own is not None and own.says(name, seen_as(value), path.removeprefix(name))
            ):
                state = f"{SAID}{state}"
            elif isinstance(value, str | None):
                state = f"{TEXT}{state}"
            found[key] = state
        # By the key: torch adds some of its own where it loads a state.
        for path, value in _defaults(optimizer):
            found[f"{index} {kind.__name__}.{path}"] = look(value, ())
    return found


def _defaults(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, object]]:
    values = vars(optimizer).get("defaults")
    for name, value in values.items() if isinstance(values, Mapping) else ():
        yield f"{_DEFAULTS}{name!r}]", value


def changed_optimizers(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Name the attributes of optimizers that have changed between two looks."""
    for key in {**after, **before}:
        name, state = key.partition(" ")[2], after.get(key)
        if f".{_DEFAULTS}" in name and not (key in before and key in after):
            continue  # of another optimizer (see `exchanged`), or of a state that was loaded
        then = before.get(key)
        # An empty list is filled, say, or emptied: what is in it counts.
        is_made = (then or SAID).startswith(SAID) and (state or "").startswith(TEXT)
        if is_made or (state is None and (then or "").startswith(TEXT)):
            continue
        if state is not None and state.startswith(UNSEEN):
            yield f"{name} {state}, and it may change while the training runs"
        elif is_other(then, state):
            yield f"{name} changes while the training runs, and is no part of its state_dict"


def named_by_id(trainer: pl.Trainer) -> Iterator[str]:
    """Name the optimizers whose state_dict names parameters by `id`, as some Lookaheads do."""
    for optimizer in trainer.optimizers:
        if type(optimizer).state_dict.__module__.startswith("torch."):
            continue
        groups = optimizer.param_groups
        ids = {id(parameter) for group in groups for parameter in group["params"]}
        if not ids.isdisjoint(_numbers_in(optimizer.state_dict())):
            yield (
                f"the state_dict of {type(optimizer).__name__} names parameters by their id, which "
                f"is another one in each process"
            )


def _numbers_in(state: object) -> Iterator[int]:
    if isinstance(state, int):
        yield state
    elif is_container(state):
        for key, item in entries(state):
            yield from _numbers_in(key)
            yield from _numbers_in(item)

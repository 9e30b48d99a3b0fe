"""What the first call of a layer or of a validation makes, and later ones leave as it is.

A script's sanity check makes it from a batch of validation, ahead of the first step: an ActNorm by
the statistics of its first batch, random features that are drawn at the first call. Here it was
made in the first step, so that the first validation shows nothing. A copy of the module is set back
to where nothing was made, and validates a batch: if that leaves other values than a copy with all
that was made does, they go by which call is the first. Where no copy can be made, or it does not
validate without a Trainer, nothing is said.
"""

import copy
import inspect
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.users_code import is_users
from twinrun.generators import set_state, state_of
from twinrun.parallel.reached_code import ReachedCode
from twinrun.set_attributes import own_of_module
from twinrun.training.held_prints import values_of
from twinrun.training.longer_tables import unlike_tables
from twinrun.training.own_copies import is_larger, own_copy
from twinrun.training.readers import VALIDATING

# Bytes of what is copied: the copy counts in what memory jobs ask for.
LARGEST = 2**28
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)
_OF_LIBRARIES = ("torch.", "torchmetrics.", "pytorch_lightning.", "lightning.")
_ABSENT, _MADE = object(), object()

Look = Callable[[pl.LightningModule], Mapping[str, int]]
"""Fingerprints what is found in a module, by name."""


class FirstMade:
    """Finds what a first call had made in the first step, and would have made of validation."""

    def __init__(self, module: pl.LightningModule) -> None:
        """Note what is not made yet.

        Args:
            module: as the first step finds it.
        """
        self._before = {path: _held(part) for path, part in _parts(module)}
        self._hooks = _hooks(module)
        self._empty = _emptied(module)

    def of(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        given: Sequence[object],
        look: Look,
    ) -> tuple[list[str], list[str], set[str]]:
        """Name what goes by which call is the first, all that was made, and what goes by a length.

        The latter is no longer table of the same: with batches of other lengths than the first ones
        it may be another one.

        Args:
            trainer: of the training.
            module: behind the first step and a validation, or more of them.
            given: a validation batch, its index and that of its loader.
            look: fingerprints a module.
        """
        now = _hooks(module)
        others = [
            f"{path} (by a hook)" for path, of in self._hooks.items() if now.get(path, of) != of
        ]
        filled = self._empty - _emptied(module)
        if not (made := self._made(module)) and not others and not filled:
            return [], [], set()
        reached = ReachedCode(trainer, module)
        asked = _asked_in_validation(reached)
        made = {
            (path, name): value
            for (path, name), value in made.items()
            if name in asked or not is_users(type(module.get_submodule(path)).__module__)
        }
        filled = {each for each in filled if each[1] in asked}
        names = [*others, *(f"{p}.{name}" if p else name for p, name in (*made, *sorted(filled)))]
        states = [(of, state_of(of)) for of in reached.generators.values()]
        try:
            is_tried = made and not is_larger(module, LARGEST)
            found, by_length = (
                _apart(trainer, module, given, look, made) if is_tried else ([], set())
            )
        except Exception:  # no copy can be made, or it asks for its Trainer
            return [], names, set()
        else:
            return found, names, by_length
        finally:
            for of, state in states:
                set_state(of, state)

    def _made(self, module: pl.LightningModule) -> dict[tuple[str, str], Any]:
        """Find what was nothing, None, False or 0 before the first step; by part and name."""
        found: dict[tuple[str, str], Any] = {}
        for path, part in _parts(module):
            if (before := self._before.get(path)) is None:
                continue  # a new part is made anew with the name in its holder
            for name, now in _held(part).items():
                if now is _MADE and (was := before.get(name, _ABSENT)) is not _MADE:
                    found[path, name] = was
        return found


def _hooks(module: pl.LightningModule) -> dict[str, list[int]]:
    """Number the hooks of each part that its calls come to."""
    return {
        path: [*part._forward_pre_hooks, *part._forward_hooks]
        for path, part in module.named_modules()
    }


def _emptied(module: pl.LightningModule) -> set[tuple[str, str]]:
    """Find lists and the like with nothing in them, by part and name."""
    return {
        (path, name)
        for path, part in _parts(module)
        for name, value in own_of_module(part).items()
        if type(value) in _CONTAINERS and not value
    }


def _apart(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    given: Sequence[object],
    look: Look,
    made: Mapping[tuple[str, str], Any],
) -> tuple[list[str], set[str]]:
    """Name what validation leaves otherwise where nothing is made, of what it would leave alone.

    Also what of that has another length, and other values as far as both go.
    """
    copied = own_copy(trainer, module)
    before = look(copied)
    _validate(trainer, copied, given)
    after = look(copied)
    values = values_of(copied)
    kept = {of: getattr(copied.get_submodule(of[0]), of[1]) for of in made}
    copied = _unmade(trainer, module, made)
    _validate(trainer, copied, given)
    for path, name in made:
        part = copied.get_submodule(path)
        if _held(part).get(name, _ABSENT) is not _MADE:  # validation does not make it
            setattr(part, name, kept[path, name])
    found = look(copied)
    every = dict.fromkeys([*after, *found])
    apart = [name for name in every if before.get(name) == after.get(name) != found.get(name)]
    return apart, unlike_tables(values, values_of(copied), apart)


def _validate(trainer: pl.Trainer, module: pl.LightningModule, given: Sequence[object]) -> None:
    several = "dataloader_idx" in inspect.signature(module.validation_step).parameters
    batch, *indices = copy.deepcopy([*given[: 3 if several else 2]])
    with isolate_rng(include_cuda=torch.cuda.is_initialized()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it logs without a Trainer
        with torch.no_grad(), trainer.precision_plugin.val_step_context():
            module.eval().validation_step(batch, *indices)


def _unmade(
    trainer: pl.Trainer, module: pl.LightningModule, made: Mapping[tuple[str, str], Any]
) -> pl.LightningModule:
    """Copy a module and set back what its first calls had made."""
    copied = own_copy(trainer, module)
    for (path, name), value in made.items():
        _set_back(copied.get_submodule(path), name, value)
    return copied


def _set_back(part: torch.nn.Module, name: str, value: Any) -> None:
    if name in part._buffers and value is not _ABSENT:
        part._buffers[name] = None if value is None else value.clone()
        return
    delattr(part, name)
    if value is not _ABSENT:
        vars(part)[name] = value.clone() if isinstance(value, torch.Tensor) else value


def _parts(module: pl.LightningModule) -> Iterator[tuple[str, torch.nn.Module]]:
    for path, part in module.named_modules():
        is_compiled = isinstance(part, torch.jit.ScriptModule)  # which holds all in C++
        if not is_compiled and not type(part).__module__.startswith(_OF_LIBRARIES):
            yield path, part


def _held(part: torch.nn.Module) -> dict[str, Any]:
    """Return what a part has, by name: `_MADE`, or what may be made yet."""
    attributes = own_of_module(part).items()
    found = {name: value if _is_unmade(value) else _MADE for name, value in attributes}
    found |= dict.fromkeys((*part._parameters, *part._modules), _MADE)
    for name, buffer in part._buffers.items():
        is_unmade = buffer is None
        with suppress(Exception):  # of a kind that has no such number
            is_unmade |= buffer is not None and _is_nothing(buffer)
        copied = buffer if buffer is None else buffer.detach().clone()
        found[name] = copied if is_unmade else _MADE
    return found


def _is_unmade(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) is torch.Tensor and value.numel() == 0
    return value is None or (type(value) in (bool, int) and not value)


def _is_nothing(buffer: torch.Tensor) -> bool:
    return buffer.numel() == 0 or (buffer.numel() == 1 and not buffer.item())


def _asked_in_validation(reached: ReachedCode) -> set[str]:
    """Return the names in all functions that validation comes to, as far as names tell."""
    functions: dict[str, set[str]] = {}
    for of_class in reached.names.values():
        for function, names in of_class.items():
            functions.setdefault(function, set()).update(names)
    found: set[str] = set()
    waiting = [*VALIDATING, "forward"]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += functions.get(name, ())
    return found

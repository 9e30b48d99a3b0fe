"""Which plain values a replayed step goes by that are others now than when it was recorded.

Layers, memory, modes and hooks are looked at before each replay (`acceleration.recorded_parts`).
Plain attributes are too many for that: they are looked at with the first and the last step of each
epoch, and a change of one that code of the step names puts the run in doubt. So does code of the
step that reads a number which changes by itself.
"""

import argparse
import functools
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch

from twinrun.acceleration.under_trainer import Speed
from twinrun.checkpoint.users_code import is_code, is_users
from twinrun.parallel.kept_values import kept_values, words_of
from twinrun.parallel.set_before_read import carried
from twinrun.proof_records import Proof
from twinrun.set_attributes import own_of_module
from twinrun.training.read_by_steps import ReadBySteps
from twinrun.wording import some

_SPACES = (types.SimpleNamespace, argparse.Namespace)
_PLAIN = {bool, int, float, complex, str, bytes, type(None), tuple, list, dict, set}


class _Seen(NamedTuple):
    """A value, as a replay has it."""

    words: str | None
    """What it is; None where a replay reads it where it lies."""
    held: object
    """What must still be there: a tensor or a function; None of all others."""
    address: int
    """Where in memory a tensor lies."""


class LateInReplays(pl.Callback):
    """Looks at plain values while steps are replayed; one of the Trainer's callbacks."""

    def __init__(self, speed: Speed) -> None:
        """Look at nothing yet.

        Args:
            speed: knows what is recorded.
        """
        self._speed = speed
        # Which keeps a recording while it is replayed, so that no other gets its number.
        self._of_recordings: dict[int, tuple[object, dict[str, _Seen]]] = {}
        self._changed: dict[str, None] = {}
        self._is_replayed = False
        self._trainer: pl.Trainer | None = None
        self._found: tuple[int, list[str]] | None = None

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Compare, where an epoch begins or ends, or note what a step was recorded with."""
        recordings = {id(found): found for found in self._speed.recordings}
        if not recordings and not self._of_recordings:
            return
        self._is_replayed, self._trainer = True, trainer
        is_other = recordings.keys() != self._of_recordings.keys()
        if not (is_other or batch_idx == 0 or trainer.is_last_batch):
            return
        now = _values(trainer, pl_module)
        known = self._of_recordings
        self._of_recordings = {
            key: known.get(key, (recording, now)) for key, recording in recordings.items()
        }
        for _, before in self._of_recordings.values():
            for name in {*before, *now}:
                if _differ(before.get(name), now.get(name)):
                    self._changed[name] = None

    def hindrance(self) -> str | None:
        """Say why a checkpoint would not lead to the same bits; `Resumable` asks.

        A resumed training records its steps with the values of then.
        """
        if not self._is_replayed or self._trainer is None:
            return None
        return next(iter(self._doubts(self._trainer, self._trainer.lightning_module)), None)

    def unproven(
        self, trainer: pl.Trainer, module: pl.LightningModule, proof: Proof | None
    ) -> list[str]:
        """Say what of fast steps no proof has seen, and no replay; nothing of plain steps."""
        compiled = [] if proof is None else self._speed.unproven(proof["steps"])
        return [*compiled, *(self._doubts(trainer, module) if self._is_replayed else [])]

    def _doubts(self, trainer: pl.Trainer, module: pl.LightningModule) -> list[str]:
        # To read all code takes a part of a second.
        if self._found is None or self._found[0] != len(self._changed):
            self._found = len(self._changed), [*self._found_in(trainer, module)]
        return self._found[1]

    def _found_in(self, trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
        by_steps = ReadBySteps(trainer, module)
        held = kept_values(trainer, module) if self._changed else {}
        named = [
            name
            for name in self._changed
            if by_steps.is_cut_short
            or name.rpartition(".")[2] in by_steps.names
            # Layers of torch's read their own numbers, such as the share of a dropout.
            or (name in held and not is_users(type(held[name].holder).__module__))
        ]
        if late := carried(named, trainer, module):
            yield (
                f"replayed steps (cuda_graph) may go by what {some(late)} was when they were "
                f"recorded, and it has changed since; keep it in a buffer that is written in "
                f"place, or leave cuda_graph out"
            )
        if counted := [*by_steps.counted()]:
            yield (
                f"replayed steps (cuda_graph) go by the numbers that they were recorded with, and "
                f"{some(counted)}; keep it in a buffer that is written in place, or leave "
                f"cuda_graph out"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training would not find again."""
        return {"changed": [*self._changed], "is_replayed": self._is_replayed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what the training has found that is resumed."""
        self._changed = dict.fromkeys(state_dict["changed"])
        self._is_replayed = state_dict["is_replayed"]


def _values(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, _Seen]:
    """Return what code of a step may read beside layers, parameters and buffers, by name."""
    device = module.device.type
    found = {name: _seen(kept.value, device) for name, kept in kept_values(trainer, module).items()}
    files: set[str] = set()
    for path, part in module.named_modules():
        name = f"{type(module).__name__}.{path}" if path else type(module).__name__
        with suppress(Exception):  # a class of a user's may refuse
            found |= _beside(part, name, device)
        files |= {base.__module__ for base in type(part).__mro__ if is_users(base.__module__)}
    for file in files & sys.modules.keys():
        for key, value in [*vars(sys.modules[file]).items()]:
            if type(value) in _PLAIN and not key.startswith("__"):
                found[f"{file}.{key}"] = _seen(value, device)
    return found


def _beside(part: torch.nn.Module, name: str, device: str) -> dict[str, _Seen]:
    """Return functions, hyperparameters and spaces of names that a module of a user's keeps."""
    if not is_users(type(part).__module__):
        return {}
    found: dict[str, _Seen] = {}
    for key, value in own_of_module(part).items():
        if is_code(value) or isinstance(value, functools.partial):
            found[f"{name}.{key}"] = _Seen(None, value, 0)
        elif type(value) in _SPACES:
            own = {f"{name}.{key}.{inner}": item for inner, item in vars(value).items()}
            found |= {inner: _seen(item, device) for inner, item in own.items()}
    for key, value in dict(vars(part).get("_hparams") or {}).items():
        found[f"{name}.hparams.{key}"] = _seen(value, device)
    return found


def _seen(value: Any, device: str) -> _Seen:
    if issubclass(type(value), torch.Tensor) and value.device.type == device:
        with suppress(Exception):  # one without memory of its own
            return _Seen(None, value, value.data_ptr())
    # Of a tensor elsewhere a recording keeps the value that it had.
    return _Seen(words_of(value), None, 0)


def _differ(before: _Seen | None, now: _Seen | None) -> bool:
    if before is None or now is None:
        return True
    is_same = before.held is now.held and before.address == now.address
    return not (is_same and before.words == now.words)

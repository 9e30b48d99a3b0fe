"""Whether weights, optimizers and schedules are what they were where a checkpoint was taken.

A module's own hook may change what Lightning saves and loads, and torch's optimizers load a state
in the dtype of its parameter, whatever it had.
"""

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun import artifacts
from twinrun.checkpoint.left_out import tensors_of
from twinrun.checkpoint.looks import UNSEEN, digest, look
from twinrun.checkpoint.own_memory import id_of_memory, is_by_itself
from twinrun.checkpoint.plain_data import as_data
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.straight import save_straight
from twinrun.checkpoint.unsaved_state import OURS
from twinrun.plain_tensors import bare


def whole_state(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, str]:
    """Write down all that is trained, and what trains it, by its name."""
    found = {f"{name} of the module": digest(tensor) for name, tensor in tensors_of(module)}
    schedules = schedules_of(trainer)
    for kind, parts in (("optimizer", trainer.optimizers), ("schedule", schedules)):
        for turn, part in enumerate(parts):
            seen = _state_of(part)
            # What says another thing each time says nothing; torch's own do not.
            is_steady = type(part).__module__.startswith("torch.") or seen == _state_of(part)
            if is_steady and not seen.startswith(UNSEEN):
                found[f"the state of {type(part).__name__} ({kind} {turn + 1})"] = seen
    return found


def unlike(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Name what is not as it was; what is in one of both alone is another thing's matter."""
    return next((name for name in before if after.get(name, before[name]) != before[name]), None)


def load_optimizers(trainer: pl.Trainer, states: Sequence[dict[str, Any]]) -> None:
    """Load the states of optimizers, each tensor in the dtype that it was saved in.

    They are copied, since an optimizer writes to them, and they may be loaded again: into the
    tensors that there are, where these are like them and have their memory to themselves.
    """
    pairs = [
        (own[key], held[key])
        for own, held in _states(trainer, states)
        for key in own.keys() & held.keys()
    ]
    held_by = Counter(id_of_memory(own) for own, _ in pairs)
    held_by.update(id_of_memory(tensor) for _, tensor in tensors_of(trainer.lightning_module))
    filled = {
        id(saved): own.copy_(saved)
        for own, saved in pairs
        if held_by[id_of_memory(own)] == 1 and _can_be_filled(own, saved)
    }
    loaded = copy.deepcopy([*states], dict[int, Any](filled))
    trainer.strategy.load_optimizer_state_dict({"optimizer_states": loaded})
    for own, held in _states(trainer, states):
        own |= {key: _as_saved(own[key], held[key]) for key in own.keys() & held.keys()}


def _states(
    trainer: pl.Trainer, states: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what optimizers hold of each parameter, and what was saved of it."""
    for optimizer, state in zip(trainer.optimizers, states, strict=True):
        saved = state.get("state") if isinstance(state, dict) else None
        if not isinstance(saved, dict) or not isinstance(optimizer.state, dict):
            continue
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for index, held in saved.items():
            is_known = isinstance(index, int) and index < len(parameters)
            own = optimizer.state.get(parameters[index]) if is_known else None
            if isinstance(own, dict) and isinstance(held, dict):
                yield own, held


def _can_be_filled(own: object, saved: object) -> bool:
    """Say whether a tensor of an optimizer's takes what was saved as a copy of that would."""
    if not isinstance(own, torch.Tensor) or not isinstance(saved, torch.Tensor):
        return False
    if not (type(own) is type(saved) is torch.Tensor) or own.requires_grad or saved.requires_grad:
        return False
    if not is_by_itself(own) or not is_by_itself(saved):
        return False
    return (own.dtype, own.shape, own.stride()) == (saved.dtype, saved.shape, saved.stride())


@contextmanager
def saving(trainer: pl.Trainer, module: pl.LightningModule, path: Path) -> Iterator["Saving"]:
    """Yield what notices what hooks change; no file of it is left behind.

    Args:
        trainer: of the training.
        module: that is trained.
        path: of the checkpoint that is going to be written.

    Raises:
        OSError: if the weights cannot be written beside it.
    """
    beside = path.with_name(f"{path.name}.before")
    try:
        yield Saving(trainer, module, beside)
    finally:
        artifacts.remove(beside)


class Saving:
    """Notices what the hooks that save a checkpoint change, and takes it back."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule, beside: Path) -> None:
        """Look at what there is, and write the weights to a file if somebody has such a hook.

        A copy in memory would be needed by all, for the few whose hook changes them.
        """
        self._trainer, self._module = trainer, module
        owners = (module, vars(trainer).get("datamodule"), *vars(trainer)["callbacks"])
        hooks = (getattr(type(owner), "on_save_checkpoint", None) for owner in owners)
        names = (getattr(hook, "__module__", None) or "twinrun." for hook in hooks)
        self._is_watched = not all(name.startswith(OURS) for name in names)
        self.state = whole_state(trainer, module)
        self._beside = beside
        if self._is_watched:
            save_straight({name: bare(t.detach()) for name, t in tensors_of(self._module)}, beside)

    def undo(self) -> str | None:
        """Return what has been changed; weights are what they were afterwards."""
        if not self._is_watched:
            return None
        changed = unlike(self.state, whole_state(self._trainer, self._module))
        if changed is not None:
            kept = as_data(self._beside)
            with torch.no_grad():
                for name, tensor in tensors_of(self._module):
                    tensor.copy_(kept.get(name, tensor))
        return changed


def _as_saved(own: object, saved: object) -> object:
    """Return a value of a state as it was saved, on the device on which torch has loaded it."""
    if isinstance(own, torch.Tensor) and isinstance(saved, torch.Tensor):
        # A copy, since the optimizer writes to it, and the states may be loaded again.
        return own if own.dtype == saved.dtype else saved.to(own.device, copy=True)
    if type(own) is dict and isinstance(saved, dict):
        return {key: _as_saved(of, saved.get(key, of)) for key, of in own.items()}
    is_row = isinstance(own, list | tuple) and isinstance(saved, list | tuple)
    if is_row and type(own) in (list, tuple) and len(own) == len(saved):
        made = [_as_saved(*both) for both in zip(own, saved, strict=True)]
        return made if isinstance(own, list) else tuple(made)
    return own


def _state_of(part: Any) -> str:
    try:
        return look(part.state_dict(), ())
    except Exception as error:  # of whatever class: it may be a user's
        return f"{UNSEEN} ({type(error).__name__})"

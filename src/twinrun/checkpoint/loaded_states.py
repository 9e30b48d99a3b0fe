"""States of callbacks and data modules, loaded as often as hooks have undone it, and no more.

Lightning loads each of them once, before the hooks that begin a training. To load it again is right
where one of these began anew. A callback whose `load_state_dict` adds to what there is (a counter,
a list of losses) would count all of it twice: so it is asked again only where its attributes are
not as they were loaded, and what it says then has to be what was saved.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.plain_data import as_data
from twinrun.checkpoint.unsaved_state import (
    OURS,
    kept_anyway,
    own_of_callback,
    says_itself,
)

OWN = "twinrun."


class LoadedCallbacks:
    """The states of a checkpoint, and how callbacks looked when they had been loaded."""

    def __init__(self, states: Mapping[str, Any], saved: Mapping[str, str]) -> None:
        """Keep the states, and how callbacks looked that had them, by their `state_key`."""
        self._states, self._saved = states, saved
        self._looks: dict[str, str] = {}
        self._waiting = set[str]()  # those that a later hook puts where they are asked for

    def look(self, trainer: pl.Trainer) -> None:
        """Note how the callbacks look now that their states have been loaded."""
        for callback in self._with_a_state(trainer):
            key = callback.state_key
            self._looks[key] = look(vars(callback), ())
            if _gives(callback, self._states[key]) is False:
                self._waiting.add(key)

    def put_back(self, trainer: pl.Trainer) -> str | None:
        """Load the states that hooks have changed; say which one did not come back to it."""
        for callback in self._with_a_state(trainer):
            key = callback.state_key
            seen = look(vars(callback), ())
            is_changed = seen.startswith(UNSEEN) or seen != self._looks.get(key)
            if is_changed and not self._has_come(callback, trainer):
                # A copy, since it may be loaded again, and a callback may use the very tensors.
                callback.load_state_dict(copy.deepcopy(self._states[key]))
                self._looks[key] = look(vars(callback), ())
            if not _is_lightnings(callback) and not _is_as_saved(callback, self._states[key]):
                return _elsewhere(callback)
        return None

    def _has_come(self, callback: pl.Callback, trainer: pl.Trainer) -> bool:
        """Say whether a hook has put a loaded state where it was at the stop."""
        key = callback.state_key
        if not _gives(callback, self._states[key]):
            return False
        saved = self._saved.get(key)
        is_as_then = saved is not None and looks_of_callbacks(trainer).get(key) == saved
        return key in self._waiting or is_as_then

    def _with_a_state(self, trainer: pl.Trainer) -> Iterator[pl.Callback]:
        """Yield those of others: ours have theirs from before the hooks, and do not begin anew."""
        for callback in vars(trainer)["callbacks"]:
            is_own = type(callback).__module__.startswith(OWN)
            if not is_own and callback.state_key in self._states:
                yield callback


def looks_of_callbacks(trainer: pl.Trainer) -> dict[str, str]:
    """Write down what callbacks with a state of their own have, by their `state_key`.

    What is None may be an attribute of the class until a state has waited there.
    """
    kept = kept_anyway(trainer)
    owners = [each for each in vars(trainer)["callbacks"] if says_itself(type(each))]
    held = {each.state_key: dict(own_of_callback(each, kept)) for each in owners}
    looks = {
        key: look({name: value for name, value in own.items() if value is not None}, kept)
        for key, own in held.items()
    }
    return {key: seen for key, seen in looks.items() if not seen.startswith(UNSEEN)}


def never_loaded(trainer: pl.Trainer) -> Iterator[str]:
    """Name the callbacks that save a state of which their classes load nothing."""
    for callback in vars(trainer)["callbacks"]:
        kind = type(callback)
        methods = (kind.state_dict, kind.load_state_dict, kind.on_load_checkpoint)
        saves, loads, reads = (not str(each.__module__).startswith(OURS) for each in methods)
        if saves and not (loads or reads) and callback.state_dict():
            yield (
                f"{kind.__name__} has a state_dict of its own, and no load_state_dict that would "
                f"load what it adds"
            )


class LoadedData:
    """The state of a data module in a checkpoint."""

    def __init__(self, checkpoint: Mapping[str, Any], trainer: pl.Trainer) -> None:
        """Copy it, if there is one."""
        kind = type(vars(trainer).get("datamodule"))
        # As Lightning names it. It has been loaded, by what may take out of it what it loads.
        if kind.__qualname__ in checkpoint and trainer.ckpt_path is not None:
            checkpoint = as_data(Path(trainer.ckpt_path))
        self._state = copy.deepcopy(checkpoint.get(kind.__qualname__))

    def put_back(self, trainer: pl.Trainer) -> str | None:
        """Load it where it is not as it was; say so if the data module does not come back to it."""
        data = vars(trainer).get("datamodule")
        if data is None or self._state is None or _is_as_saved(data, self._state):
            return None
        data.load_state_dict(copy.deepcopy(self._state))
        return None if _is_as_saved(data, self._state) else _elsewhere(data)


def _is_lightnings(callback: pl.Callback) -> bool:
    # One that writes checkpoints names its folder, which each process has anew.
    is_known = type(callback).__module__.startswith(OURS)
    return is_known or isinstance(callback, pl.callbacks.Checkpoint)


def _elsewhere(owner: object) -> str:
    return (
        f"{type(owner).__name__} does not come back to what its state_dict gave: its "
        f"load_state_dict has to set all of it, whatever there was before"
    )


def _is_as_saved(owner: Any, saved: object) -> bool:
    """Say whether something of a user's gives what it gave; also where nobody can know."""
    return _gives(owner, saved) is not False


def _gives(owner: Any, saved: object) -> bool | None:
    """Say whether it gives what it gave; None if nobody can know."""
    with isolate_rng():
        first, second = (_state_of(owner) for _ in range(2))
    # A clock, say.
    is_known = first == second and not first.startswith(UNSEEN)
    return first == look(saved, ()) if is_known else None


def _state_of(owner: Any) -> str:
    try:
        return look(owner.state_dict(), ())
    except Exception as error:  # of whatever class: it may need what comes later
        return f"{UNSEEN} ({type(error).__name__})"

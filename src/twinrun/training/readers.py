"""Which functions read what validation leaves in a module or callback, as far as names tell."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType

import pytorch_lightning as pl
import torch
from torchmetrics import Metric, MetricTracker

from twinrun.checkpoint.users_code import is_users
from twinrun.hidden_content import saves_itself
from twinrun.parallel.reached_code import ReachedCode
from twinrun.set_attributes import own_of_module
from twinrun.training.set_anew import IN_VALIDATION, metric_of, set_anew

# By these a name that is put together may ask for any attribute.
_BY_TEXT = {"getattr", "vars", "__dict__", "__getattribute__", "getmembers", "eval", "exec"}
_BY_TEXT |= {"attrgetter", "__getstate__"}
VALIDATING = {"validation_step", *(n for n in dir(pl.LightningModule) if "on_validation_" in n)}
"""What reads an attribute in these reads it in a validation alone."""


class Readers:
    """The functions of a user's that a training may come to, by what they read."""

    def __init__(
        self,
        reached: ReachedCode,
        module: pl.LightningModule,
        callbacks: Sequence[pl.Callback],
    ) -> None:
        """Read the code.

        Args:
            reached: of a training.
            module: whose attributes are asked about.
            callbacks: or whose.
        """
        found: dict[str, set[str]] = {}
        for functions in reached.names.values():
            for function, names in functions.items():
                for name in names:
                    found.setdefault(name, set()).add(function)
        self.of_check = sorted(found.get("sanity_checking", ()))
        """Those that ask the Trainer whether it is in a sanity check."""
        self._module = module
        self._held = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
        self._of_module: dict[str, set[str]] = {}
        self._of_callbacks: dict[str, set[str]] = {}
        self._of_parts: dict[str, set[str]] = {}
        if reached.is_cut_short or _BY_TEXT & found.keys():
            return  # any may be read unseen
        if _is_read(module, pl.LightningModule, reached):
            self._of_module = _of_module(module, found)
        self._of_callbacks = {
            f"{type(callback).__name__}.{name}": _after(callback, name, found)
            for callback in callbacks
            if _is_read(callback, pl.Callback, reached)
            for name in vars(callback)
            if not hasattr(pl.Callback, name)
        }
        self._of_parts = {
            f"{path}.{name}": _as_named(part, found.get(name, set()), found)
            for path, part in module.named_modules()
            if path and _is_read(part, torch.nn.Module, reached)
            for name, value in own_of_module(part).items()
            if not saves_itself(value) and not hasattr(torch.nn.Module, name)
        }

    def of(self, name: str) -> set[str] | None:
        """Return the functions that read what has a name; None where nobody knows.

        What validation leaves there may be looked at after the training by nobody of these; neither
        is one counted that finds what the same validation has set.

        Args:
            name: the path of an attribute, that of a callback behind the name of its class.
        """
        if name in self._held:
            return None
        first, *others = re.split(r"[.\[]", name)
        if others and (found := self._of_callbacks.get(f"{first}.{others[0]}")) is not None:
            return found
        if (found := self._of_module.get(first)) is not None:
            child = dict(self._module.named_children()).get(first)
            is_own = first in vars(self._module) or isinstance(child, MetricTracker)
            return found if is_own or metric_of(self._module, name) is not None else None
        return next(
            (
                by
                for of, by in self._of_parts.items()
                if re.match(rf"{re.escape(of)}($|[.\[])", name)
            ),
            None,
        )


def _as_named(holder: object, by: set[str], found: Mapping[str, set[str]]) -> set[str]:
    """Replace methods that others alone name, by way of each other too, by those.

    Args:
        holder: of an attribute.
        by: the functions that read it.
        found: functions by what they name.
    """
    known: set[str] = set()
    waiting, replaced = [*by], set()
    while waiting:
        if (name := waiting.pop()) in known:
            continue
        known.add(name)
        if (namers := found.get(name, set()) - {name}) and _is_own_method(type(holder), name):
            waiting += namers
        else:
            replaced.add(name)
    return replaced or by  # of some that name each other alone


def _is_own_method(kind: type, name: str) -> bool:
    """Say whether it is a method of a user's class, which no library's calls by itself."""
    known = (torch.nn.Module, pl.LightningModule, pl.Callback)
    is_hook = name.startswith("__") or any(hasattr(library, name) for library in known)
    return not is_hook and isinstance(inspect.getattr_static(kind, name, None), FunctionType)


def _is_read(holder: object, of_lightning: type, reached: ReachedCode) -> bool:
    """Say whether the code of its class is read: that of an installed one is not."""
    others = set(type(holder).__mro__) - set(of_lightning.__mro__)
    return all(kind.__name__ in reached.names or is_users(kind.__module__) for kind in others)


def _of_module(module: pl.LightningModule, found: Mapping[str, set[str]]) -> dict[str, set[str]]:
    # A schedule that is stepped in validation alone sets the rate.
    own = {name for name, value in own_of_module(module).items() if not saves_itself(value)}
    # One that is named nowhere is asked for among all layers.
    kinds = Metric, MetricTracker
    metrics = {n for n, part in module.named_children() if isinstance(part, kinds) and n in found}
    names: Iterable[str] = own | metrics
    return {
        name: _after(module, name, found) for name in names if not hasattr(pl.LightningModule, name)
    }


def _after(holder: object, name: str, found: Mapping[str, set[str]]) -> set[str]:
    """Return the functions that read an attribute, none if each validation sets it before."""
    by = found.get(name, set())
    for position, hook in enumerate(IN_VALIDATION):
        later = VALIDATING - {*IN_VALIDATION[: position + 1]}
        if by <= later and name in set_anew(holder, hook):
            return set()
    return _as_named(holder, by, found)

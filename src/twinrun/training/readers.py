"""Which functions read what validation leaves in a module or callback, as far as names tell."""

import re
from collections.abc import Iterable, Mapping, Sequence

import pytorch_lightning as pl
from torchmetrics import Metric

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
        trainer: pl.Trainer,
        module: pl.LightningModule,
        callbacks: Sequence[pl.Callback],
    ) -> None:
        """Read the code.

        Args:
            trainer: of a training.
            module: whose attributes are asked about.
            callbacks: or whose.
        """
        reached = ReachedCode(trainer, module)
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
        is_own = first in vars(self._module) or metric_of(self._module, name) is not None
        return self._of_module.get(first) if is_own else None


def _is_read(holder: object, of_lightning: type, reached: ReachedCode) -> bool:
    """Say whether the code of its class is read: that of an installed one is not."""
    others = set(type(holder).__mro__) - set(of_lightning.__mro__)
    return all(kind.__name__ in reached.names or is_users(kind.__module__) for kind in others)


def _of_module(module: pl.LightningModule, found: Mapping[str, set[str]]) -> dict[str, set[str]]:
    # A schedule that is stepped in validation alone sets the rate.
    own = {name for name, value in own_of_module(module).items() if not saves_itself(value)}
    # One that is named nowhere is asked for among all layers.
    metrics = {n for n, part in module.named_children() if isinstance(part, Metric) and n in found}
    names: Iterable[str] = own | metrics
    return {
        name: _after(module, name, found) for name in names if not hasattr(pl.LightningModule, name)
    }


def _after(holder: object, name: str, found: Mapping[str, set[str]]) -> set[str]:
    """Return the functions that read an attribute, none if each validation sets it before."""
    by = found.get(name, set())
    for position, hook in enumerate(IN_VALIDATION):
        later = VALIDATING - {*IN_VALIDATION[: position + 1]}
        if by <= later and name in set_anew(holder, (hook,)):
            return set()
    return by

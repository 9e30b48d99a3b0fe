"""How optimizers update, by the operations of their updates.

Beside these nothing is looked at: neither a closure's forward and backward pass nor the hooks of a
step, and nothing is left of a look after a step that broke off.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import cast
from weakref import WeakKeyDictionary, finalize

import torch
from torch._ops import OpOverload
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.hooks import RemovableHandle

Arguments = tuple[object, ...]
Options = dict[str, object]
Form = tuple[tuple[object, object], ...]


class _Updates(TorchDispatchMode):
    """Notes the names of operations; they compute what they would compute."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.is_on = False

    def on(self) -> None:
        self.__enter__()
        self.is_on = True

    def off(self) -> None:
        # Leaving a mode pops the innermost, which may be the user's: then it stays, and is deaf.
        if self.is_on and _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)
        self.is_on = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Leave compiled code compiled: under any other mode torch runs none of it."""
        return True

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Collection[type],
        args: Arguments = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if self.is_on:
            self.names.add(func._schema.name.rpartition("::")[2])
        return func(*args, **(kwargs or {}))


class _Keywords(dict[str, object]):
    """Keyword arguments of one call of `step`, which live as long as it does, however it ends."""


@dataclass(eq=False)
class _Watch:
    """One update that is looked at."""

    optimizer: torch.optim.Optimizer
    """Whose update it is."""
    hooks: list[RemovableHandle]
    """To be removed when it is over."""
    updates: _Updates = field(default_factory=_Updates)
    """The operations that were seen."""
    is_over: finalize | None = None
    """Ends the look where the update breaks off; None before it has begun."""


class OptimizerForms:
    """Looks at the first update of every optimizer of the process, and after a change of its form.

    Among them are those that a module makes under way, or keeps from the Trainer.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        """`fused`, `foreach` or `for-loop`, and the optimizer's class: `fused (Adam)`."""
        self._seen: WeakKeyDictionary[torch.optim.Optimizer, Form] = WeakKeyDictionary()
        self._watched: dict[torch.optim.Optimizer, _Watch] = {}
        self._hooks: list[RemovableHandle] = []

    def start(self) -> None:
        """Begin to look, by hooks of all optimizers."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def stop(self) -> None:
        """Look no more; also after an exception inside of an update."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        for watch in reversed(list(self._watched.values())):
            self._close(watch)

    def _before(self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options) -> None:
        # A module may compile `step`: what is looked at here would break its graph.
        if torch.compiler.is_compiling():
            return
        if (left := self._watched.get(optimizer)) is not None:  # its step broke off
            self._close(left)
        if self._seen.get(optimizer) == _form(optimizer):
            return
        # Beside the update itself, so that hooks of the module (a moving average) are no part of
        # it: these begin last and end first, which hooks of all optimizers do not.
        begin = optimizer.register_step_pre_hook(self._begin)
        end = optimizer.register_step_post_hook(self._end)
        hooks = optimizer._optimizer_step_post_hooks
        cast("OrderedDict[int, object]", hooks).move_to_end(end.id, last=False)
        self._watched[optimizer] = _Watch(optimizer, [begin, end])

    def _begin(
        self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options
    ) -> tuple[Arguments, Options] | None:
        watch = self._watched.get(optimizer)
        if watch is None or watch.updates.is_on:
            return None
        # Forward pass, backward pass and clipping, which has operations on lists, are no update.
        args = tuple(self._unwatched(each) for each in args)
        keywords = _Keywords({name: self._unwatched(each) for name, each in kwargs.items()})
        # No hook follows an exception, which the module may catch.
        watch.is_over = finalize(keywords, self._close, watch)
        watch.updates.on()
        return args, keywords

    def _after(self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options) -> None:
        # Not in `_end`: nothing may be removed from hooks while they are called.
        if not torch.compiler.is_compiling() and optimizer in self._watched:
            self._close(self._watched[optimizer])

    def _close(self, watch: _Watch) -> None:
        """Leave nothing of a look behind."""
        if watch.is_over is not None:
            watch.is_over.detach()
        watch.updates.off()
        for hook in watch.hooks:
            hook.remove()
        if self._watched.get(watch.optimizer) is watch:
            del self._watched[watch.optimizer]

    def _end(self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options) -> None:
        watch = self._watched.get(optimizer)
        if watch is None or not watch.updates.is_on:
            return
        updates = watch.updates
        updates.off()
        if not updates.names:  # no parameter had a gradient
            return
        self._seen[optimizer] = _form(optimizer)
        forms = [
            form
            for form in ("fused", "foreach")
            if any(name.startswith(f"_{form}_") for name in updates.names)
        ]
        # The fused forms count their steps with operations on lists.
        form = forms[0] if forms else "for-loop"
        name = type(optimizer).__name__
        self.found.add(f"{form} ({name})")
        if forms and any(_is_otherwise(group, form) for group in optimizer.param_groups):
            self.found.add(f"for-loop (some groups of {name})")

    def _unwatched(self, value: object) -> object:
        """Return a closure during which nothing is noted; of anything else itself."""
        if not callable(value) or isinstance(value, torch.optim.Optimizer):
            return value

        def closure(*args: object, **kwargs: object) -> object:
            paused = [each.updates for each in self._watched.values() if each.updates.is_on]
            for updates in reversed(paused):
                updates.off()
            # Of a closure that raises nothing is left to be noted: its step is over.
            result = value(*args, **kwargs)
            for updates in paused:
                updates.on()
            return result

        return closure


def _is_otherwise(group: Mapping[str, object], form: str) -> bool:
    """Say whether a group is not updated in a form in which others of its optimizer are."""
    asked = group.get(form)
    if asked is not None:
        return not asked
    # One that was added later has what torch chooses by itself: lists on a GPU, and never fused.
    parameters = cast("list[torch.Tensor]", group["params"])
    return form == "fused" or all(parameter.is_cpu for parameter in parameters)


def _form(optimizer: torch.optim.Optimizer) -> Form:
    """Return what a change of is a reason to look once more."""
    return tuple((group.get("foreach"), group.get("fused")) for group in optimizer.param_groups)

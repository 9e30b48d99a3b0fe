"""What a module is made of: its layers, their order and functions, hooks, attributes of tensors.

No checkpoint holds any of it: a resumed training has what its process made before the first epoch,
and would go on without a hook that was registered later, or with a layer that was exchanged. Hooks
and functions are compared by their code: what they hold is looked at elsewhere (`reached`).
"""

import inspect
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytorch_lightning as pl
import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.same_code import A_LIBRARYS, Code, code_of
from twinrun.checkpoint.unsaved_state import OURS
from twinrun.containers import attributes_of

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_OF_TENSOR = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_OPTIMIZER = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_OF_ALL_OPTIMIZERS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
_HOW = ("with_kwargs", "always_called")
_BASES = (torch.nn.Module, pl.LightningModule, pl.Callback, torch.optim.Optimizer)
_OF_DYNAMO = "_dynamo"  # what torch.compile notes at tensors


class Structure:
    """A look at it."""

    def __init__(self, trainer: pl.Trainer) -> None:
        module = trainer.lightning_module
        self._called = type(module).__name__
        parts = dict(module.named_modules(remove_duplicate=False))
        self._kinds = {path: type(part) for path, part in parts.items()}
        # A scripted layer has a mapping of its own there, without an iterator.
        self._inside = {path: [*part._modules.keys()] for path, part in parts.items()}
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        optimizers = trainer.optimizers
        callbacks = [each for each in vars(trainer)["callbacks"] if _is_looked_at(each)]
        self._hooks = {self._name(path): _hooks(vars(part), _HOOKS) for path, part in parts.items()}
        for name, tensor in tensors.items():
            held = {kind: getattr(tensor, kind, None) for kind in _OF_TENSOR}
            self._hooks[self._name(name)] = _hooks(held, _OF_TENSOR)
        for optimizer in optimizers:
            kept = self._hooks.setdefault(type(optimizer).__name__, [])
            kept += _hooks(vars(optimizer), _OF_OPTIMIZER)
        of_all = [f"_global{kind}" for kind in _HOOKS]
        self._hooks["all modules"] = _hooks(vars(torch_module), of_all)
        self._hooks["all optimizers"] = _hooks(vars(torch_optimizer), _OF_ALL_OPTIMIZERS)
        owners = [(self._name(path), part) for path, part in parts.items()]
        owners += [(type(each).__name__, each) for each in (*optimizers, *callbacks)]
        self._functions, self._methods = _functions(owners), _methods(owners)
        held_anyway = set(map(id, tensors.values()))
        self._attributes = {
            f"{name} of {self._name(path)}": look(value, held_anyway)
            for path, tensor in tensors.items()
            for name, value in vars(tensor).items()
            if not name.startswith(_OF_DYNAMO)
        }

    def _name(self, path: str) -> str:
        return f"{path} of {self._called}" if path else self._called

    def changed(self, now: "Structure") -> Iterator[str]:
        """Name what has become another one since."""
        why = "while the training runs, and no checkpoint holds"
        than = "than where the training begins, and no checkpoint holds which"
        for path, names in self._inside.items():
            if now._inside.get(path, names) != names:
                yield (
                    f"{self._name(path)} has other layers, or in another order, than where the "
                    f"training begins, and no checkpoint holds that"
                )
        for path, kind in self._kinds.items():
            if now._kinds.get(path, kind) is not kind:
                yield f"{self._name(path)} is another layer {than}"
        for name, hooks in self._hooks.items():
            if now._hooks.get(name, hooks) != hooks:
                yield f"the hooks of {name} change {why} them"
        for name in _differing(self._functions, now._functions):
            both = [*self._functions.get(name, ()), *now._functions.get(name, ())]
            if A_LIBRARYS not in both:
                yield f"{name} is another function {than}"
        kinds = {kind for kind, _ in self._methods}
        for kind, name in now._methods:
            code, known = now._methods[kind, name], self._methods.get((kind, name))
            # A class may be given one that hides what it inherits.
            if code != known and kind in kinds and A_LIBRARYS not in (code, known):
                yield f"{name} of {kind.__name__} is another function {than}"
        for name, state in now._attributes.items():
            if state.startswith(UNSEEN):
                yield f"{name} {state}, and it may change while the training runs"
        for name in _differing(self._attributes, now._attributes):
            yield f"{name} changes {why} it"


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _is_looked_at(callback: pl.Callback) -> bool:
    # One that says what is to be kept says that all else is not.
    return type(callback).state_dict.__module__.startswith(OURS)


def _hooks(owner: Mapping[str, object], kinds: tuple[str, ...] | list[str]) -> list[Code]:
    """Stand for the hooks of an owner, in the order in which they are called."""
    found: list[Code] = []
    for kind in kinds:
        hooks = owner.get(kind)
        for number, hook in hooks.items() if isinstance(hooks, dict) else ():
            if (code := code_of(hook)) != A_LIBRARYS:
                with_kwargs, always = (owner.get(f"{kind}_{how}") for how in _HOW)
                flags = [isinstance(of, dict) and number in of for of in (with_kwargs, always)]
                found.append((kind, code, *flags))
    return found


def _functions(owners: list[tuple[str, object]]) -> dict[str, list[Code]]:
    """Stand for the functions that objects have in their attributes."""
    found: dict[str, list[Code]] = defaultdict(list)
    for called, owner in owners:
        for name, value in attributes_of(owner).items():
            # TorchScript puts a compiled method there where it is first called.
            if isinstance(value, type | torch.nn.Module | torch.ScriptMethod):
                continue
            if not callable(value):
                continue
            if not _is_own_method(value, owner, name):
                found[f"{name} of {called}"].append(code_of(value))
    return found


def _is_own_method(value: object, owner: object, name: str) -> bool:
    """Say whether an object would have a method without the attribute, too.

    Lightning leaves the module's `forward` like that behind each step of several workers.
    """
    if not isinstance(value, types.MethodType) or value.__self__ is not owner:
        return False
    return value.__func__ is inspect.getattr_static(type(owner), name, None)


def _methods(owners: list[tuple[str, object]]) -> dict[tuple[type, str], Code]:
    """Stand for the methods of their classes."""
    return {
        (kind, name): code_of(plain)
        for kind in {base: None for _, owner in owners for base in type(owner).__mro__}
        if kind is not object and not any(issubclass(base, kind) for base in _BASES)
        for name, value in vars(kind).items()
        for plain in [getattr(value, "__func__", value)]  # of a static or a class's method
        if isinstance(plain, types.FunctionType)
    }

"""What requires gradients and neither a module nor Lightning's optimizers hold, wherever it lies.

A plain object may hold a network and an optimizer, and so may a closure, a module of Python or a
library's own store. Objects in attributes are walked, which names what they hold. Besides, Python's
garbage collector knows every optimizer and every tensor with a gradient, wherever it lies: these
are named by class and shape. Of such a tensor nobody knows why it is there: a thread, a failure or
a figure may hold the input of one step, by chance. So only those count that were there where the
training began.
"""

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import torch

from twinrun.containers import attributes_of, entries, is_container, is_really, shown, size_of
from twinrun.parameters import parameters_of
from twinrun.set_attributes import own_of_module

_DEEPEST, _MOST = 8, 64  # objects and lists inside each other; more items are data, not layers
_MOST_OBJECTS = 10_000  # that are walked
_OF_OTHERS = ("torch.", "pytorch_lightning.", "lightning.", "lightning_fabric.", "builtins.")

Alive: TypeAlias = Mapping[int, weakref.ref[torch.Tensor]]
"""Tensors that were there at some time, by `id`."""


@dataclass(frozen=True, kw_only=True)
class HeldElsewhere:
    """Tensors by name; several of one name have no order."""

    reached: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """Attributes of the module lead to them."""
    in_memory: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """Found by the garbage collector alone."""
    made_later: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """Likewise, and held by no optimizer: they may be no weights, and be there by chance."""


def held_elsewhere(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    alive: Alive | None = None,
) -> HeldElsewhere:
    """Find the tensors that require gradients and are not among `parameters_of`.

    Args:
        module: that is trained.
        optimizers: Lightning's.
        alive: of `leaves_alive` where the training began; None: nobody has looked.

    >>> module = torch.nn.Linear(2, 1)
    >>> module.scale = torch.ones((), requires_grad=True)
    >>> module.apart = [torch.nn.Linear(2, 1, bias=False)]
    >>> sorted(held_elsewhere(module, []).reached)
    ['apart[0].weight', 'scale']
    >>> optimizer = torch.optim.SGD([module.scale, *module.parameters()])
    >>> sorted(held_elsewhere(module, [optimizer]).reached)
    ['apart[0].weight']
    """
    known = {id(parameter) for parameter in parameters_of(module, optimizers).values()}
    found = HeldElsewhere()
    for name, tensor in _in_attributes(module, known):
        found.reached.setdefault(name, []).append(tensor)
    # A second look behind a collection: what waits to be collected is chance.
    if any(True for _ in _anywhere(set(known))):
        gc.collect()
        for name, tensor, is_bare in _anywhere(known):
            is_late = is_bare and alive is not None and not was_there(tensor, alive)
            of = found.made_later if is_late else found.in_memory
            of.setdefault(name, []).append(tensor)
    return found


def leaves_alive() -> Alive:
    """Return all tensors of the process that may be weights."""
    kinds = _tensor_kinds()
    with torch._C.DisableTorchFunctionSubclass():
        return {
            id(each): weakref.ref(each)
            for each in gc.get_objects()
            if id(type(each)) in kinds and _may_be_weight(each)
        }


def was_there(tensor: torch.Tensor, alive: Alive) -> bool:
    """Say whether a tensor is one of those that were there."""
    held = alive.get(id(tensor))
    return held is not None and held() is tensor


def _may_be_weight(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf and tensor.requires_grad
    # A view that was made without gradients, and its base written to with them, is asked nothing.
    except Exception:
        return False


def _in_attributes(module: torch.nn.Module, known: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor once, and note that it is known."""
    seen: dict[int, object] = {}
    for path, part in module.named_modules():
        for name, value in own_of_module(part).items():
            for where, tensor in _trainable(value, f"{path}.{name}" if path else name, 0, seen):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    yield where, tensor


def _trainable(
    value: object, path: str, depth: int, seen: dict[int, object]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what requires gradients; of objects attributes alone are asked, and no property."""
    if is_really(value, torch.Tensor):
        if _may_be_weight(value):
            yield path, value
    elif is_really(value, torch.nn.Module):
        for name, parameter in value.named_parameters():
            yield from _trainable(parameter, f"{path}.{name}", depth, seen)
    elif is_really(value, torch.optim.Optimizer):
        for where, parameter in _of_optimizer(value, path):
            yield from _trainable(parameter, where, depth, seen)
    elif depth < _DEEPEST and len(seen) < _MOST_OBJECTS and id(value) not in seen:
        if is_container(value):
            inside = entries(value) if size_of(value) <= _MOST else []
            named = [(f"{path}[{shown(key, at)}]", item) for at, (key, item) in enumerate(inside)]
        elif isinstance(type(value).__module__, str) and not _is_of_others(value):
            named = [(f"{path}.{name}", item) for name, item in attributes_of(value).items()]
        else:
            return
        seen[id(value)] = value  # kept, so that no other gets its number
        for where, item in named:
            yield from _trainable(item, where, depth + 1, seen)


def _is_of_others(value: object) -> bool:
    """Say whether an object is a class, or torch's, Lightning's or Python's: a Trainer, say."""
    return isinstance(value, type) or f"{type(value).__module__}.".startswith(_OF_OTHERS)


def _of_optimizer(
    optimizer: torch.optim.Optimizer, path: str
) -> Iterator[tuple[str, torch.Tensor]]:
    for number, group in enumerate(vars(optimizer).get("param_groups", ())):
        for index, parameter in enumerate(group["params"]):
            yield f"{path}, group {number}, parameter {index}", parameter


def _anywhere(known: set[int]) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Yield what any optimizer of the process holds, then, as True, what has a gradient."""
    optimizers = _kinds_of(torch.optim.Optimizer)
    # By the class: to ask each of half a million objects takes seconds.
    wanted = {*optimizers, *_tensor_kinds()}
    every = [each for each in gc.get_objects() if id(type(each)) in wanted]
    for each in every:
        if id(type(each)) in optimizers:
            name = type(each).__name__
            for where, tensor in _of_optimizer(cast("torch.optim.Optimizer", each), name):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    yield where, tensor, False
    # A subclass may have a meaning of its own for what it is asked.
    with torch._C.DisableTorchFunctionSubclass():
        for each in every:
            if id(type(each)) in optimizers or id(each) in known:
                continue
            tensor = cast("torch.Tensor", each)
            if _may_be_weight(tensor) and tensor.grad is not None:
                known.add(id(tensor))
                yield f"a tensor of shape {list(tensor.shape)}", tensor, True


def _tensor_kinds() -> set[int]:
    """Return the classes of tensors that may be weights, by `id`: a class may have no hash."""
    kinds = _kinds_of(torch.Tensor)
    # Those of torch's own compiler stand for others.
    return {key for key, kind in kinds.items() if not kind.__module__.startswith("torch._")}


def _kinds_of(kind: type) -> dict[int, type]:
    """Return a class and all that are derived from it, by `id`."""
    found = {id(kind): kind}
    for derived in type.__subclasses__(kind):
        found |= _kinds_of(derived)
    return found

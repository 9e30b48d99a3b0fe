"""Fingerprints of what a training moves and neither its module nor Lightning's optimizers hold.

A plain object may hold a network and an optimizer, and so may a closure, a module of Python or a
library's own store. Objects in attributes are walked, which names what they hold. Besides, Python's
garbage collector knows every optimizer and every tensor with a gradient, wherever it lies: these
are named by class and shape.
"""

import gc
from collections.abc import Iterator, Sequence
from typing import cast

import torch
import xxhash

from twinrun.containers import attributes_of, entries, is_container, is_really, shown, size_of
from twinrun.parameters import parameters_of
from twinrun.set_attributes import own_of_module
from twinrun.trace.fingerprints import fingerprint

_DEEPEST, _MOST = 8, 64  # objects and lists inside each other; more items are data, not layers
_MOST_OBJECTS = 10_000  # that are walked
_UNSEEN = -1  # in place of a fingerprint
_OF_OTHERS = ("torch.", "pytorch_lightning.", "lightning.", "lightning_fabric.", "builtins.")


def prints_not_held(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, str]:
    """Fingerprint the tensors that require gradients and are not among `parameters_of`, by name.

    Several of one name count as one, whatever their order. It is empty of what cannot be looked at.

    >>> module = torch.nn.Linear(2, 1)
    >>> module.scale = torch.ones((), requires_grad=True)
    >>> module.apart = [torch.nn.Linear(2, 1, bias=False)]
    >>> {"apart[0].weight", "scale"} <= prints_not_held(module, []).keys()
    True
    >>> optimizer = torch.optim.SGD([module.scale, *module.parameters()])
    >>> "scale" in prints_not_held(module, [optimizer])
    False
    """
    known = {id(parameter) for parameter in parameters_of(module, optimizers).values()}
    found: dict[str, list[int]] = {}
    for name, tensor in _in_attributes(module, known):
        found.setdefault(name, []).append(_print_of(tensor))
    # A second look behind a collection: what waits to be collected is chance.
    if any(True for _ in _anywhere(set(known))):
        gc.collect()
        for name, tensor in _anywhere(known):
            found.setdefault(name, []).append(_print_of(tensor))
    return {
        name: "" if _UNSEEN in prints else xxhash.xxh3_64_hexdigest(repr(sorted(prints)).encode())
        for name, prints in sorted(found.items())
    }


def _print_of(tensor: torch.Tensor) -> int:
    try:
        return fingerprint(tensor)
    except Exception:  # of a subclass, which may refuse anything: no reason to lose the training
        return _UNSEEN


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
        if value.requires_grad and value.is_leaf:
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


def _anywhere(known: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what any optimizer of the process holds, then what has a gradient; each once."""
    optimizers, kinds = _kinds_of(torch.optim.Optimizer), _kinds_of(torch.Tensor)
    # Those of torch's own compiler stand for others. By `id`: a class may have no hash.
    tensors = {key for key, kind in kinds.items() if not kind.__module__.startswith("torch._")}
    # By the class: to ask each of half a million objects takes seconds.
    wanted = {*optimizers, *tensors}
    every = [each for each in gc.get_objects() if id(type(each)) in wanted]
    for each in every:
        if id(type(each)) in optimizers:
            name = type(each).__name__
            for where, tensor in _of_optimizer(cast("torch.optim.Optimizer", each), name):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    yield where, tensor
    # A subclass may have a meaning of its own for what it is asked.
    with torch._C.DisableTorchFunctionSubclass():
        for each in every:
            if id(type(each)) in optimizers or id(each) in known:
                continue
            tensor = cast("torch.Tensor", each)
            if tensor.is_leaf and tensor.requires_grad and tensor.grad is not None:
                known.add(id(tensor))
                yield f"a tensor of shape {list(tensor.shape)}", tensor


def _kinds_of(kind: type) -> dict[int, type]:
    """Return a class and all that are derived from it, by `id`."""
    found = {id(kind): kind}
    for derived in type.__subclasses__(kind):
        found |= _kinds_of(derived)
    return found

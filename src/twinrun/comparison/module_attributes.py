"""The attributes of a module that are no parameters or buffers: counters, lists of losses, queues.

Those of its optimizers are among them, beside their groups and the state of parameters.

A step may read them and change them. A replay that did not put them back would start each repeat
from others than the run did, and find a difference that the runs do not have. What no step has
changed is left as each process has made it: there may be the fault. Only plain data are kept, and
generators of random numbers; of other objects (a logger, a file) nobody knows the state.
"""

import copy
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.containers import attributes_of as attributes_held
from twinrun.containers import delete_attribute_of, set_attribute_of
from twinrun.generators import set_state, state_of
from twinrun.set_attributes import own_attributes
from twinrun.trace.fingerprints import fingerprint_tree

_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic, torch.dtype, torch.device)
_CONTAINERS = (list, tuple, dict, set, frozenset, OrderedDict, deque, Counter)
# Those of torch and Lightning, which both keep themselves; but not whether it is training.
_OWN = {*vars(torch.nn.Module()), *vars(pl.LightningModule())} - {"training"}


class Attributes(TypedDict):
    """Of one submodule."""

    names: list[str] | None
    """Names of all that it has, plain or not; None where only some of them are kept."""
    plain: dict[str, object]
    """Copies."""
    generators: dict[str, object]
    """The states of random number generators."""


def attributes_of(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer] = (),
    *,
    changed_since: Mapping[str, int] | None = None,
) -> dict[str, Attributes]:
    """Copy the plain attributes of a module and its submodules, by path.

    Args:
        module: with its submodules.
        optimizers: of the training.
        changed_since: what `attribute_fingerprints_of` gave earlier; only those with another one.
    """
    taken = _taken(module)
    found = {}
    for path, part in _parts(module, optimizers):
        own = _own(part)
        names = None
        if changed_since is None:
            names = list(own)
        else:
            prints = _prints(path, own, taken)
            own = {
                n: v for n, v in own.items() if _is_changed(f"{path}.{n}", prints, changed_since)
            }
        states = {name: state_of(value) for name, value in own.items()}
        plain = {name: value for name, value in own.items() if _is_plain(value, taken, ())}
        found[path] = Attributes(
            names=names,
            # At once, so that what two attributes share they share afterwards.
            plain=copy.deepcopy(plain),
            generators={name: state for name, state in states.items() if state is not None},
        )
    return found


def attribute_fingerprints_of(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer] = ()
) -> dict[str, int]:
    """Return a fingerprint of each plain attribute and generator, by path."""
    taken = _taken(module)
    return {
        key: found
        for path, part in _parts(module, optimizers)
        for key, found in _prints(path, _own(part), taken).items()
    }


def set_attributes(
    module: torch.nn.Module,
    saved: Mapping[str, Attributes],
    optimizers: Sequence[torch.optim.Optimizer] = (),
) -> None:
    """Put back what `attributes_of` copied; of all of them, take away plain ones that are new."""
    taken = _taken(module)
    for path, part in _parts(module, optimizers):
        if path not in saved:  # a layer that the step has made
            continue
        own, found = attributes_held(part), saved[path]
        names = found["names"]
        for name in [] if names is None else [name for name in _own(part) if name not in names]:
            if _is_plain(own[name], taken, ()):
                delete_attribute_of(part, name)
        for name, value in copy.deepcopy(found["plain"]).items():
            if not _refilled(own.get(name), value):
                set_attribute_of(part, name, value)
        for name, state in found["generators"].items():
            set_state(own.get(name), state)


def _parts(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> Iterator[tuple[str, torch.nn.Module | torch.optim.Optimizer]]:
    yield from module.named_modules()
    for index, optimizer in enumerate(optimizers):
        yield f"optimizer {index}", optimizer
        for name, value in own_attributes(optimizer).items():
            if isinstance(value, torch.optim.Optimizer):  # one that it wraps
                yield f"optimizer {index}.{name}", value


def _own(part: torch.nn.Module | torch.optim.Optimizer) -> dict[str, object]:
    if isinstance(part, torch.optim.Optimizer):
        return own_attributes(part)
    return {name: value for name, value in attributes_held(part).items() if name not in _OWN}


def _taken(module: torch.nn.Module) -> set[int]:
    """Return where the memory of parameters and buffers begins."""
    tensors = (*module.parameters(), *module.buffers())
    return {t.data_ptr() for t in tensors if t.layout is torch.strided and t.numel()}


def _prints(path: str, own: Mapping[str, object], taken: set[int]) -> dict[str, int]:
    found = {}
    for name, value in own.items():
        state = state_of(value)
        if state is not None or _is_plain(value, taken, ()):
            found[f"{path}.{name}"] = fingerprint_tree(value if state is None else state)
    return found


def _is_changed(key: str, prints: Mapping[str, int], earlier: Mapping[str, int]) -> bool:
    return key in prints and prints[key] != earlier.get(key)


def _is_plain(value: object, taken: set[int], above: tuple[int, ...]) -> bool:
    """Say whether a copy of a value stands for it."""
    if isinstance(value, torch.Tensor):
        # A tensor with a history belongs to a graph; one that shares the memory of a parameter or
        # buffer is put back with it.
        is_leaf = type(value) is torch.Tensor and value.grad_fn is None and not value.requires_grad
        return is_leaf and value.layout is torch.strided and value.data_ptr() not in taken
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if isinstance(value, _VALUES):
        return True
    if type(value) not in _CONTAINERS or id(value) in above:
        return False
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return all(_is_plain(item, taken, inside) for pair in value.items() for item in pair)
    return all(_is_plain(item, taken, inside) for item in value)  # pyrefly: ignore[not-iterable]


def _refilled(own: object, value: object) -> bool:
    """Put a value into the object that an attribute is, for others may hold that; or say no."""
    if own is value:
        return True
    if type(own) is not type(value):
        return False
    if isinstance(own, torch.Tensor) and isinstance(value, torch.Tensor):
        if (own.shape, own.dtype, own.device) != (value.shape, value.dtype, value.device):
            return False
        with torch.no_grad():
            own.copy_(value)
        return True
    match own, value:
        case list(), list():
            own[:] = value
        case (dict(), dict()) | (set(), set()):
            own.clear()
            own.update(value)
        case deque(), deque():
            own.clear()
            own.extend(value)
        case _:
            return False
    return True

"""The parameters that a training trains, by name: a module's, and those that it hides.

An optimizer may hold what no module does: a network in a list, say, which a module keeps out of its
`parameters()` and `state_dict()`. Asked anew whenever they are needed, since a module may replace a
layer or add one while it trains.
"""

import functools
from collections.abc import Iterable, Sequence

import torch


def parameters_of(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.nn.Parameter]:
    """Name the parameters of a module, then those that only its optimizers hold."""
    return with_unheld(tensors_of_module(module)[0], optimizers)


def with_unheld(
    held: dict[str, torch.nn.Parameter], optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.nn.Parameter]:
    """Add to the parameters of a module those that only its optimizers hold."""
    return held | unheld_parameters(held.values(), optimizers)


def tensors_of_module(
    module: torch.nn.Module,
) -> tuple[dict[str, torch.nn.Parameter], dict[str, torch.Tensor]]:
    """Name the parameters and the buffers of a module, as torch's own walks do, in one walk.

    A traced step asks several times, and torch's walks, a generator in each layer, take ten times
    as long. Where a class walks in a way of its own, it is asked.
    """
    parameters: dict[str, torch.nn.Parameter] = {}
    buffers: dict[str, torch.Tensor] = {}
    seen: set[torch.nn.Module] = set()
    known: set[int] = set()
    waiting = [("", module)]
    while waiting:
        prefix, part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        own = vars(part)
        if not _is_walked_plainly(type(part)) or not _WALKS.isdisjoint(own):
            return dict(module.named_parameters()), dict(module.named_buffers())
        for name, tensor in own["_parameters"].items():
            if tensor is not None and id(tensor) not in known:
                known.add(id(tensor))
                parameters[f"{prefix}{name}"] = tensor
        if own["_buffers"]:
            for name, tensor in own["_buffers"].items():
                # Kept apart from parameters: one tensor may be both.
                if tensor is not None and -id(tensor) not in known:
                    known.add(-id(tensor))
                    buffers[f"{prefix}{name}"] = tensor
        if inside := own["_modules"]:  # the last one is taken first
            waiting += [
                (f"{prefix}{name}.", inside[name])
                for name in reversed(inside)
                if inside[name] is not None
            ]
    return parameters, buffers


_WALKS = frozenset(("named_parameters", "named_buffers", "_named_members", "named_modules"))
_STORES = ("_parameters", "_buffers", "_modules")


@functools.cache
def _is_walked_plainly(kind: type) -> bool:
    """Say whether a class leaves torch's walks as they are, and its tensors where these look."""
    if issubclass(kind, torch.jit.ScriptModule):  # its stores are views of the interpreter's
        return False
    names = (*_WALKS, "__getattribute__")
    is_torchs = all(getattr(kind, name) is getattr(torch.nn.Module, name) for name in names)
    return is_torchs and not any(hasattr(kind, store) for store in _STORES)


def unheld_parameters(
    held: Iterable[torch.Tensor], optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.nn.Parameter]:
    """Name the parameters of optimizers that are not among those a module holds.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> list(unheld_parameters([], [torch.optim.SGD([weight])]))
    ['optimizer 0, group 0, parameter 0']
    """
    known = {id(parameter) for parameter in held}
    found: dict[str, torch.nn.Parameter] = {}
    for position, optimizer in enumerate(optimizers):
        for number, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if id(parameter) not in known:
                    known.add(id(parameter))  # one may be in several optimizers
                    found[f"optimizer {position}, group {number}, parameter {index}"] = parameter
    return found


def trained_in(module: torch.nn.Module) -> dict[torch.nn.Parameter, str]:
    """Return the names of the parameters that are trained.

    >>> frozen = torch.nn.Linear(2, 1)
    >>> _ = frozen.bias.requires_grad_(False)
    >>> [*trained_in(frozen).values()]
    ['weight']
    """
    return {p: name for name, p in module.named_parameters() if p.requires_grad}

"""The parameters that a training trains, by name: a module's, and those that it hides.

An optimizer may hold what no module does: a network in a list, say, which a module keeps out of its
`parameters()` and `state_dict()`. Asked anew whenever they are needed, since a module may replace a
layer or add one while it trains.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch

from twinrun.containers import entries, is_container, is_really, shown, size_of

_DEEPEST, _MOST = 4, 64  # a list in a list; more items are data rather than layers


def parameters_of(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.nn.Parameter]:
    """Name the parameters of a module, then those that only its optimizers hold."""
    found = dict(module.named_parameters())
    return found | unheld_parameters(found.values(), optimizers)


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


def uncompared_weights(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> list[str]:
    """Name the tensors in attributes that require gradients and are not among `parameters_of`.

    A module may train them by itself: by an optimizer that it keeps to itself, or by hand.

    >>> module = torch.nn.Linear(2, 1)
    >>> module.scale = torch.ones((), requires_grad=True)
    >>> module.apart = [torch.nn.Linear(2, 1, bias=False)]
    >>> uncompared_weights(module, [])
    ['apart[0].weight', 'scale']
    >>> uncompared_weights(module, [torch.optim.SGD([module.scale, *module.parameters()])])
    ['apart[0].weight']
    """
    known = {id(parameter) for parameter in parameters_of(module, optimizers).values()}
    found = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            for where, tensor in _trainable(value, f"{path}.{name}" if path else name, 0):
                if id(tensor) not in known:
                    found.setdefault(id(tensor), where)
    return sorted(found.values())


def _trainable(value: object, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if is_really(value, torch.Tensor):
        if value.requires_grad and value.is_leaf:
            yield path, value
    elif is_really(value, torch.nn.Module):
        for name, parameter in value.named_parameters():
            yield from _trainable(parameter, f"{path}.{name}", depth)
    elif is_really(value, torch.optim.Optimizer):
        for number, group in enumerate(value.param_groups):
            for index, parameter in enumerate(group["params"]):
                where = f"{path}, group {number}, parameter {index}"
                yield from _trainable(parameter, where, depth)
    elif is_container(value) and size_of(value) <= _MOST and depth < _DEEPEST:
        for position, (key, item) in enumerate(entries(value)):
            yield from _trainable(item, f"{path}[{shown(key, position)}]", depth + 1)

"""The parameters that a training trains, by name: a module's, and those that it hides.

An optimizer may hold what no module does: a network in a list, say, which a module keeps out of its
`parameters()` and `state_dict()`. Asked anew whenever they are needed, since a module may replace a
layer or add one while it trains.
"""

from collections.abc import Iterable, Sequence

import torch


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

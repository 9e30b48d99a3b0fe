"""What an optimizer keeps beside its groups and its state of parameters, by the attribute.

Its `state_dict` holds neither a list of averages nor a counter that its class has made an
attribute of, neither the slow weights of a Lookahead nor the optimizer that this wraps: unless the
class says so, a checkpoint loses them. What torch's own classes set follows from the rest.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch.optim import Optimizer

from twinrun.values_inside import IN_A_SET, values_of_optimizer


def all_beside(optimizer: Optimizer, held: Iterable[object]) -> dict[str, object]:
    """Return all that `values_in` yields of these attributes, by its path.

    Also what `state` keeps of no parameter, and the state of an optimizer that this one wraps.

    Args:
        optimizer: of a training.
        held: what is no state of an optimizer: parameters and buffers, modules, schedules.
    """
    return dict(values_of_optimizer(optimizer, {id(each) for each in held}))


def values_beside(optimizer: Optimizer, held: Iterable[torch.Tensor]) -> dict[str, object]:
    """Return the tensors, arrays and numbers among them, but for those in a set of objects.

    Args:
        optimizer: of a training.
        held: parameters and buffers of the module.
    """
    kinds = (torch.Tensor, np.ndarray, int, float)
    found = all_beside(optimizer, held)
    return {
        path: value
        for path, value in found.items()
        if isinstance(value, kinds) and IN_A_SET not in path
    }

"""What says itself where it is, and goes where it is told: loaders, samplers, datasets."""

import copy
import inspect
from abc import ABC, abstractmethod
from typing import Any

from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.data import DataLoader

from twinrun.checkpoint.users_code import is_users

UNSAID = {"twinrun": "could not say where it is"}
"""In the place of a state that it could not give."""
AT_REST = {"twinrun": "reads nothing"}
"""In the place of the state of a loader that would begin an iterator to say it."""


class Stateful(ABC):
    """Anything that can be asked for its state by nothing else, and be given it.

    A dataset whose `state_dict` needs to be told how many samples were taken is none: nobody asks.
    """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Say where it is."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Go there."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        """Say whether a class has both, by whatever name."""
        asked, told = (getattr(kind, name, None) for name in ("state_dict", "load_state_dict"))
        return callable(asked) and callable(told) and _needs_nothing(asked)


def _needs_nothing(asked: Any) -> bool:
    try:
        inspect.signature(asked).bind(None)
    except TypeError:
        return False
    except ValueError:  # of C
        pass
    return True


def said_by(part: Stateful) -> dict[str, Any]:
    """Return the state of a part, or `UNSAID`: a reader may have none before its first sample."""
    if begins_if_asked(part):
        return AT_REST
    try:
        return part.state_dict()
    except Exception:  # of whatever class
        return UNSAID


def state_told(owner: Any) -> Any:
    """Return a copy of what something says of itself, which draws no random numbers here."""
    with isolate_rng():
        return copy.deepcopy(said_by(owner))


def begins_anew(part: object) -> bool:
    """Say whether it is a library's loader with a state, each of whose iterators begins anew.

    Such as torchdata's `StatefulDataLoader`, whose state is that of an iterator.
    """
    if not isinstance(part, DataLoader) or not isinstance(part, Stateful):
        return False
    bases = [each for each in type(part).__mro__ if "state_dict" in vars(each)]
    return not any(is_users(base.__module__) for base in bases)


def begins_if_asked(part: object) -> bool:
    """Say whether it would begin an iterator to say where it is, which draws random numbers.

    The training would take that iterator as its first one, and draw none for it.
    """
    return begins_anew(part) and getattr(part, "_iterator", None) is None


def is_asked(part: Stateful) -> bool:
    """Say whether the state of a part is a user's; to ask a library's loader begins an iterator."""
    bases = [each for each in type(part).__mro__ if "state_dict" in vars(each)]
    return all(is_users(base.__module__) or hasattr(base, "_is_protocol") for base in bases)

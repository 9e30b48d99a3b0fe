"""Objects that do not let themselves be looked at, as packages have them, in every attribute."""

import io
import weakref
from unittest.mock import Mock

import numpy as np
import torch
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset


class Unsized(tuple):
    """A tuple of a meaning of its own, as e3nn's Irreps is one."""

    __slots__ = ()

    def __len__(self):
        raise NotImplementedError


class NotWalked(list):
    """A list that is not to be walked."""

    def __iter__(self):
        raise RuntimeError("not to be walked")

    def __getitem__(self, index):
        raise RuntimeError("not to be looked into")


class NotListed(dict):
    """A mapping that does not say what is in it."""

    def items(self):
        raise RuntimeError("not to be listed")

    keys = values = __iter__ = items


class Closed:
    """An object of which nothing can be asked."""

    def _refuse(self, *_):
        raise RuntimeError("not to be asked")

    __eq__ = __ne__ = __bool__ = __len__ = __repr__ = __str__ = __iter__ = __reduce_ex__ = _refuse
    __contains__ = __getattr__ = __copy__ = __deepcopy__ = __fspath__ = __float__ = __int__ = (
        _refuse
    )
    __hash__ = object.__hash__


class Faceless:
    """An object that does not even say of which class it is, as one within NumPy's archives."""

    def __getattribute__(self, name):
        raise AttributeError(name)


class FacelessIn(Faceless):
    """One that refuses by another error."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


def archive():
    """Return an open archive of arrays."""
    file = io.BytesIO()
    np.savez(file, x=np.ones(3))
    file.seek(0)
    return np.load(file)


class ClosedKey(str):
    """A key that cannot be written."""

    __slots__ = ()

    def __repr__(self):
        raise RuntimeError("not to be written")


def objects():
    """Return one of each kind."""
    return {
        "unsized": Unsized((1, 2)),
        "not_walked": NotWalked([1]),
        "not_listed": NotListed(a=1),
        "closed": Closed(),
        "closed_key": {ClosedKey("a"): torch.ones(2, requires_grad=True)},
        "tensor_like": Mock(spec=torch.Tensor),
        "module_like": Mock(spec=torch.nn.Module),
        "anything": Mock(),
        "list_like": Mock(spec=list),
        "kinds": [Closed, NotWalked, torch.Tensor],
        "faceless": Faceless(),
        "faceless_in": FacelessIn(),
        "gone": weakref.proxy(Faceless()),
        "archive": archive(),
        "nested": [{"deep": (Unsized((1,)), Closed())}],
    }


class Holds(Small):
    """A module with all of them."""

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        vars(self).update(objects())
        vars(self.hidden).update(objects())


class Dataset(TensorDataset):
    """A dataset with all of them."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        vars(self).update(objects())


class HoldsToo(Points):
    """A data module with all of them."""

    def __init__(self, size=70, seed=0):
        super().__init__(size, seed)
        vars(self).update(objects())

    def _loader(self, **options):
        return DataLoader(Dataset(self.inputs, self.targets), batch_size=16, **options)


class HoldsInOptimizer(Holds):
    """An optimizer with all of them, and groups that have some."""

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        vars(optimizer).update(objects())
        return optimizer

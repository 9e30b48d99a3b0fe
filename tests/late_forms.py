"""Datasets that keep what they read, in every form in which code puts something somewhere."""

import bisect
import collections
import functools
import heapq
import operator

import torch
from late_data import Lazy


class Keeps(Lazy):
    """Keeps what `keep` makes of a row."""

    def begin(self):
        self.kept = {}

    def keep(self, index):
        return self.rows[index] * 2

    def many(self):
        return [float(row.sum()) for row in self.rows]

    def row(self, index):
        return self.kept[index]

    def __getitem__(self, index):
        return self.row(index), self.targets[index]


class Store:
    def __init__(self):
        self.held = {}

    def __contains__(self, index):
        return index in self.held

    def __getitem__(self, index):
        return self.held[index]

    def __setitem__(self, index, value):
        self.held[index] = value


class InAStore(Keeps):
    def begin(self):
        self.kept = Store()

    def row(self, index):
        if index not in self.kept:
            self.kept[index] = self.keep(index)
        return self.kept[index]


class InAStoreOfADict(InAStore):
    def begin(self):
        self.stores = {"a": Store()}

    @property
    def kept(self):
        return self.stores["a"]


class UserStore(collections.UserDict):
    pass


class InAUserDict(InAStore):
    def begin(self):
        self.kept = UserStore()


class MutableStore(Store, collections.abc.MutableMapping):
    def __delitem__(self, index):
        del self.held[index]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


class BySetdefault(Keeps):
    def begin(self):
        self.kept = MutableStore()

    def row(self, index):
        return self.kept.setdefault(index, self.keep(index))


class ByGetattr(Keeps):
    def begin(self):
        pass

    def __getattr__(self, name):
        if name == "table":
            self.table = self.many()
            return self.table
        raise AttributeError(name)

    def row(self, index):
        return self.rows[index] * self.table[index]


class ByComputedName(ByGetattr):
    makers = {"table": Keeps.many}  # noqa: RUF012

    def __getattr__(self, name):
        if name not in type(self).makers:
            raise AttributeError(name)
        value = type(self).makers[name](self)
        setattr(self, name, value)
        return value


class Computed:
    """As `cached_property`, by hand."""

    def __init__(self, function):
        self.function = function

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owner, kind):
        if owner is None:
            return self
        value = owner.__dict__[self.name] = self.function(owner)
        return value


class ComputedBehind(Computed):
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, owner, kind):
        if not hasattr(owner, self.name):
            setattr(owner, self.name, self.function(owner))
        return getattr(owner, self.name)


class OfDescriptor(Keeps):
    def begin(self):
        pass

    @Computed
    def table(self):
        return self.many()

    def row(self, index):
        return self.rows[index] * self.table[index]


class OfDescriptorBehind(OfDescriptor):
    @ComputedBehind
    def table(self):
        return self.many()


class Memo:
    def __init__(self, function):
        self.function = function

    def __get__(self, owner, kind):
        return functools.partial(self, owner)

    def __call__(self, owner, index):
        if index not in owner.kept:
            owner.kept[index] = self.function(owner, index)
        return owner.kept[index]


class ByMemo(Keeps):
    row = Memo(Keeps.keep)


def memo(function):
    @functools.wraps(function)
    def wrapper(owner, *given):
        kept = owner.__dict__.setdefault("_kept", {})
        if given not in kept:
            kept[given] = function(owner, *given)
        return kept[given]

    return wrapper


def memo_under(name):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(owner, index):
            kept = getattr(owner, name)
            if index not in kept:
                kept[index] = function(owner, index)
            return kept[index]

        return wrapper

    return decorate


class ByDecorator(Keeps):
    def begin(self):
        pass

    @memo
    def row(self, index):
        return self.keep(index)


class OfDecoratedItem(Keeps):
    def __getitem__(self, index):
        return self.item(index)

    item = memo(Keeps.__getitem__)

    def row(self, index):
        return self.keep(index)


class ByDecoratorOfAName(Keeps):
    @memo_under("kept")
    def row(self, index):
        return self.keep(index)


class Missing(dict):
    def __init__(self, make):
        self.make = make

    def __missing__(self, index):
        value = self[index] = self.make(index)
        return value


class ByMissing(Keeps):
    def begin(self):
        self.kept = Missing(self.keep)


class OneOf(dict):
    def one(self, index, make):
        if index not in self:
            self[index] = make(index)
        return self[index]


class BySubclass(Keeps):
    def begin(self):
        self.kept = OneOf()

    def row(self, index):
        return self.kept.one(index, self.keep)


class ByDefault(Keeps):
    def begin(self):
        self.weights = collections.defaultdict(lambda: 1.5)

    def row(self, index):
        return self.rows[index] * self.weights[index]


class Named(Keeps):
    name_of_kept = "kept"

    def row(self, index):
        kept = getattr(self, self.name_of_kept)
        if index not in kept:
            kept[index] = self.keep(index)
        return kept[index]


class ByProperty(Keeps):
    def begin(self):
        self.inner = {}

    @property
    def kept(self):
        return self.inner

    def row(self, index):
        if index not in self.kept:
            self.kept[index] = self.keep(index)
        return self.kept[index]


class ByOperator(Keeps):
    def row(self, index):
        if index not in self.kept:
            operator.setitem(self.kept, index, self.keep(index))
        return self.kept[index]


class ByType(Keeps):
    def row(self, index):
        if index not in self.kept:
            dict.__setitem__(self.kept, index, self.keep(index))
        return self.kept[index]


class ByBound(Keeps):
    def row(self, index):
        put = self.kept.__setitem__
        if index not in self.kept:
            put(index, self.keep(index))
        return self.kept[index]


class Lists(Keeps):
    def begin(self):
        self.kept = []

    def row(self, index):
        if not self.kept:
            self.fill()
        return self.rows[index] * self.kept[index]


class ByBoundAppend(Lists):
    def fill(self):
        append = self.kept.append
        for value in self.many():
            append(value)


class ByMap(Lists):
    def fill(self):
        list(map(self.kept.append, self.many()))


def give(put, values):
    for value in values:
        put(value)


class ByGivenMethod(Lists):
    def fill(self):
        give(self.kept.append, self.many())


class Sorted(Lists):
    def fill(self):
        for value in self.many():
            bisect.insort(self.kept, value)


class Heap(Lists):
    def fill(self):
        for value in self.many():
            heapq.heappush(self.kept, value)


FORMS = [InAStore, InAStoreOfADict, InAUserDict, BySetdefault, ByGetattr, ByComputedName]
FORMS += [OfDescriptor, OfDescriptorBehind, ByMemo, ByDecorator, OfDecoratedItem]
FORMS += [ByDecoratorOfAName, ByMissing, BySubclass, ByDefault, Named, ByProperty, ByOperator]
FORMS += [ByType, ByBound, ByBoundAppend, ByMap, ByGivenMethod, Sorted, Heap]


# And state in the same forms.

RARE = (3, 41)


def drawn(kind):
    """Return a class that adds to two rows what is drawn once."""

    class Drawn(kind):
        def row(self, index):
            return super().row(index) if index in RARE else self.rows[index]

        def keep(self, index):
            return self.rows[index] + torch.randn(4)

        def many(self):
            return torch.randn(70).tolist()

    Drawn.__name__ = Drawn.__qualname__ = f"Drawn{kind.__name__}"
    return Drawn


class CountsInAStore(InAStore):
    def row(self, index):
        if index in RARE:
            if index not in self.kept:
                self.kept[index] = 0
            self.kept[index] += 1
            return self.rows[index] * self.kept[index]
        return self.rows[index]


class CountsByDefault(Keeps):
    def begin(self):
        self.counts = collections.defaultdict(float)

    def row(self, index):
        if index in RARE:
            self.counts[index] += 1
        return self.rows[index] * (1 + self.counts[index])


MOVING = [drawn(kind) for kind in FORMS if kind not in (ByDefault, OfDecoratedItem)]
MOVING += [CountsInAStore, CountsByDefault]

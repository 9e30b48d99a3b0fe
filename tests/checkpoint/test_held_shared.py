"""What data have made lies in them alone, or something else holds it too."""

import array
import collections
import types
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from twinrun.checkpoint.held_memory import Known, known_stretch
from twinrun.checkpoint.held_shared import Root, is_shared

MISSING = object()


class Row:
    def __init__(self, y):
        self.y = y


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


def of_its_own(n):
    """Yield what nothing else holds: a name, and what makes it."""
    yield "numbers", lambda: {i: i * 1.5 for i in range(n)}
    yield "texts", lambda: {f"k{i}": [f"v{i}", b"b", None, True, 1 + 2j] for i in range(n)}
    yield "tensors", lambda: {i: torch.randn(3) for i in range(n)}
    yield "rows of a tensor that is gone", lambda: [torch.randn(3, 3)[1] for _ in range(n)]
    yield "rows of one tensor", lambda: list(torch.randn(4, 4))
    yield "a tensor and its rows", lambda: [x := torch.randn(4, 4), x[0], x[1], x]
    yield "a tensor without its base", lambda: [torch.randn(4, 4).detach()[1].detach()]
    yield "stacked", lambda: [torch.stack([torch.ones(2)]), torch.arange(70).view(7, 10)]
    yield "arrays", lambda: [np.zeros((3, 3))[1], np.ones(3), np.float32(2), np.array(["a"])]
    yield "the array of a tensor", lambda: [torch.zeros(3).numpy()]
    yield "a tensor of an array", lambda: [torch.from_numpy(np.zeros(3))]
    yield "objects", lambda: {i: Row([i]) for i in range(n)}
    yield "objects with slots", lambda: [Slotted([1]) for _ in range(n)]
    yield "tuples", lambda: {("a", i): (i, [i]) for i in range(n)}
    yield "in order", lambda: collections.OrderedDict((i, [i]) for i in range(n))
    yield "by default", lambda: collections.defaultdict(list, {1: [(1, [2])]})
    yield "a queue of sets", lambda: collections.deque([{1, 2}, {"a"}, frozenset([3])], maxlen=5)
    yield "a namespace", lambda: types.SimpleNamespace(a=[1], b=bytearray(b"ab"))
    yield "a number of its own that is none", lambda: {float("nan"): 1.0, float("inf"): 2}


def around_itself():
    a, b = Row([]), Row([])
    a.other, b.other = b, a
    a.y.append(b)
    return [a, b]


def known(*objects):
    memory = [stretch for each in objects if (stretch := known_stretch(each)) is not None]
    return Known({id(each): "its name" for each in objects}, memory)


def shared(objects, *gets):
    return is_shared(([Root(get, is_whole=True) for get in gets], known(*objects)))


def kept_rows():
    table = [Row(1), Row(2)]
    return {row.y: row for row in table}, table


def kept(value, other=None):
    """Return a value and what else holds something of it."""
    return value, value if other is None else other


SHARED = {
    "all of it": lambda: kept([1]),
    "an object of the file": lambda: kept({1: MISSING}, ()),
    "rows": kept_rows,
    "an object of a row": lambda: (lambda row: ([row.y], row))(Row([1])),
    "a row of a tensor": lambda: (lambda x: ([x[0]], x))(torch.randn(4, 4)),
    "another row": lambda: (lambda x: ([x[0]], x[1]))(torch.randn(4, 4)),
    "its memory": lambda: (lambda x: ([x], x.detach()))(torch.randn(4, 4)),
    "a tensor beside its row": lambda: (lambda x: ([x, x[0]], x))(torch.randn(4, 4)),
    "a row of an array": lambda: (lambda x: ([x[0]], x))(np.zeros((3, 3))),
    "the array of a tensor": lambda: (lambda x: ([x.numpy()], x))(torch.zeros(3)),
    "a number that is none": lambda: kept({np.nan: 1}, ()),
    "a tuple": lambda: (lambda x: ([x], x))((1, [2])),
    "a weak reference": lambda: (lambda x: ([x], weakref.ref(x)))(Row(1)),
    "an iterator": lambda: (lambda x: ([x], iter(x)))([1, 2]),
    "a method": lambda: (lambda x: ({0: x}, x.append))([1, 2]),
}


@pytest.mark.parametrize(("name", "make"), [*of_its_own(20)], ids=lambda it: str(it)[:40])
def test_what_lies_in_data_alone_is_theirs(name, make):
    data = SimpleNamespace(made=make())
    assert not shared([data], lambda: data.made)


def test_it_may_hold_itself_and_its_data():
    data = SimpleNamespace(made=around_itself())
    data.made.append(data)
    assert not shared([data], lambda: data.made)


@pytest.mark.parametrize("name", SHARED)
def test_what_something_else_holds_too_is_not(name):
    data = SimpleNamespace()
    data.made, other = SHARED[name]()
    assert shared([data], lambda: data.made)
    assert other is not None


def test_what_two_places_hold_is_theirs_together():
    data = SimpleNamespace(a=[[1]])
    data.b = data.a[0]
    assert not shared([data], lambda: data.a, lambda: data.b)
    assert shared([data], lambda: data.a)
    assert shared([data], lambda: data.b)


def test_of_what_is_copied_before_only_the_whole_may_be_held():
    """Of validation data, which are put back later."""
    data = SimpleNamespace(a=[[1]])

    def both(*, is_whole):
        first = [Root(lambda: data.a, is_whole)]
        return is_shared((first, known(data)), ([Root(lambda: data.b, is_whole=True)], known(data)))

    data.b = [data.a]
    assert not both(is_whole=True)
    assert both(is_whole=False)
    data.b = data.a[0]
    assert both(is_whole=True)


@pytest.mark.parametrize("keep", [lambda x: x, lambda x: [{"a": x[:2]}], Row, lambda x: x[::-1]])
def test_no_array_of_the_data_may_have_its_memory(keep):
    array = np.zeros((3, 3))
    data = SimpleNamespace(made=[torch.from_numpy(array[1])])
    groups = [Root(lambda: data.made, is_whole=True)], known(data)
    assert not is_shared(groups, data=[SimpleNamespace(rows=array[2:])])
    assert is_shared(groups, data=[SimpleNamespace(rows=keep(array))])


@pytest.mark.parametrize(
    "make", [bytearray, lambda raw: array.array("b", raw), lambda raw: memoryview(bytearray(raw))]
)
def test_nor_may_another_buffer(make):
    data = SimpleNamespace(buffer=make(bytes(64)))
    data.made = [torch.frombuffer(data.buffer, dtype=torch.float32, offset=16, count=4)]
    groups = [Root(lambda: data.made, is_whole=True)], known(data)
    assert is_shared(groups, data=[data])
    assert not is_shared(groups, data=[bytearray(64)])


def test_nor_may_an_array_in_an_array():
    images = np.empty(2, object)
    images[:] = [np.zeros(3), np.ones(4)]
    data = SimpleNamespace(images=images, made=[torch.from_numpy(images[1])])
    assert is_shared(([Root(lambda: data.made, is_whole=True)], known(data)), data=[data])


def test_nor_is_a_row_of_what_is_known_by_its_name_alone_a_copy():
    data = SimpleNamespace(table=np.rec.fromarrays([[1.0, 2.0], [1, 2]], names="x,y"))
    data.raw = bytearray(64)
    for made in ([np.asarray(data.table.x)[1:]], [np.frombuffer(data.raw)[1:]]):
        data.made = made
        del made
        groups = [Root(lambda: data.made, is_whole=True)], known(data, data.table, data.raw)
        assert is_shared(groups, data=[data])


def test_what_is_known_may_be_held_by_anything():
    data, table = SimpleNamespace(), [Row(1)]
    data.made = {1: table}
    assert shared([data], lambda: data.made)
    assert not shared([data, table], lambda: data.made)


@pytest.mark.parametrize(
    "part", [lambda x: x[0], lambda x: x.T, lambda x: x.numpy()[1:], lambda x: x.numpy()[::-1]]
)
def test_a_part_of_a_known_tensor_is_one_again(part):
    data, rows = SimpleNamespace(), torch.randn(3, 4)
    data.made = {1: part(rows), 2: part(rows)[0]}
    assert shared([data], lambda: data.made)
    assert not shared([data, rows], lambda: data.made)


class Hostile:
    def __eq__(self, other):
        raise ValueError

    def __getattribute__(self, name):
        raise ValueError

    __hash__ = None


def test_hostile_objects_end_nothing():
    data = SimpleNamespace(made=[Hostile()])
    assert not shared([], lambda: data.made)
    assert shared([], lambda: data.absent)

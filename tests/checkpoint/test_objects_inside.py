"""Objects of a user's own are looked at wherever they lie, and beside what cannot be pickled."""

import collections
import queue
import threading
import types
import weakref

import numpy as np
import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Small

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.optimizer_attributes import values_beside
from twinrun.values_inside import MOST_OBJECTS

CHANGES = "changes while the training runs, and no checkpoint holds it"


class Cell:
    def __init__(self, number=1.0):
        self.number, self.next = number, None


class Counted(list):
    """Has a number beside its items."""


def counted():
    made = Counted([1])
    made.cell = Cell()
    return made, made.cell


def chain(length):
    first = Cell()
    for _ in range(length):
        made = Cell()
        made.next, first = first, made
    return first


def last_of(cell):
    return cell if cell.next is None else last_of(cell.next)


def among(make):
    """Return a maker of a container, beside the object in it that changes."""

    def made():
        cell = Cell()
        return make(cell), cell

    return made


WHERE = {
    "long list": among(lambda cell: [*(Cell() for _ in range(99)), cell]),
    "long tuple": among(lambda cell: (*(Cell() for _ in range(99)), cell)),
    "long dictionary": among(lambda cell: {**dict.fromkeys(range(99)), "a": cell}),
    "lists in a long list": among(lambda cell: [*([Cell()] for _ in range(99)), [cell]]),
    "long list of locks": among(lambda cell: [*(threading.Lock() for _ in range(99)), cell]),
    "queue": among(lambda cell: collections.deque([Cell(), cell])),
    "queue of Python's": among(lambda cell: [q := queue.Queue(), q.put(cell)]),
    "set": among(lambda cell: {Cell(), cell}),
    "frozen set": among(lambda cell: frozenset([cell])),
    "set in a long list": among(lambda cell: [*range(99), {cell}]),
    "key": among(lambda cell: {cell: 1}),
    "key of a long dictionary": among(lambda cell: {**dict.fromkeys(range(99)), cell: 1}),
    "key in a long list": among(lambda cell: [*range(99), {cell: 1}]),
    "weak set": among(lambda cell: weakref.WeakSet([cell])),
    "user's list with a lock": among(lambda cell: collections.UserList([cell, threading.Lock()])),
    "array of objects": among(lambda cell: np.array([None, cell], dtype=object)),
    "network in a long list": among(lambda cell: [*range(99), with_cell(cell)]),
    "attribute of a list": counted,
    "mapping proxy": among(lambda cell: types.MappingProxyType({"a": cell})),
    "end of a chain": lambda: (found := chain(20), last_of(found)),
}


def with_cell(cell):
    layer = torch.nn.Linear(1, 1)
    layer.cell = cell
    return layer


@pytest.mark.parametrize("where", WHERE)
def test_a_number_of_an_object_is_seen_wherever_it_lies(where):
    """Red before: the look was the same, a checkpoint was written, and other weights resumed."""
    value, cell = WHERE[where]()
    before = look(value, ())
    assert not before.startswith(UNSEEN)
    assert look(value, ()) == before
    cell.number = 2.0
    assert look(value, ()) != before


def test_another_object_of_the_same_ones_is_seen():
    cells = [Cell(1.0), Cell(2.0)]
    assert look([*cells, cells[0]], ()) != look([*cells, cells[1]], ())


def test_a_set_of_objects_is_written_in_no_order():
    """A resumed process has them at other places in memory."""
    shared = Cell()
    found = set()
    for turn in range(8):
        cells = [Cell(float(number)) for number in range(40)]
        for cell in cells:
            cell.next = shared
        found.add(look(set(cells if turn % 2 else cells[::-1]), ()))
    assert len(found) == 1


def test_which_object_of_a_set_is_meant_is_seen():
    """Red before: each was "the same as" the one in the set."""
    cells = [Cell(1.0), Cell(2.0)]
    plans = [types.SimpleNamespace(pool={*cells}, current=cell) for cell in cells]
    assert look(plans[0], ()) != look(plans[1], ())


def test_nodes_that_know_their_neighbours_in_sets_are_walked_once_each():
    """Red before: every path through 36 nodes was walked, and the attribute refused."""
    nodes = [Cell(float(number)) for number in range(36)]
    for node in nodes:
        node.neighbours = {*nodes} - {node}
    seen = look(nodes, ())
    assert not seen.startswith(UNSEEN)
    nodes[7].number = 0.5
    assert look(nodes, ()) != seen


@pytest.mark.exhaustive
def test_too_many_objects_and_too_deep_ones_are_refused():
    """Red before: none of them was looked at, and nothing was said."""
    cells = [Cell() for _ in range(MOST_OBJECTS + 1)]
    assert look(cells, ()) == f"{UNSEEN} (more than 50,000 objects lie in it)"
    assert look(chain(100), ()).startswith(f"{UNSEEN} (more than 32 objects")
    # Each of these is near.
    links = [chain(100)]
    while links[-1].next is not None:
        links.append(links[-1].next)
    assert not look(links[::-1], ()).startswith(UNSEEN)


@pytest.mark.timeout(60)
def test_objects_that_know_each_other_are_walked_once():
    """Red before: each on each of the ways to it, for ever."""
    cells = [Cell() for _ in range(60)]
    for cell in cells:
        cell.next = [*cells]
    before = look(cells, ())
    cells[30].number = 2.0
    assert look(cells, ()) != before


def test_the_paths_of_plain_values_are_what_they_were():
    """What an optimizer keeps in attributes is fingerprinted by its path."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    optimizer.long, optimizer.short = [*range(99), [0.5]], {"a": (1, collections.deque([2]))}
    optimizer.cells = {Cell(), Cell()}  # whose order is chance
    found = list(values_beside(optimizer, ()))
    assert found[0] == "long list.0"
    assert found[99:] == ["long list.99/list.0", "short['a'][0]", "short['a'][1] deque.0"]


class Cells(Small):
    """Scales its loss by numbers of many objects."""

    def __init__(self, **options):
        super().__init__(**options)
        self.cells = self.begin()

    def begin(self):
        return [Cell() for _ in range(100)]

    def training_step(self, batch, batch_idx):
        cell = [*self.cells][batch_idx % 3]
        cell.number += 0.1
        return super().training_step(batch, batch_idx) * sum(cell.number for cell in self.cells)


class InAQueue(Cells):
    def begin(self):
        return collections.deque([Cell() for _ in range(3)])


class InAKey(Cells):
    def begin(self):
        return {Cell(): 1 for _ in range(3)}


@pytest.mark.parametrize("module", [Cells, InAQueue, InAKey])
def test_objects_that_change_in_place_are_refused_by_name(tmp_path, module):
    """Red before: a checkpoint was written, and other weights resumed, without a word."""
    _, _, said = fit(tmp_path, module=module, in_epoch=every(1), kill=3)
    assert any(f"{module.__name__}.cells {CHANGES}" in sentence for sentence in said), said


class Generators(Small):
    """Draws from a generator among many."""

    def __init__(self, **options):
        super().__init__(**options)
        self.made = {"all": [np.random.default_rng(turn) for turn in range(300)]}

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.made["all"][299].random()


class GeneratorsInAQueue(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.made = collections.deque([np.random.default_rng(1)])

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.made[0].random()


@pytest.mark.parametrize(
    ("module", "name"),
    [(Generators, "made['all'][299]"), (GeneratorsInAQueue, "made[0]")],
)
def test_generators_in_long_lists_and_queues_are_refused(tmp_path, module, name):
    """Red before: of 300 generators, and of one in a queue, none was looked at."""
    _, _, (said, *_) = fit(tmp_path, module=module, in_epoch=every(1), kill=3)
    assert f"{module.__name__}.{name} changes while the training runs" in said


class Plain(Small):
    """Keeps plain data of other kinds."""

    def __init__(self, **options):
        super().__init__(**options)
        self.turn, self.seen, self.last = 1j, bytearray(4), b""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.turn *= complex(0.9, 0.1)
        self.seen[batch_idx % 4] += 1
        self.last = bytes(self.seen)
        scale = 2 + self.turn.real + self.seen[0] + len(self.last) + self.last[1]
        return loss * scale


def test_complex_numbers_and_bytes_are_resumed(tmp_path):
    """Red before: refused, though numbers are kept."""
    assert_resumed(tmp_path, [3, 6], kills=[4, 7], module=Plain)

"""Samples are found in batches of any kind: another order is told from another content."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from collating import collate

from twinrun.trace.batch_prints import BatchPrints
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.trace.hash_kinds import UNLIKE_ROWS
from twinrun.trace.samples import fingerprint_samples
from twinrun.trace.step_fingerprints import StepFingerprints

SIZE = 6


@dataclass
class Sample:
    nodes: torch.Tensor
    label: int


ORDER = [3, 1, 0, 5, 4, 2]


def images(values):
    """Make images of unlike sizes."""
    return [torch.full((3, 4 + v % 3, 5), float(v)) for v in values]


# A batch of samples with these values, and something else beside them.
KINDS = {
    "tensor": lambda v, rest: torch.tensor([[float(x), 1.0] for x in v]),
    "tensors": lambda v, rest: [torch.tensor(v) * 1.5, {"label": torch.tensor(v)}],
    "array": lambda v, rest: np.array(v),
    "texts and labels": lambda v, rest: ([f"text {x}" for x in v], torch.tensor(v) % 2),
    "texts": lambda v, rest: [f"text {x}" for x in v],
    "list of samples": lambda v, rest: [(torch.ones(3) * x, x % 2) for x in v],
    "dictionaries": lambda v, rest: [{"ids": [x, x + 1], "label": x % 2} for x in v],
    "with a number": lambda v, rest: {"x": torch.tensor(v), "temperature": rest},
    "with a mask": lambda v, rest: {"x": torch.tensor(v), "mask": torch.ones(9) * rest},
    "sparse": lambda v, rest: (torch.eye(100)[v].to_sparse(), torch.tensor(v) % 2),
    "compressed": lambda v, rest: {"x": torch.eye(100)[v].to_sparse_csr(), "y": ["a"] * len(v)},
    "nested": lambda v, rest: [
        torch.nested.nested_tensor([torch.full((1 + x % 3,), float(x)) for x in v]),
        torch.tensor(v) % 2,
    ],
}
# Without a collate function, or with one of the user's own: plain Python.
KINDS |= {
    "list of lists": lambda v, rest: [[x, x + 1, 7, 8, 9, 10, 11] for x in v],
    "ragged lists": lambda v, rest: [[x] * (1 + x % 4) for x in v],
    "square of numbers": lambda v, rest: [[x, x + 1, 7, 8, 9, 10] for x in v],
    "lists of words": lambda v, rest: [[f"w{x}", "is", "a", "word"] for x in v],
    "list of tuples": lambda v, rest: [(f"text {x}", f"translated {x}") for x in v],
    "list of lists of lists": lambda v, rest: [[[x, 1], [x, 2]] for x in v],
    "tokens and labels": lambda v, rest: ([[x, x + 1, 3] for x in v], [x % 2 for x in v]),
    "numbers and numbers": lambda v, rest: ([x * 1.5 for x in v], [x + 1 for x in v]),
    "texts and texts": lambda v, rest: [
        tuple(f"text {x}" for x in v),
        tuple(f"translated {x}" for x in v),
    ],
    "tuple of ragged": lambda v, rest: tuple([x] * (1 + x % 4) for x in v),
    "tuple of pairs": lambda v, rest: tuple((torch.ones(3) * x, x % 2) for x in v),
    "dictionary of lists": lambda v, rest: {"ids": [[x, x + 1] for x in v], "label": list(v)},
    "dictionary of one list": lambda v, rest: {"ids": [[x, 3, 4, 5, 6, 7, 8, 9] for x in v]},
    "dictionary of ragged": lambda v, rest: {"ids": [[x] * (1 + x % 4) for x in v]},
    "dictionary of a pair": lambda v, rest: {"pair": (list(v), [f"text {x}" for x in v])},
    "dictionaries of numbers": lambda v, rest: [{"x": x, "y": [x, 1]} for x in v],
    "dictionaries with gaps": lambda v, rest: [{"x": x, "y": 1} if x % 2 else {"x": x} for x in v],
    "labels with gaps": lambda v, rest: ([f"text {x}" for x in v], [x if x else None for x in v]),
    "dataclasses": lambda v, rest: [Sample(torch.full((1 + x % 3, 2), x), x % 2) for x in v],
    "pictures of one size": lambda v, rest: [torch.full((3, 4, 4), float(x)) for x in v],
    "pictures": lambda v, rest: images(v),
    "pictures and labels": lambda v, rest: (images(v), [x % 2 for x in v]),
    "two views": lambda v, rest: [
        [torch.tensor(v) * 1.5, torch.tensor(v) * 2.5],
        torch.tensor(v) % 2,
    ],
}
# A detector's: images of unlike sizes, boxes of unlike numbers, and labels.
DETECTION = lambda v, rest: (  # noqa: E731
    [torch.full((3, 4 + x % 3, 5), float(x)) for x in v],
    [{"boxes": torch.full((1 + x % 2, 4), float(x))} for x in v],
    torch.tensor(v) % 2,
)
KINDS["detection"] = DETECTION


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_known_in_another_order(kind):
    batch, other = KINDS[kind](list(range(SIZE)), 1.0), KINDS[kind](ORDER, 1.0)
    found, again = fingerprint_samples(batch), fingerprint_samples(other)
    assert fingerprint_tree(batch) != fingerprint_tree(other)
    assert sorted(found) == sorted(again)
    assert list(found) != list(again)
    np.testing.assert_array_equal(again[:SIZE], found[:SIZE][ORDER])


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_other_content_are_other_samples(kind):
    batch = KINDS[kind](list(range(SIZE)), 1.0)
    other = KINDS[kind]([*range(SIZE - 1), 99], 1.0)
    differing = fingerprint_samples(batch) != fingerprint_samples(other)
    assert differing[:SIZE].tolist() == [False] * (SIZE - 1) + [True]


@pytest.mark.parametrize("kind", ["with a number", "with a mask"])
def test_what_belongs_to_no_sample_counts_as_one_more(kind):
    batch, other = (KINDS[kind](list(range(SIZE)), rest) for rest in (1.0, 2.0))
    differing = fingerprint_samples(batch) != fingerprint_samples(other)
    assert differing.tolist() == [False] * SIZE + [True]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "kind", ["detection", "pictures and labels", "tokens and labels", "tensors"]
)
def test_samples_of_a_small_batch_are_not_mistaken_for_channels(kind, size):
    batch, other = (KINDS[kind](list(order), 1.0) for order in (range(size), range(size)[::-1]))
    found, again = fingerprint_samples(batch), fingerprint_samples(other)
    assert len(found) == size
    np.testing.assert_array_equal(again, found[::-1])


def test_parts_of_samples_that_are_exchanged_are_other_samples():
    tokens, labels = [[x, x + 1] for x in range(SIZE)], list(range(SIZE))
    samples = fingerprint_samples((tokens, labels))
    mixed = fingerprint_samples(([tokens[i] for i in ORDER], labels))
    assert not set(mixed) & set(samples[[i for i in range(SIZE) if ORDER[i] != i]])


def test_inputs_and_targets_that_are_exchanged_are_other_samples():
    first, second = list(range(SIZE)), [x * 2.0 for x in range(SIZE)]
    assert not set(fingerprint_samples((first, second))) & set(fingerprint_samples((second, first)))


def test_values_under_another_name_are_other_samples():
    """Boxes that are given as masks are no other order of the same samples."""
    first, second = ([{name: [x, x + 1]} for x in range(SIZE)] for name in ("boxes", "masks"))
    assert not set(fingerprint_samples(first)) & set(fingerprint_samples(second))


def test_rows_that_are_exchanged_between_tensors_are_other_samples():
    order = torch.tensor(ORDER)
    pictures, labels = torch.rand(SIZE, 2, 3), torch.arange(SIZE)
    samples = fingerprint_samples([pictures, {"label": labels}])
    mixed = fingerprint_samples([pictures[order], {"label": labels}])
    assert len(np.intersect1d(mixed, samples)) == (order == labels).sum()


@pytest.mark.parametrize("batch", [[], torch.tensor(1.0), {"text": "a"}, None, 3, "text", {}])
def test_a_batch_without_samples_is_one_whole(batch):
    assert len(fingerprint_samples(batch)) <= 1


def test_a_list_that_holds_itself_ends():
    batch = [torch.ones(2)]
    batch.append(batch)
    assert len(fingerprint_samples(batch)) >= 1


@pytest.mark.parametrize(
    ("how", "is_unlike"),
    [
        ("padded", [False, True, True]),  # to the same length as long as nothing says otherwise
        ("time first", [True, True, True]),
        ("padded, time first", [True, True, True]),
        ("concatenated", [True, True, True]),
        ("lists", [False, False, False]),
        (None, [False, False, False]),
    ],
)
def test_samples_that_depend_on_what_is_beside_them_are_noted(how, is_unlike):
    prints, found = BatchPrints(), []
    for longest in (5, 7, 7):
        lengths = [4, 3, longest, 4, 3, 4]
        samples = [(torch.rand(length, 4), torch.rand(1)) for length in lengths]
        batch = (torch.rand(6, 4), torch.rand(6)) if how is None else collate(how, samples)
        prints.look_at(batch, StepFingerprints())
        prints.make()
        found.append(bool(prints.kinds.get(UNLIKE_ROWS)))
    assert found == is_unlike

"""Samples are found in batches of any kind: another order is told from another content."""

import numpy as np
import pytest
import torch

from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.trace.samples import fingerprint_samples

SIZE = 6
ORDER = [3, 1, 0, 5, 4, 2]


def images(values):
    """Make images of unlike sizes."""
    return [torch.full((3, 4 + i % 3, 5), float(v)) for i, v in enumerate(values)]


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

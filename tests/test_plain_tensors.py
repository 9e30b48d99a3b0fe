"""Tensors of a user's class are looked at without the methods of that class."""

import pytest
import torch

from twinrun.checkpoint.data_in_place import content_of_array
from twinrun.checkpoint.looks import digest, fingerprint_of_batch
from twinrun.plain_tensors import bare, flat_bytes
from twinrun.trace.batch_lists import num_rows
from twinrun.trace.fingerprints import fingerprint, fingerprint_tree
from twinrun.trace.samples import fingerprint_samples

METHODS = (
    *("reshape", "view", "detach", "cpu", "contiguous", "numpy", "to", "size", "clone"),
    *("resolve_conj", "resolve_neg", "flatten", "ravel", "unbind", "__len__", "__iter__"),
)


def refuses(*_, **__):
    raise ValueError("labels do not fit")


Labelled = type("Labelled", (torch.Tensor,), dict.fromkeys(METHODS, refuses))


class RefusesAll(torch.Tensor):
    """Has a say in each operation of torch's."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in METHODS:
            refuses()
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("kind", [Labelled, RefusesAll])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_class_that_refuses_is_looked_at_all_the_same(kind, dtype):
    """Red before: a training on such a batch failed, and was said to have failed by itself."""
    plain = torch.arange(6, dtype=dtype).reshape(3, 2)
    own = plain.clone().as_subclass(kind)
    assert fingerprint(own) == fingerprint(plain)
    assert (fingerprint_samples([own]) == fingerprint_samples([plain])).all()
    assert fingerprint_samples([own]).tolist() != fingerprint_samples([own * 2]).tolist()
    assert num_rows(own) == 3
    assert digest(own) == digest(plain)
    assert content_of_array(own) == content_of_array(plain)
    for look in (fingerprint_tree, fingerprint_of_batch):
        assert isinstance(look({"a": own}), int)


def test_memory_and_count_of_writes_are_shared():
    own = torch.zeros(2).as_subclass(Labelled)
    found = bare(own)
    assert type(found) is torch.Tensor
    own.add_(1)
    assert found.tolist() == [1, 1]
    assert found._version == own._version


def test_what_stands_before_other_tensors_is_left_as_it_is():
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged)
    assert bare(jagged) is jagged
    parameter = torch.nn.Parameter(torch.ones(1))
    assert bare(parameter) is parameter


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_expanded_tensor_of_one_element_is_looked_at(dtype):
    """Red before: torch calls it contiguous, and refuses to show its bytes."""
    found, same = torch.ones((), dtype=dtype).expand(1), torch.ones(1, dtype=dtype)
    assert found.stride() == (0,)
    assert flat_bytes(found).tolist() == flat_bytes(same).tolist()
    assert fingerprint(found) == fingerprint(same)
    assert fingerprint_samples([found]).tolist() == fingerprint_samples([same]).tolist()
    assert digest(found) == digest(found.clone())

"""Memory is followed by regions: what overlaps, what covers, and which storage it is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twinrun.trace.data_flow import Memory
from twinrun.trace.op_tracer import OpTracer

VIEWS = {
    "all": lambda t: t,
    "first row": lambda t: t[0],
    "first column": lambda t: t[:, 0],
    "second column": lambda t: t[:, 1],
    "every other row": lambda t: t[::2],
    "transposed": lambda t: t.t(),
    "one element": lambda t: t[2, 3],
    "expanded": lambda t: t[1:2].expand(3, 6),
    "of another type": lambda t: t.view(torch.int32)[:, 4:8],
    "rows": lambda t: t[1:3],
}


def bytes_of(view, base):
    """Return which bytes of a base tensor a view of it holds: by writing to them."""
    base.zero_()
    if 0 in view.stride():  # torch refuses to write an element several times
        view = view[:1]
    view.fill_(-1)
    return base.view(torch.uint8).ne(0).flatten().clone()


@given(st.sampled_from(list(VIEWS)), st.sampled_from(list(VIEWS)))
def test_overlaps_and_covers_are_those_of_the_bytes(first, second):
    base = torch.zeros(4, 6, dtype=torch.int64)
    memory = Memory()
    views = [VIEWS[name](base) for name in (first, second)]
    (left,), (right,) = (memory.regions(view) for view in views)
    held = [bytes_of(view, base) for view in views]
    assert left.overlaps(right) == bool((held[0] & held[1]).any())
    assert left.covers(right) == bool((~held[1] | held[0]).all())


def test_a_storage_keeps_its_number_and_none_gets_that_of_another():
    memory = Memory()
    tensor = torch.ones(3)
    assert memory.storage(tensor) == memory.storage(tensor[1:]) == memory.storage(tensor.detach())
    # Freed at once, the same memory is given out again.
    numbers = {memory.storage(torch.ones(3)) for _ in range(50)}
    assert len(numbers) == 50
    assert memory.storage(tensor) not in numbers


def test_following_memory_keeps_no_tensor_alive():
    memory = Memory()
    tensor = torch.ones(1000)
    held = torch.multiprocessing.reductions.StorageWeakRef(tensor.untyped_storage())
    memory.regions(tensor)
    del tensor
    assert held.expired()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), is_coalesced=True),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.eye(3).to_sparse_csc(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_other_layouts_have_regions(make):
    tensor, memory = make(), Memory()
    assert memory.regions(tensor)
    assert memory.regions(tensor) == memory.regions(tensor)


def flows(step):
    tracer = OpTracer(torch.nn.Module(), lambda row, outputs: None)
    with tracer.following():
        step()
    return {row["op"].removeprefix("aten::"): flow for row, flow in tracers_rows(tracer)}


def tracers_rows(tracer):
    return zip(tracer.rows, tracer.flows, strict=True)


def test_what_is_overwritten_is_not_read():
    values, out = torch.ones(3), torch.ones(3)

    def step():
        values.fill_(2.0)
        values.copy_(out)
        values.normal_()
        torch.add(values, 1, out=out)
        values.mul_(2)

    found = flows(step)
    assert [len(found[name].reads) for name in ("fill_", "copy_", "add", "mul_")] == [0, 1, 1, 1]
    (state,) = found["normal_"].reads
    assert state.is_generator
    assert [use.is_generator for use in found["normal_"].writes] == [False, True]


def test_lists_are_computed_element_by_element():
    left, right = [torch.ones(2), torch.ones(3)], [torch.ones(2), torch.ones(3)]

    def step():
        torch._foreach_add_(left, right)
        torch.cat([*left, torch.ones(1)])
        torch.stack([right[0], left[0]], dim=1)

    found = flows(step)
    assert [use.lane for use in found["_foreach_add_"].reads] == [0, 1, 0, 1]
    assert [use.lane for use in found["_foreach_add_"].writes] == [0, 1]
    starts = [(use.lane, use.regions[0].start) for use in found["cat"].writes]
    assert starts == [(0, 0), (1, 8), (2, 20)]
    assert [use.regions[0].strides for use in found["stack"].writes] == [(8,), (8,)]
    assert not found["stack"].writes[0].regions[0].overlaps(found["stack"].writes[1].regions[0])

"""What a step starts with, as it is written."""

import torch

from twinrun.comparison.step_state import _Alone


def test_of_what_has_its_memory_for_itself_no_copy_is_made():
    """Red before: a copy of parameters, gradients and optimizer state at every step."""
    alone = _Alone()
    weight = torch.nn.Parameter(torch.ones(3, 4))
    assert alone(weight).data_ptr() == weight.data_ptr()
    assert not alone(torch.ones(2, requires_grad=True)).requires_grad


def test_what_shares_its_memory_is_written_by_itself(tmp_path):
    alone, memory = _Alone(), torch.arange(8.0)
    whole, part, bits = memory, memory[2:4], memory.view(torch.int32)
    found = [alone(tensor) for tensor in (whole, part, bits)]
    torch.save(found, tmp_path / "start.pt")
    again = torch.load(tmp_path / "start.pt", mmap=True)
    for loaded, tensor in zip(again, (whole, part, bits), strict=True):
        assert torch.equal(loaded, tensor)
    assert found[1].untyped_storage().nbytes() == 8

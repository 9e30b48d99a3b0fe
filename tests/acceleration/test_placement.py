"""A layout changes strides and no value."""

import pytest
import torch

from twinrun.acceleration.placement import lay_out_batch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("points", [2048, 40_000])
def test_points_lie_innermost_and_keep_their_bits(dtype, points):
    tensor = torch.randn(points, 3).to(dtype)
    if dtype.is_floating_point:
        tensor[0, 0], tensor[1, 1] = -0.0, torch.nan
    found, labels = lay_out_batch([tensor, tensor[:, 0]], "features_first")
    assert found.shape == tensor.shape
    assert found.stride() == (1, points)
    assert found.dtype == dtype
    same = found.contiguous().view(torch.uint8), tensor.view(torch.uint8)
    assert torch.equal(*same)
    assert labels.stride() == (3,)


def test_a_batch_that_is_written_to_is_laid_out_as_it_is_now():
    batch = [torch.zeros(2048, 2)]
    first = lay_out_batch(batch, "features_first")
    batch[0].numpy()[5] = 1.0  # past torch's count of writes
    second = lay_out_batch(batch, "features_first")
    assert first[0].sum() == 0
    assert second[0].sum() == 2


def test_a_matrix_that_needs_a_gradient_keeps_its_graph():
    tensor = torch.randn(2048, 2, requires_grad=True)
    (found,) = lay_out_batch([tensor], "features_first")
    found.sum().backward()
    assert torch.equal(tensor.grad, torch.ones(2048, 2))

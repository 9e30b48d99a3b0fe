"""What a tolerance knows of how a variant computes, and what no tolerance covers."""

import math

import pytest
import torch

from twinrun.acceleration.roundings import epsilon_of
from twinrun.timing.agreement import agreement, apart, tolerance_of


def distance(output, expected):
    return apart(output, expected).distance


@pytest.fixture
def restored():
    """Put back how float32 is multiplied."""
    names = [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.mkldnn.matmul]
    before = [backend.fp32_precision for backend in names]
    yield
    for backend, value in zip(names, before, strict=True):
        if backend.fp32_precision != value:
            backend.fp32_precision = value


def test_float32_on_a_gpu_is_as_coarse_as_torch_may_multiply_it(restored):
    float32, tf32 = torch.finfo(torch.float32).eps, 2.0**-10
    # cuDNN's convolutions are TF32 unless they are told not to.
    assert epsilon_of("32-true", "gpu") == tf32
    assert epsilon_of("32-true", "cpu") == float32
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    torch.backends.cudnn.rnn.fp32_precision = "ieee"
    assert epsilon_of("32-true", "gpu") == float32
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert epsilon_of("32-true", "gpu") == tf32
    assert epsilon_of("32-true", "cpu") == float32
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    assert epsilon_of("32-true", "cpu") == 2.0**-7
    assert epsilon_of("64-true", "gpu") == torch.finfo(torch.float64).eps


@pytest.mark.parametrize(
    ("epsilon", "tolerance"), [(2.0**-52, 2.2e-14), (2.0**-23, 1.2e-5), (2.0**-10, 0.031)]
)
def test_no_tolerance_is_more_than_half_of_the_digits(epsilon, tolerance):
    assert tolerance_of(epsilon) == pytest.approx(tolerance, rel=0.02)


def test_the_coarser_of_two_variants_decides():
    ones = [torch.ones(4)]
    outputs = {"fine": (ones, 2.0**-23), "coarse": ([torch.ones(4) * 1.01], 2.0**-10)}
    for baseline, other in (("fine", "coarse"), ("coarse", "fine")):
        ((name, found, tolerance),) = agreement(outputs, baseline)
        assert name == other
        assert found.distance == pytest.approx(0.01, rel=0.02)
        assert tolerance == tolerance_of(2.0**-10)


def test_a_wrong_prediction_is_further_off_than_rounding():
    right = [torch.ones(100)]
    assert distance([torch.ones(100) + 1e-6], right) == pytest.approx(1e-6, rel=0.1)
    wrong = [torch.ones(100).index_fill(0, torch.tensor([3]), 0.0)]
    assert distance(wrong, right) == pytest.approx(0.1)


def test_a_nan_in_a_later_tensor_is_no_agreement():
    right = [torch.ones(3), torch.ones(3)]
    assert math.isnan(distance([torch.ones(3), torch.full((3,), torch.nan)], right))


@pytest.mark.parametrize("other", [[torch.ones(3)], [torch.ones(3), torch.ones(3, 1)]])
def test_a_prediction_of_other_tensors_is_no_agreement(other):
    assert distance(other, [torch.ones(3), torch.ones(3)]) == math.inf


def test_masked_values_that_both_have_are_no_distance():
    """Red before: minus infinity less itself is no number."""
    masked = torch.tensor([1.0, -math.inf, math.nan, 2.0])
    assert distance([masked], [masked.clone()]) == 0.0
    moved = masked + torch.tensor([0.0, 0.0, 0.0, 0.1])
    assert distance([moved], [masked]) == pytest.approx(0.1 / math.sqrt(5))
    assert distance([torch.ones(4)], [masked]) == math.inf or math.isnan(
        distance([torch.ones(4)], [masked])
    )


def test_labels_are_counted_and_scores_measured():
    """Red before: labels of which rounding turned over 1 in 100 were 0.1 apart."""
    labels = torch.arange(100)
    turned = labels.index_fill(0, torch.tensor([7]), 99)
    assert apart([turned], [labels]) == (None, 100, 1)
    mask = [labels > 3, torch.ones(2)]
    assert apart(mask, [turned > 3, torch.ones(2)]) == (0.0, 100, 0)
    assert apart([labels], [labels[:3]]).distance == math.inf
    # Of whole numbers in a floating-point format nobody knows that they are labels.
    assert apart([turned.float()], [labels]).distance > 0.1


def test_the_imaginary_part_counts():
    """Red before: it was left out."""
    one = torch.ones(2, dtype=torch.complex64)
    assert distance([one + 1j], [one]) == pytest.approx(1)

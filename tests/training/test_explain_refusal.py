"""What torch refuses in mid-training is said by the key that helps."""

import pytest
import torch

from twinrun.errors import TwinrunError
from twinrun.training.explain_refusal import explain_refusal


def test_a_shard_of_one_sample_is_told_from_a_fault_of_the_module():
    """As torch words it today."""
    with pytest.raises(ValueError, match="more than 1 value") as refused:
        torch.nn.BatchNorm1d(3)(torch.ones(1, 3))
    with pytest.raises(TwinrunError, match=r"^variants\.two: .*drop_last=True"):
        explain_refusal(refused.value, "two")


def test_another_failure_is_left_as_it_is():
    explain_refusal(ValueError("something else"), "two")


def test_a_schedule_without_its_metric_is_no_fault_of_the_variants_validation():
    """Red before: "variants.two.validation: a callback of the module", of one that validates."""
    error = RuntimeError(
        "ReduceLROnPlateau conditioned on metric val_loss which is not available. Available "
        "metrics are: []."
    )
    with pytest.raises(TwinrunError, match=r"^variants\.two: .*schedule.*val_check_interval"):
        explain_refusal(error, "two")

"""A fixed sample of the elements of all parameters, whatever they lie in."""

import numpy as np
import pytest
import torch

from twinrun.trace.parameter_sample import SAMPLE_SIZE, ParameterSample


class Own(torch.nn.Parameter):
    """A class of a user's."""


def all_kinds(dtype):
    """Return parameters that lie in memory in every way, of more elements than are sampled."""
    torch.manual_seed(1)
    wide = torch.randn(40, 30, dtype=dtype)
    complex_ = torch.randn(40, 30, dtype=torch.complex128)
    return {
        "plain": torch.nn.Parameter(wide.clone()),
        "transposed": torch.nn.Parameter(wide.clone().t()),
        "every second": torch.nn.Parameter(wide.clone()[:, ::2]),
        "a tensor": wide.clone(),
        "negated": torch.nn.Parameter(complex_.conj().imag.to(dtype)),
        "of a class": Own(wide.clone()),
        "narrow": torch.nn.Parameter(wide.to(torch.bfloat16)),
        "scalar": torch.nn.Parameter(torch.tensor(3.0, dtype=dtype)),
        "empty": torch.nn.Parameter(torch.empty(0, dtype=dtype)),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("left_out", [(), ("of a class", "narrow")])
def test_the_elements_are_those_of_all_parameters_side_by_side(dtype, left_out):
    parameters = {name: p for name, p in all_kinds(dtype).items() if name not in left_out}
    together = torch.cat([p.detach().to(dtype).reshape(-1) for p in parameters.values()]).numpy()
    chosen = np.unique(np.linspace(0, len(together) - 1, SAMPLE_SIZE).astype(np.int64))
    found = ParameterSample(parameters).of(parameters)
    assert found.dtype == together.dtype
    assert found.tobytes() == together[chosen].tobytes()


def test_what_is_no_longer_there_is_no_number():
    parameters = all_kinds(torch.float32)
    sample = ParameterSample(parameters)
    before = sample.of(parameters)
    gone = {**parameters, "plain": torch.nn.Parameter(torch.zeros(2)), "scalar": None}
    after = sample.of({name: found for name, found in gone.items() if found is not None})
    other = np.isnan(after)
    assert 0 < other.sum() < len(after)
    assert (after[~other] == before[~other]).all()
    with torch.no_grad():
        parameters["plain"].zero_()
    assert not np.isnan(before).any(), "a copy"
    assert (sample.of(parameters) != before).any()
    assert before.any()

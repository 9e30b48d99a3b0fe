"""What several workers could not step together is refused before the first step."""

from types import SimpleNamespace

import pytest
import torch
from small import Small

from twinrun.errors import TwinrunError
from twinrun.parallel.joint_optimizers import check_optimizers


class Own(torch.optim.LBFGS):
    pass


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, Own])
def test_lbfgs_is_refused(kind):
    """Red before: two workers with a line search waited for each other for half an hour."""
    module = Small()
    trainer = SimpleNamespace(optimizers=[kind(module.parameters())])
    with pytest.raises(TwinrunError, match="devices: LBFGS decides by the loss"):
        check_optimizers(trainer, module)


def test_what_the_module_does_not_hold_is_refused():
    trainer = SimpleNamespace(optimizers=[torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])])
    with pytest.raises(TwinrunError, match="whose gradients workers cannot exchange"):
        check_optimizers(trainer, Small())


def test_others_are_not():
    module = Small()
    check_optimizers(SimpleNamespace(optimizers=[torch.optim.Adam(module.parameters())]), module)

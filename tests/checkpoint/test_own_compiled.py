"""A module that compiles its code by itself is resumed only where the same code is compiled."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small

from twinrun.errors import TwinrunError

NOTHING_COMES = {"limit_val_batches": 0}


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


class Compiles(Small):
    """Compiles a part of itself, traced and run operation by operation."""

    def __init__(self):
        super().__init__()
        self.fast = torch.compile(self.hidden, backend="aot_eager")

    def forward(self, inputs):
        return self.output(self.fast(inputs).relu())


class CompilesForNumbers(Compiles):
    def forward(self, inputs):
        return super().forward(inputs) * self.scale(self.current_epoch)

    @staticmethod
    @torch.compile(backend="aot_eager")
    def scale(number):
        return torch.ones(1) / (1 + number)


class Even(Points):
    """Batches of one size."""

    def __init__(self, size=70):
        super().__init__(size=64)


class Grows(Even):
    """Batches of 16, and of 32 from the third epoch on."""

    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(self.inputs, self.targets)
        size = 16 if self.trainer.current_epoch < 2 else 32
        return torch.utils.data.DataLoader(data, size, shuffle=True)


def fresh(folder, **options):
    """Train as another process would, which has compiled nothing."""
    torch._dynamo.reset()
    return fit(folder, **options)


def test_one_size_is_resumed(tmp_path):
    told = {"data": Even, "module": Compiles}
    whole, _, _ = fresh(tmp_path / "whole", **told)
    fresh(tmp_path / "killed", kill=6, in_epoch=every(1), **told)
    found, resumed_at, said = fresh(tmp_path / "killed", **told)
    assert (found, resumed_at, said) == (whole, [5], [])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "data", "options", "reason"),
    [
        (Compiles, Points, NOTHING_COMES, "size mismatch at index 0. expected 16, actual 6"),
        (Compiles, Points, {}, "size mismatch"),
        (CompilesForNumbers, Even, {}, "for other sizes or values"),
        (Compiles, Even, {"num_sanity_val_steps": 1}, "num_sanity_val_steps: 0"),
    ],
    ids=["partial batch", "partial batch, validated", "number", "validated before"],
)
def test_what_depends_on_what_came_first_is_refused(tmp_path, module, data, options, reason):
    """Red before: resumed to other bits, without a word."""
    told = {"module": module, "data": data, "minutes": 0, "max_epochs": 3, **options}
    _, _, (said,) = fresh(tmp_path, **told)
    assert said.startswith(f"no checkpoints are written: code of {module.__name__} is compiled")
    assert reason in said
    assert ("drop_last=True" in said) == (data is Points)


def test_a_resumed_training_that_begins_with_another_size_is_broken_off(tmp_path):
    """Red before: the code for one size was compiled, where the whole training had that for any."""
    told = {"module": Compiles, "data": Grows, "minutes": 0, "max_epochs": 4}
    told |= {"reload_dataloaders_every_n_epochs": 1, **NOTHING_COMES}
    fresh(tmp_path, kill=9, **told)
    with pytest.raises(TwinrunError, match=r"first compiled for a batch of other shapes"):
        fresh(tmp_path, **told)
    assert not (tmp_path / "checkpoint.json").exists()


def test_a_training_that_compiles_nothing_has_nothing_to_do_with_it(tmp_path):
    assert_resumed(tmp_path, [6], kills=[7], module=Small)


class Held(Small):
    """A hook holds a parameter and a buffer, which are in every checkpoint."""

    def __init__(self):
        super().__init__()
        held = [self.hidden.weight, self.calls]
        self.output.register_forward_hook(lambda *_, held=held: held[0].sum() * held[1])


class HeldAndExchanged(Small):
    def __init__(self):
        super().__init__()
        self.held = lambda *_, held=[self.hidden.weight]: held
        self.output.register_forward_hook(lambda *_: None)

    def on_train_epoch_end(self):
        self.held()[0] = torch.zeros(3)


def test_what_the_module_holds_is_no_state_of_another(tmp_path):
    """Red before: a function with a parameter "changes while the training runs"."""
    assert_resumed(tmp_path / "held", [6], kills=[7], module=Held)
    _, _, said = fit(tmp_path / "exchanged", module=HeldAndExchanged, minutes=0, max_epochs=3)
    assert "changes while the training runs" in said[0]

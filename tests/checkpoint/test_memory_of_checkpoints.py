"""What a checkpoint takes of memory while it is written: no copy of what is trained."""

import copy
import pickle
import tracemalloc
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils._python_dispatch import TorchDispatchMode

from twinrun.checkpoint import resumable
from twinrun.checkpoint.straight import save_straight
from twinrun.checkpoint.whole_state import load_optimizers

FULL = Path("/dev/full")
WIDTH = 1024
BYTES = 4 * WIDTH * WIDTH


class Large(Small):
    """Has 4 MiB of weights, twice as much of Adam's, and gradients that live between batches."""

    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(WIDTH, WIDTH)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss + self.wide(torch.ones(1, WIDTH)).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Drops(Large):
    """Leaves a part out of its checkpoints, as one does with a text encoder."""

    def on_save_checkpoint(self, checkpoint):
        del checkpoint["state_dict"]["wide.weight"]

    def on_load_checkpoint(self, checkpoint):
        checkpoint["state_dict"]["wide.weight"] = self.wide.weight.detach().clone()


class Averaged(Large):
    """Saves its average instead of what it trains."""

    def configure_callbacks(self):
        return [pl.callbacks.EMAWeightAveraging()]


class Copies(TorchDispatchMode):
    """Counts the bytes of the tensors that are made."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        given = {id_of(each) for each in args if isinstance(each, torch.Tensor)}
        if isinstance(found, torch.Tensor) and id_of(found) not in given:
            self.bytes += found.nbytes
        return found


def id_of(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("module", [Large, Drops, Averaged])
def test_a_checkpoint_is_written_from_what_is_there(tmp_path, monkeypatch, module):
    """Red before: 5 to 8 times the weights, as Lightning makes all bytes in memory, and a copy of
    gradients, of weights where there is a hook, and of the file where something is left out.
    """
    own, peaks = resumable.write, []

    def write(*given, **options):
        tracemalloc.start()
        try:
            with Copies() as copies:
                own(*given, **options)
            peaks.append(tracemalloc.get_traced_memory()[1] + copies.bytes)
        finally:
            tracemalloc.stop()

    monkeypatch.setattr(resumable, "write", write)
    _, _, said = fit(tmp_path, Points, module, in_epoch=every(2), max_epochs=1)
    assert (said, len(peaks)) == ([], 2)
    assert max(peaks) < BYTES / 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Drops, Averaged])
def test_what_was_written_so_is_resumed_in_the_same_bits(tmp_path, module):
    assert_resumed(tmp_path, [3], kills=[4], module=module)


@pytest.mark.skipif(not FULL.exists(), reason="has no disk that is always full")
def test_a_full_disk_is_told_from_a_fault():
    """Torch's own error says "unexpected pos 64 vs 0", whatever the file has said."""
    with pytest.raises(OSError, match="No space left on device"):
        save_straight({"weight": torch.zeros(2**16)}, FULL)


def test_a_value_that_cannot_be_written_keeps_its_error(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        save_straight({"weight": torch.zeros(2), "made": lambda: 0}, tmp_path / "file")


class Holder:
    """Stands for a Trainer whose one optimizer is loaded."""

    def __init__(self, module, optimizer):
        self.lightning_module, self.optimizers, self.strategy = module, [optimizer], self

    def load_optimizer_state_dict(self, checkpoint):
        self.optimizers[0].load_state_dict(*checkpoint["optimizer_states"])


def stepped(**options):
    module = torch.nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam(module.parameters(), **options)
    module(torch.ones(1, WIDTH)).square().mean().backward()
    optimizer.step()
    return module, optimizer


def moments_of(optimizer):
    return [state["exp_avg"] for state in optimizer.state.values()]


def test_the_states_of_optimizers_are_loaded_into_what_there_is():
    """Red before: they were copied beside, and of Adam's that is twice the weights."""
    module, optimizer = stepped()
    saved = [copy.deepcopy(optimizer.state_dict())]
    own = moments_of(optimizer)
    for moment in own:
        moment.zero_()
    with Copies() as copies:
        load_optimizers(Holder(module, optimizer), saved)
    assert copies.bytes < BYTES / 8
    assert [id_of(each) for each in moments_of(optimizer)] == [id_of(each) for each in own]
    optimizer.step()  # writes to none that may be loaded again
    for moment in moments_of(optimizer):
        assert moment.any()
    load_optimizers(Holder(module, optimizer), saved)
    for moment, state in zip(moments_of(optimizer), saved[0]["state"].values(), strict=True):
        assert torch.equal(moment, state["exp_avg"])
        assert id_of(moment) != id_of(state["exp_avg"])


def test_what_shares_its_memory_is_not_loaded_into():
    """A hook may have given an optimizer the weights, or one tensor for two."""
    module, optimizer = stepped()
    saved = [copy.deepcopy(optimizer.state_dict())]
    weight, (first, second) = module.weight.detach().clone(), optimizer.state.values()
    first["exp_avg"] = module.weight.detach()
    first["exp_avg_sq"] = second["exp_avg_sq"] = torch.ones(WIDTH, WIDTH)
    load_optimizers(Holder(module, optimizer), saved)
    assert torch.equal(module.weight, weight)
    for own, state in zip(optimizer.state.values(), saved[0]["state"].values(), strict=True):
        assert all(torch.equal(own[name], state[name]) for name in state)


class Assigns(Large):
    """Has the very tensors of a checkpoint for its weights, and sets some where it begins."""

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return super().load_state_dict(state_dict, strict=strict, assign=True)

    def on_fit_start(self):
        torch.nn.init.zeros_(self.output.bias)


def test_weights_that_are_a_checkpoints_own_are_put_back(tmp_path):
    """Only these are copied where a checkpoint is loaded."""
    assert_resumed(tmp_path, [3], kills=[4], module=Assigns)

"""What a step starts with, as it is written."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import Precision
from small import Points, Small

from twinrun.comparison.step_state import _Alone, set_state, state_of


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


class Scaled(Precision):
    """Has a state that moves, as the scale of `16-mixed` does, which a CPU has not."""

    scale = 65536.0

    def state_dict(self):
        return {"scale": self.scale}

    def load_state_dict(self, state_dict):
        self.scale = state_dict["scale"]


def test_the_scale_of_a_precision_is_put_back():
    """Red before: each repeat of a replay went on with the scale of the one before."""
    precision = Scaled()
    found = []

    class PutsBack(pl.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            precision.scale = 1024.0
            saved = state_of(trainer, pl_module, {})
            precision.scale = 2.0
            set_state(trainer, pl_module, saved)
            found.append(precision.scale)

    trainer = pl.Trainer(
        accelerator="cpu",
        plugins=[precision],
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[PutsBack()],
    )
    trainer.fit(Small(), Points())
    assert found == [1024.0]

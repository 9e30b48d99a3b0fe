"""A training on a GPU, whose generator draws there, is resumed in the same bits."""

import pytest
import torch
from resumed import assert_resumed
from small import Points, Restless
from torch.utils.data import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Loaded(Points):
    """Of data workers, and pinned."""

    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True)


class Collects(Restless):
    """Keeps losses, an average of a weight and a number beside them, as modules on a GPU do."""

    def on_fit_start(self):
        self.average = self.output.weight.detach().clone()
        self.lasting = torch.arange(3.0, device=self.device)

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        self.losses = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.average.lerp_(self.output.weight.detach(), 0.3)
        self.losses.append(loss.detach())
        return loss * (1 + 0.1 * torch.stack(self.losses).mean() + self.average.mean())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "16-mixed"},  # whose scaler has a state
        {"precision": "bf16-mixed"},
        {"deterministic": True},
        {"data": Loaded},
        {"module": Collects},
    ],
    ids=str,
)
@pytest.mark.parametrize("kills", [[4], [8], [2, 7]], ids=str)
def test_a_killed_training_ends_in_the_same_bits(kills, options, tmp_path, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as a deterministic Trainer does
    at = [kill - 1 for kill in kills]
    try:
        assert_resumed(tmp_path, at, kills=kills, accelerator="gpu", **options)
    finally:
        torch.use_deterministic_algorithms(False)

"""A training on a GPU, whose generator draws there, is resumed in the same bits."""

import pytest
import torch
from resumed import assert_resumed
from small import Points
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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "16-mixed"},  # whose scaler has a state
        {"precision": "bf16-mixed"},
        {"deterministic": True},
        {"data": Loaded},
    ],
    ids=str,
)
@pytest.mark.parametrize("kills", [[4], [8], [2, 7]], ids=str)
def test_a_killed_training_ends_in_the_same_bits(kills, options, tmp_path, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as a deterministic Trainer does
    at = [kill - 1 for kill in kills]
    assert_resumed(tmp_path, at, kills=kills, accelerator="gpu", **options)

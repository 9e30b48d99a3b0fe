"""Every built-in workload passes the contract; what breaks it is caught."""

import re
import time

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small
from torch.utils.data import DataLoader, Dataset
from workloads_contract import WorkloadContract

from twinrun import artifacts
from twinrun.data import digits, ratings

DENOISER = {
    "module": "twinrun.workloads.denoiser:Denoiser",
    "data": "twinrun.workloads.denoiser:DenoisingPairs",
    "hyperparameters": {"batch_size": 64, "learning_rate": 0.01},
}
DIGITS = {
    "module": "twinrun.workloads.digits:Digits",
    "data": "twinrun.workloads.digits:DigitImages",
    "hyperparameters": {"batch_size": 64, "learning_rate": 0.01},
}
FACTORIZATION = {
    "module": "twinrun.workloads.factorization:Factorization",
    "data": "twinrun.workloads.factorization:Ratings",
    "hyperparameters": {"users": 30, "items": 20, "rank": 2, "batch_size": 100},
}
PEAKS = {
    "module": "twinrun.workloads.peaks:Peaks",
    "data": "twinrun.workloads.peaks:PeaksGrid",
    "hyperparameters": {"points": 200, "learning_rate": 0.05},
}


@pytest.fixture(scope="session")
def digits_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    artifacts.write_arrays(str(path), digits.make(images_per_class=40, seed=1))
    return str(path)


@pytest.fixture(scope="session")
def ratings_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "ratings.npz"
    sizes = {"users": 30, "items": 20, "ratings": 400, "rank": 2, "noise": 0.1}
    artifacts.write_arrays(str(path), ratings.make(**sizes, seed=1))
    return str(path)


class TestDenoiser(WorkloadContract):
    workload = DENOISER

    @pytest.fixture
    def dataset(self, digits_file):
        return digits_file


class TestDigits(WorkloadContract):
    workload = DIGITS

    @pytest.fixture
    def dataset(self, digits_file):
        return digits_file


class TestFactorization(WorkloadContract):
    workload = FACTORIZATION

    @pytest.fixture
    def dataset(self, ratings_file):
        return ratings_file


class TestPeaks(WorkloadContract):
    workload = PEAKS


# What breaks the contract


class Idle(Small):
    """Has a layer that the loss does not use."""

    def __init__(self):
        super().__init__()
        self.idle = torch.nn.Linear(2, 2)


class Forgetful(Small):
    """Does not save its hyperparameters."""

    def __init__(self, width=8):
        pl.LightningModule.__init__(self)
        self.hidden = torch.nn.Linear(4, width)


class Ticking(Small):
    """Weighs its loss by the clock, from its third step on."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * (time.time_ns() % 2**20) if self.calls > 2 else loss


class Noise(Dataset):
    """Adds NumPy's numbers, which every worker process draws for itself."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        noise = torch.from_numpy(np.random.normal(size=4)).float()
        return noise + index, torch.zeros(1)


class NoisyPoints(Points):
    def train_dataloader(self):
        return DataLoader(Noise(), batch_size=16, num_workers=self.data_workers)


class UnseededPoints(Points):
    def train_dataloader(self):
        generator = torch.Generator()
        generator.seed()
        return DataLoader(Noise(), batch_size=16, shuffle=True, generator=generator)


@pytest.mark.parametrize(
    ("module", "data", "test"),
    [
        ("Idle", "Points", "test_one_step_changes_every_trainable_tensor"),
        ("Forgetful", "Points", "test_hyperparameters_survive_a_round_trip"),
        ("Ticking", "Points", "test_reproducible_algorithms_suffice_and_repeat"),
        ("Small", "NoisyPoints", "test_data_workers_change_no_batch"),
        ("Small", "UnseededPoints", "test_the_same_seed_gives_the_same_batches"),
    ],
)
def test_the_contract_catches_what_breaks_it(module, data, test):
    contract = WorkloadContract()
    contract.workload = {
        "module": f"{__name__}:{module}",
        "data": f"{__name__}:{data}",
        "hyperparameters": {"width": 8} if module == "Forgetful" else {},
    }
    with pytest.raises(AssertionError):
        getattr(contract, test)(None)


def test_the_page_on_own_modules_quotes_the_examples_test(pytestconfig):
    page = (pytestconfig.rootpath / "docs/audit-your-module.md").read_text()
    example = pytestconfig.rootpath / "tests/own_module/test_spirals.py"
    quoted = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert example.read_text().partition("\n\n")[2] in quoted

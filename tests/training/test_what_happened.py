"""A manifest tells what a training had, not what it was asked to have."""

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from small import Points, Small
from torch.utils.data import DataLoader

from twinrun.config.definitions import Variant
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.process.determinism import capture, restore
from twinrun.process.imported_code import hash_of_file
from twinrun.training.switched import SETTERS, Switched
from twinrun.training.what_happened import WhatHappened


class OwnWorkers(Points):
    def train_dataloader(self):
        return DataLoader(super().train_dataloader().dataset, batch_size=8, num_workers=1)


class SetsThreads(Small):
    def on_train_epoch_start(self):
        torch.set_num_threads(1)


def fitted(tmp_path, module, data, **changes):
    happened = WhatHappened(
        Variant(**{**VARIANT, "deterministic": False, **changes}), TrainerArguments()
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        pl.Trainer(
            accelerator="cpu",
            max_epochs=1,
            logger=False,
            enable_progress_bar=False,
            enable_checkpointing=False,
            limit_val_batches=0,
            default_root_dir=tmp_path,
            callbacks=[happened],
        ).fit(module, data)
    finally:
        torch.set_num_threads(threads)
    return happened


class Closes(Small):
    """Closes its data base where the training ends, and says what it has read by then."""

    looked = ()

    def on_train_end(self):
        self.looked = [*LOOKED]


LOOKED = []


def test_files_that_a_module_closes_at_the_end_are_looked_at_before(tmp_path, monkeypatch):
    """Red before: what another training wrote in them meanwhile was read, and nothing said so."""
    monkeypatch.setattr("twinrun.training.what_happened.look_at_held", lambda: LOOKED.append(1))
    module = Closes()
    fitted(tmp_path, module, Points(size=70, seed=1))
    assert module.looked == [1, 1]  # an epoch's end, too


def test_a_training_as_asked_departs_in_nothing(tmp_path):
    happened = fitted(tmp_path, Small(), Points(size=70, seed=1))
    assert happened.departures == []
    assert happened.actual["data_workers"] == [0]
    assert happened.actual["threads"] == 2


def test_workers_that_the_data_module_decides_are_recorded(tmp_path):
    happened = fitted(tmp_path, Small(), OwnWorkers(size=70, seed=1))
    assert happened.actual["data_workers"] == [1]
    (found,) = happened.departures
    assert found["setting"] == "data_workers"
    assert found["sentence"].startswith("data_workers is 1, where the variant says 0")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "changes",
    [
        *({"deterministic": True}, {"precision": "64-true"}, {"accelerator": "gpu"}),
        *({"devices": 2}, {"accumulate": 2}, {"threads": 3}, {"data_workers": 2}),
        *({"persistent_workers": True}, {"environment": {"TWINRUN_NOT_SET": "1"}}),
    ],
    ids=str,
)
def test_a_setting_that_did_not_take_is_said(tmp_path, changes):
    happened = fitted(tmp_path, Small(), Points(size=70, seed=1), **changes)
    assert next(iter(changes)) in [found["setting"] for found in happened.departures]


def test_variables_that_change_no_arithmetic_are_no_condition_of_a_run(tmp_path, monkeypatch):
    for name in ("CUDA_HOME", "TORCH_HOME", "MKL_CBWR", "TORCH_ALLOW"):
        monkeypatch.setenv(name, "planted")
    happened = fitted(tmp_path, Small(), Points(size=70, seed=1))
    found = [name for name, value in happened.actual["variables"].items() if value == "planted"]
    assert found == ["MKL_CBWR", "TORCH_ALLOW"]


def test_threads_that_the_module_sets_are_said(tmp_path):
    happened = fitted(tmp_path, SetsThreads(), Points(size=70, seed=1))
    sentence = "threads became 1 in the training, from 2"
    assert happened.departures == [{"setting": "threads", "sentence": sentence}]


set_num_threads = torch.set_num_threads  # as `from torch import set_num_threads` has it


class OneThreadInEachStep(Small):
    def on_train_batch_start(self, batch, batch_idx):
        set_num_threads(1)

    def on_train_batch_end(self, *_):
        set_num_threads(2)


class OneThreadForAnOperation(Small):
    def training_step(self, batch, batch_idx):
        torch.set_num_threads(1)
        loss = super().training_step(batch, batch_idx)
        torch.set_num_threads(2)
        return loss


class AnyBackwardPass(Small):
    def backward(self, loss, *args, **kwargs):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(not before)
        super().backward(loss, *args, **kwargs)
        torch.use_deterministic_algorithms(before)


class ThreadsOfAnotherThread(Small):
    def training_step(self, batch, batch_idx):
        other = threading.Thread(target=torch.set_num_threads, args=(1,))
        other.start()
        other.join()
        torch.set_num_threads(torch.get_num_threads())
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (OneThreadInEachStep, ["threads was 1 for a part of the training, and 2 for the rest"]),
        (OneThreadForAnOperation, ["threads was 1 for a part of the training, and 2 for the rest"]),
        (
            AnyBackwardPass,
            ["deterministic was True for a part of the training, and False for the rest"],
        ),
        (ThreadsOfAnotherThread, []),
    ],
)
@pytest.mark.usefixtures("restored")
def test_switches_that_a_step_sets_and_puts_back_are_said(tmp_path, module, said):
    """Red before: nothing was said, and a matrix's `threads: 2` was equal, on one thread."""
    setters = [getattr(owner, name) for owner, name in SETTERS]
    happened = fitted(tmp_path, module(), Points(size=70, seed=1))
    assert [each["sentence"] for each in happened.departures] == said
    assert [getattr(owner, name) for owner, name in SETTERS] == setters


@pytest.mark.usefixtures("restored")
def test_tf32_that_is_allowed_for_an_operation_is_noticed():
    """Red before: PyTorch sets it by a function of its own."""
    switched = Switched()
    switched.start()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False
    switched.stop()
    assert switched.found == {"matmul_precision": "high"}


class ByHand(Small):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        (optimizer,) = (self.optimizers(),)
        loss = super().training_step(batch, index)
        self.manual_backward(loss)
        optimizer.step()
        return loss


class KeepsGradients(Small):
    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        if batch_idx % 2:
            optimizer.zero_grad()


class GathersLater(Small):
    def on_train_epoch_start(self):
        self.trainer.accumulate_grad_batches = 2


@pytest.mark.parametrize(
    ("module", "gathers"),
    [(Small, False), (ByHand, True), (KeepsGradients, True), (GathersLater, True)],
)
def test_a_step_that_may_begin_with_gradients_of_others_is_known(tmp_path, module, gathers):
    happened = fitted(tmp_path, module(), Points(size=70, seed=1))
    assert happened.actual["gathers_gradients"] is gathers


@pytest.fixture
def restored():
    """Put back what a constructor sets for the whole process."""
    before = capture()
    yield
    restore(before)


class Warns(Small):
    def __init__(self, **hyperparameters):
        super().__init__(**hyperparameters)
        torch.use_deterministic_algorithms(True, warn_only=True)


@pytest.mark.usefixtures("restored")
def test_a_module_that_has_torch_warn_only_departs_from_deterministic(tmp_path):
    """Seen red: torch says that they are enabled, and an operation that has none is done."""
    happened = fitted(tmp_path, Warns(), Points(size=70, seed=1), deterministic=True)
    assert happened.actual["warn_only"]
    (found,) = happened.departures
    assert found["setting"] == "deterministic"
    assert "warn_only=True" in found["sentence"]


PRECISION = """
import sys, tempfile
from pathlib import Path
import torch
from example_trainings import VARIANT
from small import Points, Small
from test_what_happened import fitted
torch.backends.cuda.matmul.fp32_precision = "tf32"
happened = fitted(Path(tempfile.mkdtemp()), Small(), Points(size=70, seed=1))
print(happened.actual["matmul_precision"], happened.departures)
"""


@pytest.mark.exhaustive
def test_a_module_may_set_torchs_newer_switches_of_precision():
    """Seen red: torch then refuses to tell the older one, and every run failed.

    In a process of its own: nothing lets torch tell the older one again.
    """
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    ended = subprocess.run(
        [sys.executable, "-c", PRECISION],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "backends.cuda.matmul.fp32_precision=tf32" in ended.stdout
    assert ended.stdout.endswith(" []\n")


class Edited(Small):
    """Has its file edited after it was imported, and imports another one under way."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def training_step(self, batch, batch_idx):
        importlib.import_module("lazily_imported")
        return super().training_step(batch, batch_idx)

    def on_train_end(self):
        for name in ("early_imported", "lazily_imported"):
            (self.folder / f"{name}.py").write_text("x = 2\n")


def test_code_is_recorded_as_it_was_imported(tmp_path, monkeypatch):
    names = ("early_imported", "lazily_imported")
    for name in names:
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    before = hash_of_file(tmp_path / "early_imported.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("early_imported")
    happened = fitted(tmp_path, Edited(tmp_path), Points(size=70, seed=1))
    happened.look_at_code()
    assert [happened.code[name]["sha256"] for name in names] == [before, before]
    for name in names:
        del sys.modules[name]


class Noisy(Small):
    """Draws noise from a generator of its own, has drawn weights from another, and shuffles."""

    def __init__(self, seed):
        super().__init__()
        self.noise, self.weights = np.random.default_rng(seed), torch.Generator().manual_seed(2)
        torch.nn.init.normal_(self.hidden.weight, generator=self.weights)

    def training_step(self, batch, index):
        noise = torch.from_numpy(self.noise.normal(size=batch[0].shape)).float()
        return super().training_step([batch[0] + noise, batch[1]], index)


class Shuffled(Points):
    def train_dataloader(self):
        return self._loader(shuffle=True, generator=torch.Generator().manual_seed(3))


def test_the_generators_that_the_first_step_draws_from_are_recorded(tmp_path):
    """What no seed moves of them is said where luck is judged."""
    one, same, other = (
        fitted(tmp_path, Noisy(seed), Shuffled()).own_generators.found for seed in (0, 0, 1)
    )
    assert [*one] == ["Noisy.noise"]
    assert one == same != other
    assert fitted(tmp_path, Small(), Points()).own_generators.found == {}

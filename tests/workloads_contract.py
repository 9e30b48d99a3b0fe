"""What is asked of a workload, as tests that any LightningModule and data module can be put to.

    from workloads_contract import WorkloadContract

    class TestMine(WorkloadContract):
        workload = {
            "module": "mypackage.models:MyModule",
            "data": "mypackage.data:MyData",
            "hyperparameters": {"width": 32},
        }

A workload that reads a file gives its path by a fixture `dataset` of its own. Everything is made
and trained as in a run: seeds, data module, module, Lightning's Trainer on a CPU.
"""

import pytest
import pytorch_lightning as pl
from pytorch_lightning.plugins.environments import LightningEnvironment

from twinrun.config.definitions import Workload
from twinrun.errors import TwinrunError
from twinrun.process.determinism import determinism
from twinrun.trace.fingerprints import fingerprint, fingerprint_tree
from twinrun.training.build_workload import OfRun, build_data, build_module
from twinrun.training.load_workload import load_workload

SEED, EPOCHS = 3, 2


class WorkloadContract:
    """Subclass it and set `workload` as a config names it, with data that trains in a second."""

    workload: dict
    search_path = ()  # folders that hold the modules of the workload, if they are not installed

    def _settings(self, dataset):
        # By whatever name a config has the file.
        name = None if dataset is None else "dataset"
        workload = {"hyperparameters": {}, "epochs": EPOCHS, **self.workload, "dataset": name}
        return Workload(**workload)

    @pytest.fixture
    def dataset(self):
        return None

    @pytest.fixture(autouse=True)
    def _as_found(self, monkeypatch):
        """Put back afterwards what training sets."""
        for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
            monkeypatch.setenv(name, "0")
        with determinism(deterministic=False, threads=1):
            yield

    def make(self, dataset, *, data_workers=0):
        pl.seed_everything(SEED, workers=True, verbose=False)
        settings, folders = self._settings(dataset), self.search_path
        of_run = OfRun(seed=SEED, path=dataset, data_workers=data_workers)
        module = build_module(settings, folders, of_run) if settings.data is None else None
        data = build_data(settings, of_run, search_path=folders, module=module)
        return data, build_module(settings, folders) if module is None else module

    def train(self, dataset, *, data_workers=0, **extent):
        """Train, give the module and the fingerprint of each batch."""
        data, module = self.make(dataset, data_workers=data_workers)
        batches = Batches()
        pl.Trainer(
            accelerator="cpu",
            devices=1,
            callbacks=batches,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            plugins=[LightningEnvironment()],
            **extent,
        ).fit(module, datamodule=data)
        return module, batches.fingerprints

    def train_steps(self, dataset, count):
        return self.train(dataset, max_epochs=1, limit_train_batches=count)[0]

    def train_epochs(self, dataset, *, data_workers=0):
        return self.train(dataset, data_workers=data_workers, max_epochs=EPOCHS)[1]

    def test_the_same_seed_gives_the_same_initial_bytes(self, dataset):
        first, second = (self.make(dataset)[1].state_dict() for _ in range(2))
        assert fingerprint_tree(first) == fingerprint_tree(second)

    def test_one_step_changes_every_trainable_tensor(self, dataset):
        _, before = self.make(dataset)
        after = dict(self.train_steps(dataset, 1).named_parameters())
        trainable = {name: p for name, p in before.named_parameters() if p.requires_grad}
        assert trainable
        still = [
            name for name, p in trainable.items() if fingerprint(p) == fingerprint(after[name])
        ]
        assert still == []

    def test_reproducible_algorithms_suffice_and_repeat(self, dataset):
        with determinism(deterministic=True, threads=2):  # one thread cannot race
            first, second = (self.train_steps(dataset, 3).state_dict() for _ in range(2))
        assert fingerprint_tree(first) == fingerprint_tree(second)

    def test_the_same_seed_gives_the_same_batches(self, dataset):
        first, second = (self.train_epochs(dataset) for _ in range(2))
        assert first
        assert first == second

    def test_data_workers_change_no_batch(self, dataset):
        try:
            shared = self.train_epochs(dataset, data_workers=2)
        except TwinrunError as refused:
            pytest.skip(str(refused))
        assert shared == self.train_epochs(dataset)

    def test_hyperparameters_survive_a_round_trip(self, dataset):
        data, module = self.make(dataset)
        settings = self._settings(dataset)
        _, _, to_module, to_data = load_workload(settings, self.search_path)
        for made, given in ((module, to_module), (data, to_data))[: 1 + bool(settings.data)]:
            assert {name: made.hparams.get(name) for name in given} == given
            again = type(made)(**made.hparams)
            assert again.hparams == made.hparams
            again.load_state_dict(made.state_dict())


class Batches(pl.Callback):
    """Keeps the fingerprint of every training batch."""

    def __init__(self):
        self.fingerprints = []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.fingerprints.append(fingerprint_tree(batch))

"""What one of several workers draws: in the steps its own numbers, elsewhere the first one's."""

import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from in_turn import InTurn
from small import Points, Small
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.parallel.early_refusals import check_same_parameters
from twinrun.parallel.same_data import check_same_data
from twinrun.parallel.team import join_team
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.workers import Workers
from twinrun.process.determinism import restore_rng_states, rng_states


class Splits(Points):
    """Chooses at random what is trained on, wherever one can."""

    def __init__(self, is_first, data_workers):
        super().__init__(data_workers=data_workers)
        self.is_first = is_first

    def prepare_data(self):
        if self.is_first:  # as Lightning calls it
            torch.rand(1)

    def setup(self, stage):
        self.chosen = random_split(range(70), [40, 30])[0].indices

    def train_dataloader(self):
        whole = TensorDataset(torch.arange(70.0))
        self.part = Subset(whole, np.random.permutation(self.chosen)[:16].tolist())
        return DataLoader(self.part, batch_size=8, shuffle=True, num_workers=self.data_workers)


class SplitsByRank(Splits):
    """Chooses other samples in each worker."""

    def setup(self, stage):
        generator = torch.Generator().manual_seed(int(self.is_first))
        self.chosen = random_split(range(70), [40, 30], generator)[0].indices


class Draws(Small):
    """Notes its mini-batches, and what hooks and steps draw."""

    def __init__(self):
        super().__init__()
        self.seen, self.of_hooks, self.of_steps, self.of_validation = [], [], [], []

    def on_train_start(self):
        self.of_hooks += drawn()

    def configure_optimizers(self):
        self.of_hooks += drawn()
        return super().configure_optimizers()

    def on_train_epoch_start(self):
        # Other samples in each epoch, in place.
        random.shuffle(self.trainer.datamodule.part.indices)

    def training_step(self, batch, batch_idx):
        self.seen.append(batch[0].tolist())
        self.of_steps += drawn()

    def validation_step(self, batch, batch_idx):
        self.of_validation += drawn()

    def on_train_epoch_end(self):
        self.of_hooks += drawn()


def drawn():
    return [torch.rand(1).item(), np.random.random(), random.random()]


@pytest.fixture
def train(monkeypatch):
    """Return a function that trains as a worker of two, or as a single process."""
    before = rng_states()

    def train(rank, seed, sent, *, data=Splits, reload=0, data_workers=0):
        # As a run has done before; Lightning keeps the seed here.
        monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
        pl.seed_everything(seed, workers=True, verbose=False)
        module, data, callbacks = Draws(), data(rank == 0, data_workers), []
        if sent is not None:
            variant = Variant(**VARIANT | {"devices": 2})
            workers = InTurn(rank, 2, sent)
            team = join_team(workers, module, data, object(), variant=variant, seed=seed)
            # What exchanges gradients needs processes of their own.
            callbacks = [each for each in team.callbacks if not isinstance(each, WholeBatch)]
        trainer = pl.Trainer(
            max_epochs=3,
            accelerator="cpu",
            reload_dataloaders_every_n_epochs=reload,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, data)
        return module

    yield train
    restore_rng_states(before)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reload": 1},
        # Here a loader reads ahead where it is made.
        pytest.param({"data_workers": 1}, marks=pytest.mark.exhaustive),
        pytest.param({"data_workers": 1, "reload": 1}, marks=pytest.mark.exhaustive),
    ],
)
def test_workers_choose_the_same_samples_and_draw_other_numbers_in_a_step(train, options):
    """Red before: each worker split the samples anew in `setup`, and trained on others."""
    alone, sent = train(0, 1, None, **options), []
    first, second = train(0, 1, sent, **options), train(1, 1, sent, **options)
    assert first.of_hooks == second.of_hooks == alone.of_hooks
    assert first.of_steps == alone.of_steps
    # Red before: each validated by numbers of its own, and any of them could end the training.
    assert first.of_validation == second.of_validation == alone.of_validation
    assert alone.of_validation
    for whole, *shards in zip(alone.seen, first.seen, second.seen, strict=True):
        assert [len(shard) for shard in shards] == [4, 4]
        assert [*chain(*shards)] == whole
    # A dropout would drop the same units of every shard; a sum of seed and rank, another run's.
    assert train(1, 1, sent, **options).of_steps == second.of_steps
    others = [first, train(0, 2, sent := []), train(1, 2, sent)]
    for other in others:
        assert not set(other.of_steps) & set(second.of_steps)


def test_a_worker_that_chooses_other_samples_ends_the_run(train):
    train(0, 1, sent := [], data=SplitsByRank)
    with pytest.raises(TwinrunError, match=r"other data than worker 1 \(train_dataloader: dataset"):
        train(1, 1, sent, data=SplitsByRank)


def test_a_second_worker_draws_in_its_steps_what_it_drew_before_hooks_could(train):
    """The bits of trainings that draw in their steps alone stay as they were."""
    own = np.random.SeedSequence((1, 1)).generate_state(1)[0]
    train(0, 1, sent := [])
    second = train(1, 1, sent)
    pl.seed_everything(int(own), workers=True, verbose=False)
    torch.empty((), dtype=torch.int64).random_()  # where torch makes the loader's iterator
    assert second.of_steps[:6] == drawn() + drawn()


class Listed(Dataset):
    """Keeps its samples as it is told."""

    def __init__(self, samples):
        self.samples = samples
        self.itself = self

    def __len__(self):
        return len(self.samples)


RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(size=(40, 2))
CHANGED = VALUES + [[1, 0]] * 40


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        (Subset(range(5), [1, 2]), Subset(range(5), [2, 1]), "dataset.indices"),
        (Listed([1, 2]), Listed([1, 2, 3]), "length of dataset"),
        *(
            (kind(VALUES), kind(CHANGED), "dataset.samples")
            for kind in (
                Listed,
                lambda values: Listed(torch.tensor(values)),
                lambda values: Listed(values.tolist()),
                lambda values: Listed([*values]),
                lambda values: Listed(values.astype(object)),
                lambda values: Listed([f"{value}.png" for value in values]),
            )
        ),
        (
            ConcatDataset([TensorDataset(torch.zeros(3)), TensorDataset(torch.zeros(3))]),
            ConcatDataset([TensorDataset(torch.zeros(3)), TensorDataset(torch.ones(3))]),
            r"dataset.datasets\[1\].tensors",
        ),
    ],
)
def test_other_samples_of_a_worker_are_refused(one, other, named):
    """Red before: mini-batches mixed of two sets of samples were trained on."""

    def check(rank, dataset):
        loaders = {"a": DataLoader(Listed([0])), "b": DataLoader(dataset)}
        check_same_data(InTurn(rank, 2, sent), "train_dataloader", loaders)

    sent = []
    check(0, one)
    check(1, one)
    named = named.replace("dataset", "dataset of loader 1", 1)
    with pytest.raises(TwinrunError, match=rf"^devices: worker 2 .* \(train_dataloader: {named}\)"):
        check(1, other)


def test_what_cannot_be_looked_at_or_may_differ_is_no_other_data():
    def loader(folder):
        unlike = [torch.eye(3).to_sparse(), torch.nested.nested_tensor([torch.zeros(2)]), object()]
        return DataLoader(Listed([*unlike, f"{folder}/1.png", Path(folder, "2.png")]))

    check_same_data(InTurn(0, 2, sent := []), "val_dataloader", [loader("a")])
    check_same_data(InTurn(1, 2, sent), "val_dataloader", [loader("b")])
    check_same_data(InTurn(0, 2, []), "val_dataloader", None)


def test_the_refusal_of_parameters_that_differ_names_gradients_of_ones_own():
    """Red before: to who calls `torch.autograd.grad` it named optimizers and weights alone."""

    class Two(Workers):
        def everyones(self, value):
            return [value, {**value, "output.bias": 1}]

    with pytest.raises(TwinrunError, match=r"output\.bias of worker 2 .*torch\.autograd\.grad"):
        check_same_parameters(Small(), Two(0, 2), "after step 1")

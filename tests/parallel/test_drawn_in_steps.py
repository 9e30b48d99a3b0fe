"""Mini-batches that steps of parts of them change, by what they draw."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from in_turn import InTurn
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset

from twinrun.config.definitions import Variant
from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.drawn_in_steps import READ, DrawnInSteps
from twinrun.parallel.not_of_whole import of_parts
from twinrun.parallel.team import join_team
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.whole_steps import WholeSteps
from twinrun.process.determinism import restore_rng_states, rng_states


class Plain(Small):
    """Notes the samples of its mini-batches."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen += batch[0][:, 0].tolist()
        return super().training_step(batch, batch_idx)


class Drops(Plain):
    def forward(self, inputs):
        return self.output(torch.nn.functional.dropout(self.hidden(inputs), 0.2, self.training))


class Permutes(Plain):
    def training_step(self, batch, batch_idx):
        order = torch.randperm(len(batch[0]))
        return super().training_step([part[order] for part in batch], batch_idx)


class Mixes(Plain):
    """Draws from other generators than the loader does."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * np.random.beta(9, 9) * random.random()


class InOrder(Points):
    def train_dataloader(self):
        return self._loader()


class ByNumPy(Points):
    """Chooses its samples by NumPy, as the loader is asked for them."""

    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(data, batch_size=16, sampler=Permuted())


class Permuted(torch.utils.data.Sampler):
    def __len__(self):
        return 70

    def __iter__(self):
        return iter(np.random.permutation(70).tolist())


@pytest.fixture
def train(monkeypatch):
    """Return a function that trains by a setting; it gives the samples, and what is said."""
    before = rng_states()

    def train(setting, module, data, epochs=2):
        monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
        pl.seed_everything(1, workers=True, verbose=False)
        module, callbacks, parts = module(), [], 1
        if setting == "accumulate":
            parts = 2
            callbacks = [accumulate(module, data, micro_batches=2, accumulated=2)]
        elif setting == "devices":
            variant = Variant(**VARIANT | {"devices": 2})
            team = join_team(InTurn(0, 2, []), module, data, object(), variant=variant, seed=1)
            # What exchanges gradients needs processes of their own.
            callbacks = [each for each in team.callbacks if not isinstance(each, WholeBatch)]
        trainer = pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            limit_val_batches=0,
            accumulate_grad_batches=parts,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, data)
        said = [found["sentence"] for found in of_parts(trainer, module)]
        return module, [sentence for sentence in said if "other mini-batches" in sentence]

    yield train
    restore_rng_states(before)


def test_an_order_that_is_drawn_behind_steps_of_micro_batches_is_named(train):
    """Red before: the batches were said to be those of the baseline, and were others."""
    alone, _ = train(None, Permutes, Points())
    module, said = train("accumulate", Permutes, Points())
    assert {*module.seen[:16]} == {*alone.seen[:16]}
    assert {*module.seen[70:86]} != {*alone.seen[70:86]}
    assert said == [
        "in part, accumulate may give other mini-batches, in another order say, from the second "
        "epoch on: they are drawn from the global generator of torch, from which steps draw too "
        "(dropout, say), for each micro-batch and not for a whole mini-batch"
    ]
    (tracer,) = [each for each in module.trainer.callbacks if isinstance(each, WholeSteps)]
    later = Plain()
    other = accumulate(later, Points(), micro_batches=2, accumulated=2)
    later.trainer = module.trainer
    other.load_state_dict(tracer.state_dict())
    assert said[0] in list(other.not_of_whole(later))


@pytest.mark.parametrize(
    ("module", "data", "named"),
    [
        (Drops, Points, "torch"),
        (Mixes, ByNumPy, "NumPy"),
        (Plain, Points, None),
        (Mixes, Points, None),
        (Drops, InOrder, None),
        (Drops, ByNumPy, None),
    ],
)
@pytest.mark.parametrize("setting", ["accumulate", "devices"])
def test_mini_batches_are_named_that_steps_may_change(train, setting, module, data, named):
    _, said = train(setting, module, data())
    part = {"accumulate": "micro-batch", "devices": "shard"}[setting]
    assert [sentence.partition("second")[0] for sentence in said] == (
        [f"in part, {setting} may give other mini-batches, in another order say, from the "]
        if named
        else []
    )
    assert all(f"generator of {named}," in each and f"each {part} " in each for each in said)


def test_who_tries_steps_ahead_of_the_training_is_named():
    """Red before: LearningRateFinder went by the loss of a part, and chose another rate."""
    for callback in (pl.callbacks.LearningRateFinder(), pl.callbacks.BatchSizeFinder()):
        module = Plain()
        found = [accumulate(module, Points(), micro_batches=2, accumulated=2), callback]
        trainer = pl.Trainer(accelerator="cpu", callbacks=found, logger=False)
        module.trainer = trainer
        name = type(callback).__name__
        assert f"in part, accumulate has {name} go by steps of each micro-batch" in "".join(
            each["sentence"] for each in of_parts(trainer, module)
        )


@pytest.mark.parametrize("setting", ["accumulate", "devices"])
def test_in_the_first_epoch_no_step_is_ahead_of_the_order(train, setting):
    assert train(setting, Drops, Points(), epochs=1)[1] == []


@pytest.mark.parametrize(
    ("shuffles", "data_workers", "said"),
    [
        (False, 0, None),
        (True, 0, None),  # draws its order where the first mini-batch is asked for
        (False, 1, "have data workers draw other numbers"),
        (True, 1, "give other mini-batches"),
    ],
)
def test_a_seed_of_data_workers_is_told_from_an_order(shuffles, data_workers, said):
    """Red before: with data workers others were said to be mini-batches in the loader's order."""
    drawn = DrawnInSteps()
    drawn._in_steps = {"torch"}
    loader = DataLoader(range(4), shuffle=shuffles, num_workers=data_workers)
    before = rng_states()
    with drawn.data(data_workers=data_workers):
        iter(loader)
    restore_rng_states(before)
    found = drawn.sentence("devices", "shard")
    assert found is None if said is None else said in found


def test_steps_look_at_numpys_generator_now_and_then(monkeypatch):
    """Red before: each look took 0.1 ms, twice in every micro-batch."""
    looks = []
    monkeypatch.setitem(READ, "NumPy", lambda: looks.append(1))
    drawn, trainer = DrawnInSteps(), SimpleNamespace(fit_loop=SimpleNamespace())
    trainer.fit_loop.epoch_loop = SimpleNamespace(advance=lambda: None)
    drawn.watch(trainer)
    for _ in range(100):
        trainer.fit_loop.epoch_loop.advance()
    assert len(looks) == 2 * len([0, 1, 2, 4, 8, 16, 32, 64])


@pytest.mark.parametrize(("number", "when"), [(0, "from the second epoch on"), (3, "behind the")])
def test_a_sampler_that_draws_within_an_epoch_is_behind_the_first_step_that_draws(number, when):
    """Red before: only later epochs were said to be others."""
    drawn, before = DrawnInSteps(), rng_states()
    drawn._in_steps = {"torch"}
    with drawn.data(number=number):
        torch.rand(1)
    restore_rng_states(before)
    assert f"say, {when}" in drawn.sentence("devices", "shard")

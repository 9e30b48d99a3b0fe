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
from torch.utils.data import DataLoader, TensorDataset, default_collate

from twinrun.config.definitions import Variant
from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.drawn_in_steps import READ, DrawnInSteps
from twinrun.parallel.not_of_whole import of_parts
from twinrun.parallel.team import join_team
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.whole_steps import WholeSteps
from twinrun.process.determinism import restore_rng_states, rng_states
from twinrun.run_records import is_of_batches


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

    def train(setting, module, data, epochs=2, **more):
        monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
        pl.seed_everything(1, workers=True, verbose=False)
        module, callbacks, parts = module(), [], 1
        if setting == "accumulate":
            parts = 2
            callbacks = [accumulate(module, data, micro_batches=2, accumulated=2)]
        elif setting == "devices":
            variant = Variant(**VARIANT | {"devices": 2} | more)
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
        said = of_parts(trainer, module)
        module.said = [found["sentence"] for found in said if not is_of_batches(found)]
        return module, [found["sentence"] for found in said if is_of_batches(found)]

    yield train
    restore_rng_states(before)


class DrawsOnce(Plain):
    """Draws once for each mini-batch: ahead of its parts, and behind them."""

    def __init__(self):
        super().__init__()
        self.source = torch.Generator()

    def configure_callbacks(self):
        class Draws(pl.Callback):
            def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
                torch.rand(1)

        return [Draws()]

    def on_train_batch_start(self, batch, batch_idx):
        torch.rand(1)
        torch.rand(1, generator=self.source)

    def on_before_optimizer_step(self, optimizer):
        torch.rand(1)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        torch.rand(1)


class DrawsByHand(Plain):
    """Updates by hand, and draws for a second part of its step behind it."""

    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()
        torch.rand(1)


@pytest.mark.parametrize("setting", ["accumulate", "devices"])
def test_what_is_drawn_once_for_a_mini_batch_is_not_named(train, setting):
    """Red before: mini-batches were said to be others; of shards, also the numbers of steps."""
    module, said = train(setting, DrawsOnce, Points())
    assert said == []
    assert not any("draw" in text for text in module.said)


def test_what_a_step_draws_behind_an_update_by_hand_is_named(train):
    _, (said,) = train("devices", DrawsByHand, Points())
    assert "steps draw too (dropout, say), for each shard" in said


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
    assert list(other.of_batches()) == said


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
    found = list(drawn.of_batches("devices", "shard"))
    assert len(found) == (said is not None)
    assert all(said in sentence for sentence in found)


def test_steps_look_at_numpys_generator_now_and_then(monkeypatch):
    """Red before: each look took 0.1 ms, twice in every micro-batch."""
    looks = []
    monkeypatch.setitem(READ, "NumPy", lambda: looks.append(1))
    drawn, trainer = DrawnInSteps(), SimpleNamespace(fit_loop=SimpleNamespace())
    trainer.fit_loop.epoch_loop = SimpleNamespace(advance=lambda: None)
    trainer.current_epoch, drawn.find = 0, lambda _: None
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
    (sentence,) = drawn.of_batches("devices", "shard")
    assert f"say, {when}" in sentence


RANDOM = np.random.default_rng(3)


class Noisy(Plain):
    """Adds noise from a generator of its own."""

    kept = staticmethod(lambda: torch.Generator().manual_seed(5))

    def __init__(self):
        super().__init__()
        self.source = self.kept()

    def training_step(self, batch, batch_idx):
        return super().training_step([batch[0] + self.noise(len(batch[0])), batch[1]], batch_idx)

    def noise(self, size):
        return torch.randn(size, 1, generator=self.source)


class NoisyByNumPy(Noisy):
    kept = staticmethod(lambda: np.random.default_rng(5))

    def noise(self, size):
        return torch.from_numpy(self.source.normal(size=(size, 1))).float()


class NoisyByState(NoisyByNumPy):
    kept = staticmethod(lambda: np.random.RandomState(5))


class NoisyByPython(Noisy):
    kept = staticmethod(lambda: [random.Random(5)])

    def noise(self, size):
        return torch.tensor([[self.source[0].random()] for _ in range(size)])


class NoisyByAGlobal(Noisy):
    def noise(self, size):
        return torch.from_numpy(RANDOM.normal(size=(size, 1))).float()


class NoisyLater(Noisy):
    """Makes another generator in each epoch."""

    def on_train_epoch_start(self):
        self.source = torch.Generator().manual_seed(self.current_epoch)


class NoisyInALayer(Plain):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Sequential(self.hidden, Layer())


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.source = torch.Generator().manual_seed(5)

    def forward(self, inputs):
        return inputs + torch.randn(inputs.shape, generator=self.source)


class NoisyEpochs(Noisy):
    """Draws between epochs, and for gradients and weights: alike at all workers, and once."""

    def noise(self, size):
        return 0

    def on_train_epoch_start(self):
        self.output.weight.data += super().noise(8).T

    def on_after_backward(self):
        self.output.bias.grad += super().noise(1)[0]

    on_train_batch_end = lambda self, *_: self.on_train_epoch_start()  # noqa: E731


class FromAGenerator(Points):
    """Has a loader draw from a generator of its own."""

    def train_dataloader(self):
        self.source = torch.Generator().manual_seed(5)
        return self._loader(shuffle=True, generator=self.source)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (Noisy, "Noisy.source"),
        (NoisyByNumPy, "NoisyByNumPy.source"),
        (NoisyByState, "NoisyByState.source"),
        (NoisyByPython, "NoisyByPython.source"),
        (NoisyByAGlobal, "NoisyByAGlobal.noise"),
        (NoisyLater, "NoisyLater.source"),
        (NoisyInALayer, "Layer.source"),
        (NoisyEpochs, None),
        (Plain, None),
    ],
)
@pytest.mark.parametrize("setting", ["accumulate", "devices"])
def test_generators_that_are_not_the_global_ones_are_named(train, setting, module, named):
    """Red before: of each shard the same noise, and of each micro-batch other, without a word."""
    trained, said = train(setting, module, FromAGenerator())
    assert said == []
    found = [sentence for sentence in trained.said if "other numbers" in sentence]
    assert len(found) == (named is not None)
    assert all(f"not the global ones ({named}), for each" in sentence for sentence in found)
    assert all(("each worker draws the same" in each) == (setting == "devices") for each in found)


def test_two_generators_of_a_name_are_told_apart(train):
    class Twice(Plain):
        def __init__(self):
            super().__init__()
            self.hidden = torch.nn.Sequential(self.hidden, Layer(), Layer())

    trained, _ = train("accumulate", Twice, InOrder())
    assert any("(Layer.source, Layer.source (2))" in sentence for sentence in trained.said)


KINDS = {
    "torch": lambda: torch.randn(4),
    "NumPy": lambda: torch.from_numpy(np.random.normal(size=4)).float(),
    "Python": lambda: random.random(),
}


class Augmented(TensorDataset):
    """Draws for each sample, from a global generator or one of its own."""

    def __init__(self, kind, *tensors):
        super().__init__(*tensors)
        self.kind, self.source = kind, np.random.default_rng(3)

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        is_own = self.kind == "own"
        return inputs + (self.source.random() if is_own else KINDS[self.kind]()), targets


def collate(samples):
    inputs, targets = default_collate(samples)
    return inputs + torch.randn_like(inputs), targets


class Draws(Points):
    """Has samples drawn for, one by one or as they are collated."""

    def __init__(self, kind, data_workers, *, shuffle):
        super().__init__(data_workers=data_workers)
        self.kind, self.shuffle = kind, shuffle

    def train_dataloader(self):
        data, options = TensorDataset(self.inputs, self.targets), {}
        if self.kind == "collate":
            options = {"collate_fn": collate}
        elif self.kind is not None:
            data = Augmented(self.kind, *data.tensors)
        return DataLoader(data, 16, shuffle=self.shuffle, num_workers=self.data_workers, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("data_workers", [0, 2])
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("torch", "the global generator of torch"),
        ("NumPy", "the global generator of NumPy"),
        ("Python", "the global generator of Python"),
        ("collate", "the global generator of torch"),
        ("own", "Augmented.source"),
        (None, None),
    ],
)
def test_samples_that_are_drawn_for_are_named(train, kind, named, data_workers):
    """Red before: nothing was said, or that steps draw, and the content of shards was another."""
    module, said = train("devices", Plain, Draws(kind, data_workers, shuffle=False))
    assert said == (
        [
            f"in part, devices may give other mini-batches, of other content: a dataset or a "
            f"collate function draws from {named}, for each shard and not for a whole mini-batch"
        ]
        if named
        else []
    )
    assert not any("numbers" in sentence for sentence in module.said)
    assert train("accumulate", Plain, Draws(kind, data_workers, shuffle=False))[1] == []
    loader = module.trainer.train_dataloader
    assert loader.worker_init_fn is None
    assert loader.collate_fn is (collate if kind == "collate" else default_collate)


@pytest.mark.parametrize(
    ("module", "who"),
    [
        (Plain, "datasets or collate functions draw too,"),
        (Drops, "steps draw too (dropout, say) and datasets or collate functions draw too,"),
    ],
)
def test_an_order_that_is_drawn_behind_samples_is_not_blamed_on_steps(train, module, who):
    """Red before: steps were said to draw, of which none did."""
    _, (_, order) = train("devices", module, Draws("collate", 0, shuffle=True))
    assert f"from the global generator of torch, from which {who} for each shard" in order


@pytest.mark.parametrize("kind", ["own", "torch"])
def test_data_workers_of_the_first_epoch_are_looked_at(train, kind):
    assert len(train("devices", Plain, Draws(kind, 1, shuffle=False), epochs=1)[1]) == 1


@pytest.mark.parametrize("data_workers", [0, 1])
def test_an_order_of_parts_of_the_samples_is_not_taken_for_samples(train, data_workers):
    data = Draws(None, data_workers, shuffle=True)
    assert train("devices", Plain, data, sharding="partitioned")[1] == []

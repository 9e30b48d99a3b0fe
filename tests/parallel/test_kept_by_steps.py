"""Plain attributes that steps of parts of mini-batches move, and who ends a training by a part."""

import time
from types import SimpleNamespace

import hostile
import pytest
import pytorch_lightning as pl
import torch
from in_turn import InTurn
from small import Points, Small
from torchmetrics import MeanSquaredError

from twinrun.parallel.accumulation import accumulate
from twinrun.parallel.asked_ends import AskedEnds
from twinrun.parallel.kept_by_workers import KeptByWorkers
from twinrun.parallel.kept_values import words_of
from twinrun.parallel.not_of_whole import of_parts


class Counts(Small):
    """Warms its loss up by its steps."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def training_step(self, batch, batch_idx):
        self.seen += 1
        return super().training_step(batch, batch_idx) * min(1, self.seen / 10)


class Meter:
    def __init__(self):
        self.mean, self.values = None, []

    def add(self, value):
        self.mean = value if self.mean is None else 0.9 * self.mean + 0.1 * value
        return self.mean


class Averages(Small):
    """Keeps a mean of its losses in a helper."""

    def __init__(self):
        super().__init__()
        self.meter = Meter()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * (1 + self.meter.add(loss.item()))


class Recalls(Small):
    """Carries a hidden state over batches, in a layer of its own."""

    def __init__(self):
        super().__init__()
        self.memory = Memory()

    def forward(self, inputs):
        return self.output(self.memory(self.hidden(inputs).relu()))


class Memory(torch.nn.Module):
    last = None

    def forward(self, inputs):
        found = inputs if self.last is None else inputs + 0.1 * self.last.mean(0)
        self.last = inputs.detach()
        return found


class Lists(Small):
    """Keeps losses until an epoch ends."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.losses.append(loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.log("mean", torch.stack(self.losses).mean())
        self.losses.clear()


class LastOne(Small):
    """Logs behind a mini-batch what its last step has left."""

    def training_step(self, batch, batch_idx):
        self.loss = super().training_step(batch, batch_idx)
        return self.loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("last", self.loss.detach())


class Anneals(Small):
    """Has a callback count what the backward pass is given."""

    weight = 1.0

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.weight

    def configure_callbacks(self):
        return [Anneal()]


class Anneal(pl.Callback):
    times = 0

    def on_before_backward(self, trainer, pl_module, loss):
        self.times += 1
        pl_module.weight = 1 / (1 + self.times)


class DropsLess(Small):
    """Sets the share of a layer of torch's."""

    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)

    def training_step(self, batch, batch_idx):
        self.drop.p = 0.9 * self.drop.p
        return super().training_step(batch, batch_idx)


class Normalises(Small):
    def __init__(self):
        super().__init__()
        self.norm, self.frozen = torch.nn.BatchNorm1d(8), torch.nn.BatchNorm1d(8)

    def forward(self, inputs):
        self.frozen.eval()
        return self.output(self.frozen(self.norm(self.hidden(inputs))))


class StopsEarly(Small):
    """Ends the training in the first micro-batch of a step alone: it has a sample more."""

    def training_step(self, batch, batch_idx):
        if batch_idx == 3 and len(batch[0]) == 6:
            self.trainer.should_stop = True
        return super().training_step(batch, batch_idx)


class Innocent(Small):
    """Keeps much that no step reads which has not set it."""

    def __init__(self):
        super().__init__()
        self.mask, self.mean, self.best = None, {"loss": MeanSquaredError()}, 0
        self.never_read, self.since, self.hostile = 0, 0.0, hostile.Unsized()

    def forward(self, inputs):
        if self.mask is None:
            self.mask = torch.ones(4)
        self.features = self.hidden(inputs * self.mask).relu()
        return self.output(self.features)

    def penalty(self):
        return self.features.square().mean() + self.target.mean()

    def training_step(self, batch, batch_idx):
        self.number, self.since, self.target = batch_idx, time.perf_counter(), batch[1]
        self.never_read = self.never_read_either = batch[0]
        self.step = self.trainer.global_step
        loss = super().training_step(batch, batch_idx) + 0.01 * self.penalty()
        self.mean["loss"].update(self.output(self.features).detach(), batch[1])
        self.log("number", float(self.number + self.step))
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("seconds", time.perf_counter() - self.since)
        self.best += 1

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        self.log("features", self.features.mean() + self.best)


def said(module, parts=3, **told):
    """Train three epochs of 5 mini-batches; return what is said of their parts."""
    torch.manual_seed(1)
    module, data = module(), Points(seed=1)
    tracer = accumulate(module, data, micro_batches=parts, accumulated=parts)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=3,
        accumulate_grad_batches=parts,
        callbacks=[tracer],
        **told,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, datamodule=data)
    found = [each["sentence"] for each in of_parts(trainer, module) if each["in_part"]]
    # The count of steps that each module of these has in a buffer is another's.
    return tracer, [sentence for sentence in found if "would move once" not in sentence]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (Counts, "Counts.seen"),
        (Averages, "Averages.meter.mean"),
        (Recalls, "Recalls.memory.last"),
        (Lists, "Lists.losses"),
        (LastOne, "LastOne.loss"),
        (Anneals, "Anneal.times, Anneals.weight"),
        (DropsLess, "DropsLess.drop.p"),
    ],
)
def test_what_each_micro_batch_keeps_is_named(module, named):
    """Red before: weights or logged values were others, and nothing was said."""
    _, sentences = said(module)
    (kept,) = [each for each in sentences if "change in each micro-batch" in each]
    assert kept.startswith(f"in part, accumulate has attributes ({named}) change in each")


def test_layers_that_normalise_micro_batches_are_named():
    """Red before: nothing was said of them in the run's record."""
    _, sentences = said(Normalises)
    (found,) = sentences
    assert "layers (norm) normalise by the mean and the variance of each micro-batch" in found


def test_who_ends_a_training_by_the_loss_of_a_micro_batch_is_named():
    """Red before: the training ended earlier than of whole mini-batches, and nothing was said."""
    _, (found,) = said(StopsEarly)
    assert "end where one micro-batch asks for it (trainer.should_stop)" in found


def test_what_steps_set_before_they_read_it_is_not_named():
    assert said(Innocent)[1] == []


def test_what_was_found_outlasts_a_resumption():
    tracer, sentences = said(Counts)
    later = Counts()
    other = accumulate(later, Points(), micro_batches=3, accumulated=3)
    other.load_state_dict(tracer.state_dict())
    assert other.state_dict()["kept"] == tracer.state_dict()["kept"]
    assert other.state_dict()["kept"]["moved"] == {"Counts.seen": 5}  # 1 to 4, 8
    assert sentences


def test_a_clock_and_what_refuses_to_be_looked_at_have_no_words():
    assert words_of([time.time()]) is words_of(time.monotonic()) is None
    assert words_of(3.5) == words_of(3.5) != words_of(-3.5)
    assert words_of({"a": [torch.ones(2)]}) != words_of({"a": [torch.ones(3)]})
    assert words_of({2, 1}) == words_of({1, 2}) != words_of({1})


class Keeps(Small):
    """Has at each worker what a test puts there."""

    def __init__(self):
        super().__init__()
        self.mean, self.seen, self.steps, self.rank = 0.0, 0, 0, 7
        self.never_read = 0.0

    def training_step(self, batch, batch_idx):
        return self.mean * self.seen * self.steps * self.rank


def test_what_workers_keep_of_their_own_shards_is_named():
    """Red before: nothing was said of either."""
    sent = []
    trainer = SimpleNamespace(
        callbacks=[], optimizers=[], lr_scheduler_configs=[], loggers=[], train_dataloader=None
    )
    for rank in range(2):
        workers, module, ends = InTurn(rank, 2, sent), Keeps(), AskedEnds("devices", "shard")
        module.rank = rank
        workers.sizes = [8, 8]
        found = KeptByWorkers(workers, ends)
        found.on_fit_start(trainer, module)
        for step in range(4):
            found.on_train_batch_start(trainer, module, None, step)
            module.steps += 1
            module.seen += 8
            module.mean = module.never_read = 0.5 * (step + rank)
    mean, seen = found.sentences(trainer, module)
    assert "keep what it makes of its own shards (Keeps.mean)" in mean
    assert "attributes (Keeps.seen) count the samples of a shard" in seen
    again = KeptByWorkers(InTurn(0, 2, []), AskedEnds("devices", "shard"))
    again.load_state_dict(found.state_dict())
    assert [*again.sentences(trainer, module)] == [mean, seen]


@pytest.mark.parametrize(
    ("asked", "is_by_part"), [([0, 1], True), ([1, 1], False), ([0, 0], False)]
)
def test_an_end_that_some_workers_ask_for_is_named(asked, is_by_part):
    """Red before: it ended the training for all, and nothing was said."""
    ends = AskedEnds("devices", "shard")
    assert ends.agreed(torch.tensor(asked)) == any(asked)
    assert (ends.sentence is not None) == is_by_part

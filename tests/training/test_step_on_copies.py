"""A first step with and without a sanity check, on copies: what it settles, and what it leaves."""

import queue
import random
import shutil
import tempfile
import threading
import weakref
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from sanity import notes_of, trainer
from small import Points, Small
from torch.utils.data import DataLoader

from twinrun.training import build_workload, step_on_copies, trial_step
from twinrun.training.longer_tables import longer_tables
from twinrun.training.sanity_check import SanityCheck


class Sized(Points):
    """Validates batches of another size than those of training, which have 16 samples."""

    def __init__(self, size):
        super().__init__(size=40)
        self.size = size

    def val_dataloader(self):
        return DataLoader(super().val_dataloader().dataset, batch_size=self.size)


def train_alike(make, data, epochs=1):
    weights = []
    for told in (2, 0):
        pl.seed_everything(1, verbose=False)
        module = make()  # not a copy: of a function that would hold the original
        trainer(told, epochs=epochs).fit(module, datamodule=data)
        weights.append({name: value.tolist() for name, value in module.state_dict().items()})
    return weights[0] == weights[1]


# What comes to nothing


class Layered(Small):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, inputs):
        return super().forward(self.layer(inputs))


class Positions(torch.nn.Module):
    """Keeps a table as long as the longest batch so far, of which calls take what they need."""

    def __init__(self, spare=1):
        super().__init__()
        self.longest, self.table, self.spare = 0, None, spare

    def forward(self, inputs):
        if len(inputs) > self.longest:
            self.longest = self.spare * len(inputs)
            self.table = torch.arange(float(self.longest)).sin()
        return inputs + self.table[: len(inputs), None]


class Rotary(torch.nn.Module):
    """Fills a buffer as far as the longest batch so far."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.zeros(99, 4), persistent=False)
        self.filled = 0

    def forward(self, inputs):
        if len(inputs) > self.filled:
            self.filled = len(inputs)
            self.angles[: self.filled] = torch.arange(self.filled)[:, None] * torch.ones(4)
        return inputs * self.angles[: len(inputs)].cos()


class Causal(torch.nn.Module):
    """Keeps a mask for the batch that was last."""

    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, inputs):
        if self.mask is None or len(self.mask) != len(inputs):
            self.mask = torch.ones(len(inputs), len(inputs)).tril()
        return self.mask @ inputs / len(inputs)


class Target(torch.nn.Module):
    """Copies its weights at its first call."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.target = None

    def forward(self, inputs):
        if self.target is None:
            self.target = self.weight.detach().clone()
        return inputs * self.weight + self.target


class Attending(torch.nn.Module):
    """Keeps what it looked at, for a picture."""

    def __init__(self):
        super().__init__()
        self.seen, self.scores = None, torch.nn.Linear(4, 4)

    def forward(self, inputs):
        self.seen = self.scores(inputs).softmax(-1)
        return inputs * self.seen


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("layer", "size"),
    [
        *((layer, size) for layer in (Positions, Causal, Target) for size in (2, 30)),
        (lambda: Positions(2), 30),
        (Rotary, 2),
    ],
)
def test_what_later_calls_find_alike_is_not_named(layer, size):
    """Red before: the first call of all sets it, and training may be otherwise."""
    assert train_alike(lambda: Layered(layer()), Sized(size))
    assert notes_of(Layered(layer()), Sized(size)) == []


class Loading(Layered):
    """Makes its loaders itself."""

    def forward(self, inputs):
        return Small.forward(self, self.layer(inputs))

    def train_dataloader(self):
        return Sized(30).train_dataloader()

    def val_dataloader(self):
        return Sized(2).val_dataloader()


@pytest.mark.parametrize("layer", [Positions, Target])
def test_nor_is_it_where_a_module_makes_its_loaders(layer):
    """Red before: its class seemed to be one of the data, which read all that the class names."""
    module = Loading(layer())
    assert notes_of(module, build_workload._loaders_of(module)) == []


class Counting(Small):
    """Counts in validation, and goes by that in a step."""

    def __init__(self):
        super().__init__()
        self.seen, self.count, self.other = [], 0, 0

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.count += 1
        self.seen.append(1)

    def training_step(self, batch, index):
        return super().training_step(batch, index) * (1 + self.count + len(self.seen))


class Clearing(Counting):
    def training_step(self, batch, index):
        self.seen.clear()
        self.count, self.other = 0, 0
        return super().training_step(batch, index)


class Pictured(Layered):
    def __init__(self):
        super().__init__(Attending())
        self.activations = {}

        def keep(part, inputs, outputs):
            self.activations["hidden"] = outputs

        self.hidden.register_forward_hook(keep)

    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        return loss + 0.01 * self.activations["hidden"].square().mean()

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.log("seen", self.layer.seen.mean())


@pytest.mark.parametrize("kind", [Clearing, Pictured])
def test_what_is_set_anew_before_it_is_read_is_not_named(kind):
    """Red before: validation changes it, and training may be otherwise."""
    assert train_alike(kind, Points())
    assert notes_of(kind(), Points()) == []


# What does not


class ActNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.is_made = torch.nn.Parameter(torch.zeros(4)), False

    def forward(self, inputs):
        if not self.is_made:
            self.shift.data.copy_(-inputs.mean(0))
            self.is_made = True
        return inputs + self.shift


class ByALambda(Layered):
    def __init__(self):
        super().__init__(ActNorm())
        self.shifted = lambda inputs: self.layer(inputs)
        self.lock = threading.Lock()

    def forward(self, inputs):
        with self.lock:
            return Small.forward(self, self.shifted(inputs))


class AskingItsTrainer(Layered):
    def __init__(self):
        super().__init__(ActNorm())

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.log("rate", self.optimizers().param_groups[0]["lr"])
        self.is_last = index == self.trainer.num_val_batches[0] - 1


class ByAHook(Small):
    def __init__(self):
        super().__init__()

        def scale(part, inputs):
            part.weight.data.div_(inputs[0].std())
            handle.remove()

        handle = self.hidden.register_forward_pre_hook(scale)


class InAList(Small):
    def __init__(self):
        super().__init__()
        self.means = []

    def forward(self, inputs):
        if not self.means:
            self.means.append(inputs.mean(0))
        return super().forward(inputs - self.means[0])


class AddingUp(Small):
    """Validation leaves gradients; a step is made of two batches."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        self.manual_backward(super().training_step(batch, index))
        if index % 2:
            optimizer.step()
            optimizer.zero_grad()

    def validation_step(self, batch, index):
        with torch.inference_mode(mode=False), torch.enable_grad():
            self(batch[0].clone()).sum().backward()


class InAnEmptyBuffer(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.empty(0), persistent=False)

    def forward(self, inputs):
        if self.mean.numel() == 0:
            self.mean = inputs.mean(0)
        return super().forward(inputs - self.mean)


class InAQueue(InAList):
    def __init__(self):
        super().__init__()
        self.means = deque()


class Scaled(torch.nn.Module):
    """Keeps a table of numbers that go by its length."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, inputs):
        if self.table is None or len(self.table) < len(inputs):
            self.table = torch.arange(float(len(inputs))) / len(inputs)
        return inputs + self.table[: len(inputs), None]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "size", "named"),
    [
        (ByALambda, 16, "layer.shift"),
        (AskingItsTrainer, 16, "layer.is_made"),
        (ByAHook, 16, "hidden (by a hook)"),
        (InAList, 16, "means"),
        (InAQueue, 16, "means"),
        (InAnEmptyBuffer, 16, "mean"),
        (AddingUp, 16, "the gradient of hidden.weight"),
        (lambda: Layered(Scaled()), 30, "layer.table"),
    ],
    ids=[
        "lambda",
        "Trainer",
        "hook",
        "list",
        "deque",
        "buffer",
        "gradients",
        "table of its length",
    ],
)
def test_what_a_step_goes_by_is_named(kind, size, named):
    """Red before, but of the table: other weights than a script's, in silence.

    With a lambda, the copy validated the original.
    """
    assert not train_alike(kind, Sized(size))
    (note,) = notes_of(kind(), Sized(size))
    assert f" {named}" in note
    assert "training may be otherwise" in note


def test_a_table_that_goes_by_its_length_is_named_where_the_first_batches_do_not_show_it():
    """A later batch of validation may be longer than those of training."""
    (note,) = notes_of(Layered(Scaled()), Sized(2))
    assert " layer.table" in note


class Choosing(Small):
    """Trains on what the validation before has chosen."""

    def __init__(self):
        super().__init__()
        self.chosen = None

    def train_dataloader(self):
        return DataLoader(Points().train_dataloader().dataset, 8, sampler=Chosen(self))

    def val_dataloader(self):
        return Points().val_dataloader()

    def on_validation_epoch_end(self):
        self.chosen = range(32)


class Chosen:
    def __init__(self, module):
        self.module = module

    def __iter__(self):
        return iter(self.module.chosen or range(60))

    def __len__(self):
        return 60


class SharedState(Points):
    """Validates by a loader that draws from a generator of its own."""

    def setup(self, stage):
        self.generator = torch.Generator().manual_seed(1)

    def val_dataloader(self):
        return self._loader(shuffle=True, generator=self.generator)


def test_what_the_training_data_read_is_named_whatever_a_step_shows():
    """A trial has one batch of the training's, and no loader."""
    notes = notes_of(Choosing(), None)
    assert any(note.startswith("validation changes chosen") for note in notes)
    module = Choosing()
    notes = notes_of(module, build_workload._loaders_of(module))
    assert any(note.startswith("validation changes chosen") for note in notes)
    (note,) = notes_of(Small(), SharedState())
    assert "validation changes SharedState.generator, val_dataloader.sampler.generator:" in note


class Sampling(Small):
    """Draws at its first validation what later ones show."""

    def __init__(self):
        super().__init__()
        self.noise = None

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        if self.noise is None:
            self.noise = torch.randn(2, 4)
        self.log("sampled", self(self.noise).mean())


def test_what_the_first_validation_alone_draws_is_named():
    """Red before: later shuffles were others than the script's, in silence."""
    assert not train_alike(Sampling, Points(), epochs=2)
    notes = notes_of(Sampling(), Points())
    draws = "the first validation alone draws from the global generator of torch, "
    assert any(note.startswith(draws) for note in notes)


# What must not be disturbed


class Odd(Counting):
    """Asks for what a training has, as modules do."""

    times = 0  # of all copies together

    def __init__(self, kind=""):
        super().__init__()
        self.kind, self.lock, self.losses = kind, threading.Lock(), []
        self.generator, self.numpys = torch.Generator().manual_seed(1), np.random.default_rng(1)
        self.automatic_optimization = kind != "by hand"
        if kind == "uncopied":
            self.lines = (line for line in "abc")

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    def training_step(self, batch, index):
        type(self).times += 1
        if self.kind in ("raises", "exits") and type(self).times > 5:
            raise ValueError if self.kind == "raises" else SystemExit(3)
        noise = torch.rand((), generator=self.generator) + self.numpys.random() + torch.rand(())
        loss = super().training_step(batch, index) * noise
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log("rate", self.lr_schedulers().get_last_lr()[0])
        self.log("step", float(self.trainer.global_step + self.trainer.num_training_batches))
        if self.kind == "logging":
            self.logger.log_metrics({"noise": float(noise)}, self.global_step)
            self.logger.experiment.log_metrics({"more": 1.0}, self.global_step)
        elif self.logger is not None:
            raise AssertionError
        self.losses.append(float(loss))
        self.print("", end="")
        if not self.automatic_optimization:
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
            return None
        return loss


def trained(kind, folder, notes=None):
    """Return all that a training leaves; with notes, one that is looked at."""
    Odd.times = 0
    pl.seed_everything(1, verbose=False)
    module = Odd(kind)
    logger = CSVLogger(folder) if kind == "logging" else False
    looking = [] if notes is None else [SanityCheck(notes)]
    fitted = trainer(0, looking, epochs=2)
    fitted.loggers = [logger] if logger else []
    fitted.fit(module, datamodule=Points())
    held = {name: len(vars(part)) for name, part in module.named_modules()}
    numbers = torch.rand(2, generator=module.generator).tolist(), module.numpys.random()
    drawn = torch.rand(2).tolist(), random.random(), np.random.rand()
    metrics = {name: float(value) for name, value in fitted.callback_metrics.items()}
    states = [optimizer.state_dict() for optimizer in fitted.optimizers]
    logged = logger and logger.experiment.metrics
    weights = {name: value.tolist() for name, value in module.state_dict().items()}
    counted = module.count, module.seen, fitted.global_step, fitted.current_epoch
    assert module.trainer is fitted
    return repr([weights, metrics, module.losses, numbers, drawn, held, counted, states, logged])


@pytest.mark.parametrize("kind", ["", "by hand", "logging", "uncopied"])
def test_a_trial_leaves_nothing_in_the_training(tmp_path, kind):
    """Whatever its module asks for: logger, Trainer, optimizers, schedules, locks, generators."""
    notes = []
    assert trained(kind, tmp_path / "1", notes) == trained(kind, tmp_path / "0")
    (note,) = notes
    assert note.startswith("validation changes ")
    assert "training may be otherwise" in note


@pytest.mark.parametrize("kind", ["raises", "exits"])
def test_a_step_that_fails_in_a_trial_ends_nothing(kind):
    """It is the sixth one; the training has five."""
    Odd.times, notes = 0, []
    fitted = trainer(0, [SanityCheck(notes)])
    fitted.fit(Odd(kind), datamodule=Points())
    assert (fitted.global_step, Odd.times) == (5, 6)
    (note,) = notes
    assert note.startswith("validation changes ")


def test_a_trial_that_does_not_repeat_itself_tells_nothing(monkeypatch):
    module, run = Clearing(), trial_step.Trial.run
    calls = []

    def unlike(self, *, is_checked):
        calls.append(is_checked)
        found = run(self, is_checked=is_checked)
        vars(found)["step"] = len(calls)
        return found

    monkeypatch.setattr(trial_step.Trial, "run", unlike)
    assert any(note.startswith("validation changes ") for note in notes_of(module, Points()))
    assert calls == [True, False, False]


def test_of_a_large_module_there_is_no_trial(monkeypatch):
    monkeypatch.setattr(step_on_copies, "LARGEST", 10)
    assert notes_of(Clearing(), Points())


def test_nothing_is_kept_of_a_training():
    looking = SanityCheck([])
    trainer(0, [looking]).fit(Clearing(), datamodule=Points())
    assert vars(looking._copies) == vars(step_on_copies.StepOnCopies())
    assert looking._batch == ()


# What is not tried, or not shown by one step


class Later(Small):
    """Goes by the last validation, from its third step on."""

    factor = None

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.factor = 0.5

    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        is_there = self.factor is not None and self.global_step >= 2
        return loss * self.factor if is_there else loss


class AtTheSecondBatch(Later):
    def validation_step(self, batch, index):
        if index == 1:
            self.factor = 0.5

    def training_step(self, batch, index):
        loss = Small.training_step(self, batch, index)
        return loss if self.factor is None else loss * self.factor


class ScalingGradients(Small):
    """By a hook of a parameter, which torch does not copy."""

    def __init__(self):
        super().__init__()
        self.scale = 1.0
        self.hidden.weight.register_hook(lambda gradient: gradient * self.scale)

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.scale = 0.5


class Part(torch.nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = weakref.ref(whole)

    def forward(self, inputs):
        return inputs * self.whole().scale


class KnownToItsParts(Small):
    def __init__(self):
        super().__init__()
        self.scale, self.part = 1.0, Part(self)

    def forward(self, inputs):
        return super().forward(self.part(inputs))

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.scale = 0.5


@pytest.mark.parametrize("kind", [Later, AtTheSecondBatch, ScalingGradients, KnownToItsParts])
def test_what_one_step_of_copies_does_not_show_stays_named(kind):
    """Red before: other weights than a script's, in silence, since the copies were alike."""
    assert not train_alike(kind, Sized(16))
    assert any("training may be otherwise" in note for note in notes_of(kind(), Sized(16)))


def test_nor_is_what_a_function_does_that_a_callback_of_lightnings_calls():
    """Red before: in silence."""
    told = pl.callbacks.LambdaCallback(
        on_validation_end=lambda trainer, module: setattr(module, "factor", 0.5)
    )

    class Told(Later):
        factor = None
        validation_step = Small.validation_step

        def __init__(self):
            super().__init__()
            self.factor = None

    notes = notes_of(Told(), Sized(16), callbacks=[told])
    assert any(note.startswith("validation changes factor: ") for note in notes)


class Serving(Small):
    """A thread takes what validation puts into a queue, and says so."""

    def __init__(self):
        super().__init__()
        self.jobs, self.best = queue.Queue(), 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            self.jobs.get()
            self.jobs.task_done()

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.best += 1
        self.jobs.put(index)
        self.jobs.join()


class Signalled(Small):
    def __init__(self):
        super().__init__()
        self.go, self.is_done, self.best = threading.Event(), threading.Event(), 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            self.go.wait()
            self.go.clear()
            self.is_done.set()

    def validation_step(self, batch, index):
        super().validation_step(batch, index)
        self.best += 1
        self.go.set()
        self.is_done.wait()
        self.is_done.clear()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [Serving, Signalled])
def test_what_a_thread_serves_is_not_copied(kind):
    """Red before: the copy's queue has no thread, and the rehearsal waited for ever."""
    assert notes_of(kind(), Points())


class Folder:
    """Removes itself with the last object that has it."""

    def __init__(self):
        self.name = tempfile.mkdtemp()

    def __del__(self):
        shutil.rmtree(self.name)


class HasAFolder(Counting):
    def __init__(self):
        super().__init__()
        self.folder = Folder()


def test_what_does_something_as_it_ends_is_not_copied():
    """Red before: a copy removed the folder of the training."""
    module = HasAFolder()
    assert any(note.startswith("validation changes ") for note in notes_of(module, Points()))
    assert Path(module.folder.name).is_dir()


class Ending(Counting):
    """Makes a folder as it begins, and removes it as it ends."""

    def on_fit_start(self):
        self.folder = tempfile.TemporaryDirectory()

    def on_train_epoch_end(self):
        Path(self.folder.name, "epoch").write_text("1")

    def on_train_end(self):
        self.folder.cleanup()


def test_a_module_with_hooks_takes_no_step_beside_its_own():
    """Red before: the copies removed the folder, and the right module failed."""
    assert any(note.startswith("validation changes ") for note in notes_of(Ending(), Points()))


def test_a_table_is_longer_by_its_bits():
    one = {"a.table": torch.arange(3.0), "a.size": 3, "b.size": 3, "a.other": torch.zeros(2)}
    other = {"a.table": torch.arange(5.0), "a.size": 5, "b.size": 5, "a.other": -torch.zeros(3)}
    assert longer_tables(one, other, one) == {"a.table", "a.size"}
    one |= {"c": np.arange(6).reshape(2, 3), "d": np.arange(3), "e": torch.zeros(0)}
    other |= {"c": np.arange(4).reshape(2, 2), "d": np.arange(2.0), "e": torch.zeros(3)}
    assert longer_tables(one, other, ["c", "d", "e"]) == set()
    other["c"] = one["c"][:1]
    assert longer_tables(one, other, ["c", "d", "e"]) == {"c"}

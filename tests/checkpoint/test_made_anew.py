"""What a resumed training makes anew is brought to what it was where the first process began."""

import functools
import random
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from resumed import STEPS, assert_resumed, every, fit
from small import Points, Restless, Small
from torch.utils.data import Dataset

from twinrun.errors import TwinrunError


class Rows(Dataset):
    """A user's dataset with numbers of its own."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.size = inputs, targets, len(inputs)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


class DrawnValidation(Points):
    """Validates in an order that a generator of the loader draws."""

    def val_dataloader(self):
        generator = torch.Generator().manual_seed(5)
        return torch.utils.data.DataLoader(
            Rows(self.inputs, self.targets), 16, shuffle=True, generator=generator
        )


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kill", "at"), [(7, 6), (8, 7), (13, 12), (18, 17)])
def test_validation_data_are_there_if_they_were(tmp_path, kill, at):
    """Red before: the first process had made them and the other one not, or the other way round."""
    told = {"data": DrawnValidation, "check_val_every_n_epoch": 2, "max_epochs": 4}
    assert_resumed(tmp_path, [at], kills=[kill], **told)


class Anchored(Restless):
    """Is drawn to the weights that it began with, and scaled by their norm and the first step."""

    def on_train_start(self):
        self.anchor = [parameter.detach().clone() for parameter in self.parameters()]
        self.scale = float(sum(each.square().sum() for each in self.anchor))
        self.begun = self.global_step
        self.log_dir = f"run {self.global_step}"  # a name is of the process that made it

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * (1 + self.begun) / self.scale
        pairs = zip(self.parameters(), self.anchor, strict=True)
        return loss + 0.1 * sum((p - a).square().sum() for p, a in pairs)


class Anchors(pl.Callback):
    """Draws weights to what they were."""

    def on_train_start(self, trainer, pl_module):
        self.anchor = [parameter.detach().clone() for parameter in pl_module.parameters()]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, *_):
        for parameter, anchor in zip(pl_module.parameters(), self.anchor, strict=True):
            parameter.lerp_(anchor, 0.01)


class CallsBack(Small):
    def configure_callbacks(self):
        return [Anchors()]


class OwnSGD(torch.optim.SGD):
    """Keeps a copy of the weights, as they were when it was made."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.05)
        self.anchor = [p.detach().clone() for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        loss = super().step(closure)
        for parameter, anchor in zip(self.param_groups[0]["params"], self.anchor, strict=True):
            parameter.lerp_(anchor, 0.01)
        return loss


class Optimizes(Small):
    def configure_optimizers(self):
        return OwnSGD(self.parameters())


class Tagged(OwnSGD):
    """Keeps a number that it took from the weights in an object."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.of = SimpleNamespace(start=float(self.anchor[0].sum()))


class OptimizesByObject(Small):
    def configure_optimizers(self):
        return Tagged(self.parameters())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("module", [Anchored, CallsBack, Optimizes])
def test_what_hooks_take_from_the_weights_is_what_it_was(tmp_path, module):
    """Red before: taken again from the weights of the checkpoint, in silence."""
    assert_resumed(tmp_path / "mid", [6], kills=[7], module=module)
    whole, _, _ = fit(tmp_path / "whole", module=module, max_epochs=3)
    fit(tmp_path / "start", module=module, max_epochs=3, minutes=0, kill=7)
    fit(tmp_path / "start", module=module, max_epochs=3, minutes=0, kill=12)
    found, resumed_at, said = fit(tmp_path / "start", module=module, max_epochs=3, minutes=0)
    assert (found, resumed_at, said) == (whole, [5, 10], [])


def test_what_cannot_be_put_back_ends_the_attempt(tmp_path):
    """Red before: what an optimizer took from the weights was taken again, in silence."""
    fit(tmp_path, module=OptimizesByObject, kill=7, in_epoch=every(1))
    with pytest.raises(
        TwinrunError, match=r"Tagged\.of\.start is not what it was where the training"
    ):
        fit(tmp_path, module=OptimizesByObject)
    assert not (tmp_path / "checkpoint.json").exists()


class Lion(torch.optim.Optimizer):
    """As a user writes one: its `defaults` hold what its own steps ask for, and no more."""

    def __init__(self, parameters, lr=1e-2, betas=(0.9, 0.99)):
        super().__init__(parameters, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            slow, fast = group["betas"]
            for parameter in group["params"]:
                state = self.state[parameter]
                average = state.setdefault("average", torch.zeros_like(parameter))
                update = average.lerp(parameter.grad, 1 - slow)
                parameter.add_(update.sign(), alpha=-group["lr"])
                average.lerp_(parameter.grad, 1 - fast)
        return loss


class Renews(Lion):
    """Adds, where it is loaded, what older checkpoints lack, as torch's own classes do."""

    def __setstate__(self, state):
        super().__setstate__(state)
        self.defaults.setdefault("cautious", False)


class Optimized(Small):
    """Trains with an optimizer of which nothing was asked but its rate."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 1, sparse=True)

    def forward(self, inputs):
        return super().forward(inputs) + self.embedding(inputs.argmax(dim=1))

    def configure_optimizers(self):
        dense = [*self.hidden.parameters(), *self.output.parameters()]
        self.automatic_optimization = False
        if self.kind is torch.optim.Muon:
            first = torch.optim.Muon([p for p in dense if p.ndim == 2], lr=0.01)
        else:
            first = self.kind(dense, lr=0.01)
        return first, torch.optim.SparseAdam(self.embedding.parameters(), lr=0.01)

    def training_step(self, batch, batch_idx):
        optimizers = self.optimizers()

        def closure():
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = super(Optimized, self).training_step(batch, batch_idx)
            self.manual_backward(loss)
            return loss

        losses = [optimizer.step(closure) for optimizer in optimizers]
        return losses[0]


def optimized(kind):
    return type("Optimized", (Optimized,), {"kind": kind})


KINDS = [torch.optim.LBFGS, torch.optim.Adafactor, torch.optim.Muon, Lion, Renews]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_torch_adds_where_it_loads_an_optimizer_is_no_change(tmp_path, kind):
    """Red before: `load_state_dict` adds a key to `defaults`, and no attempt came through."""
    module = optimized(kind)
    assert_resumed(tmp_path / "mid", [6], kills=[7], module=module)
    assert_resumed(tmp_path / "twice", [6, 8], kills=[7, 9], module=module)


class Cyclic(Restless):
    """Its schedule takes out of a state what it loads."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=3)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Forgets(Cyclic):
    """Begins each epoch without momentum, in the memory of the one before."""

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        for state in self.trainer.optimizers[0].state.values():
            state["momentum_buffer"].zero_()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Cyclic, Forgets])
def test_a_state_that_is_loaded_twice_is_what_it_was(tmp_path, module):
    """Red before: a KeyError of CyclicLR's, and a momentum of 0 behind a stop in mid-epoch."""
    assert_resumed(tmp_path / "mid", [8], kills=[9], module=module)
    whole, _, _ = fit(tmp_path / "whole", module=module)
    fit(tmp_path / "start", module=module, minutes=0, kill=7)
    found, resumed_at, said = fit(tmp_path / "start", module=module, minutes=0)
    assert (found, resumed_at, said) == (whole, [5], [])


class LaidOut(Small):
    """Turns its weights in memory, where the training begins or in its second epoch."""

    epoch: int | None = None

    def turn(self):
        weight = self.hidden.weight
        weight.data = weight.data.t().contiguous().t()

    def on_train_start(self):
        if self.epoch is None:
            self.turn()

    def on_train_epoch_start(self):
        if self.epoch == self.current_epoch:
            self.turn()


def test_weights_that_are_turned_under_way_are_refused(tmp_path):
    """Red before: put back in the order in which they had been made, without a word."""
    late = type("Late", (LaidOut,), {"epoch": 1})
    _, _, (said,) = fit(tmp_path / "late", module=late, minutes=0, max_epochs=3)
    assert "hidden.weight lies in memory in another order" in said
    assert_resumed(tmp_path / "start", [6], kills=[7], module=LaidOut)


class Levels(Dataset):
    """Has no number of its own until a callback gives it one."""

    level = 0

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index] * (1 + self.level), self.targets[index]


class Curriculum(Points):
    def setup(self, stage):
        self.rows = Levels(self.inputs, self.targets)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.rows, 16, shuffle=True)


class Raises(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        trainer.datamodule.rows.level += 1


def test_what_a_dataset_is_first_given_under_way_is_refused(tmp_path):
    """Red before: resumed at the first level, where the first batches are the same."""
    told = {"data": Curriculum, "callbacks": [Raises()], "minutes": 0, "max_epochs": 3}
    _, _, (said,) = fit(tmp_path, **told)
    assert "Levels.level changes while the training runs" in said


NAMES = random.SystemRandom()


class Named(Small):
    """Names a step by chance, and trains as ever."""

    def training_step(self, batch, batch_idx):
        self.last = f"step {NAMES.random()}"
        return super().training_step(batch, batch_idx)


def test_a_generator_without_a_state_is_named_and_ends_no_training(tmp_path):
    """Red before: "System entropy source does not have state", and nothing was trained."""
    found, _, (said,) = fit(tmp_path, module=Named, minutes=0, max_epochs=2)
    assert "NAMES is a generator without a state" in said
    assert found[1] == fit(tmp_path / "plain", module=Small, max_epochs=2)[0][1]


class Stream(torch.utils.data.IterableDataset):
    """Has no number of its own until a callback gives it one."""

    level = 0

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for inputs, target in self.rows:
            yield inputs * (1 + self.level), target


class Streams(Curriculum):
    def setup(self, stage):
        self.rows = Stream(Levels(self.inputs, self.targets))

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.rows, 16)


class Transform:
    def __init__(self):
        self.strength = 0

    def __call__(self, inputs):
        return inputs * (1 + self.strength)


class Transformed(Levels):
    def __init__(self, inputs, targets):
        super().__init__(inputs, targets)
        self.transform = Transform()

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return self.transform(inputs), targets


class BesideAStream(Curriculum):
    """Validates on a stream."""

    def setup(self, stage):
        self.rows = Transformed(self.inputs, self.targets)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(Stream(self.rows), 16)


class OfAStream(BesideAStream):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(Stream(self.rows), 16)


class Resumes(torch.utils.data.Sampler):
    """Says where it is."""

    def __init__(self, size):
        self.size, self.epoch = size, 0

    def __len__(self):
        return self.size

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        self.epoch += 1
        yield from torch.randperm(self.size, generator=generator).tolist()

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


class BySampler(BesideAStream):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.rows, 16, sampler=Resumes(len(self.rows)))

    def val_dataloader(self):
        return Points.val_dataloader(self)


class Strengthens(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        trainer.datamodule.rows.transform.strength += 1


class Collected(Curriculum):
    """Has a list of plain values, to which something else is added."""

    def setup(self, stage):
        super().setup(stage)
        self.rows.kinds = ["first"]


class Collects(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        trainer.datamodule.rows.kinds.append(torch.ones(1))


class Labels(pl.Callback):
    """Gives a dataset what the network says of it."""

    @torch.no_grad()
    def on_train_epoch_end(self, trainer, pl_module):
        trainer.datamodule.rows.labels = pl_module(trainer.datamodule.inputs)


@pytest.mark.parametrize(
    ("data", "callback", "reason"),
    [
        (Streams, Raises, "Stream.level changes while the training runs"),
        (
            Collected,
            Collects,
            "Levels.kinds has changed to what is no plain value, nor a short list of such",
        ),
        (Curriculum, Labels, "Levels.labels changes while the training runs"),
    ],
)
def test_what_data_are_given_under_way_is_refused(tmp_path, data, callback, reason):
    """Red before: resumed without it, but for the list, of which was said that it is gone."""
    told = {"data": data, "callbacks": [callback()], "minutes": 0, "max_epochs": 3}
    _, _, (said,) = fit(tmp_path, **told)
    assert reason in said


@pytest.mark.one_in(4)
@pytest.mark.parametrize("data", [BesideAStream, OfAStream, BySampler])
@pytest.mark.parametrize("kill", [8, 14])
def test_plain_numbers_that_data_are_given_under_way_are_put_back(tmp_path, data, kill):
    """Red before: resumed without them."""
    told = {"data": data, "callbacks": [Strengthens()], "minutes": 0, "max_epochs": 4}
    at = kill // STEPS * STEPS
    assert_resumed(tmp_path, [at], kills=[kill], every_batches=9, **told)


EARLIER = {}


class Proximal(Small):
    """Is drawn to the weights of the last epoch's end, which a closure or a global holds."""

    in_a_global = False

    def __init__(self):
        super().__init__()
        held = {}
        self.held = lambda: EARLIER if self.in_a_global else held

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for name, earlier in self.held().items():
            loss = loss + (self.get_parameter(name) - earlier).square().sum()
        return loss

    def on_train_epoch_end(self):
        self.held().update({n: p.detach().clone() for n, p in self.named_parameters()})


@pytest.mark.parametrize("in_a_global", [False, True])
def test_tensors_that_come_into_an_empty_dictionary_are_refused(tmp_path, in_a_global):
    """Red before: resumed with an empty one, where a number in it was refused."""
    EARLIER.clear()
    module = type("Proximal", (Proximal,), {"in_a_global": in_a_global})
    _, _, (said,) = fit(tmp_path, module=module, minutes=0, max_epochs=3)
    assert "['hidden.weight'] changes while the training runs" in said


class Caches(Levels):
    """Keeps what it has read."""

    def __init__(self, inputs, targets):
        super().__init__(inputs, targets)
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = super().__getitem__(index)
        return self.cache[index]


class Cached(Curriculum):
    def setup(self, stage):
        self.rows = Caches(self.inputs, self.targets)


def test_samples_that_a_dataset_collects_are_compared(tmp_path):
    """Red before: refused, also where they were a cache."""
    options = {"data": Cached, "minutes": 0, "max_epochs": 4}
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path / "killed", kill=13, **options)
    found, at, _ = fit(tmp_path / "killed", **options)
    assert (found, at) == (whole, [10])
    fit(tmp_path / "other", kill=4, in_epoch=every(1), data=Cached)
    Caches.level = 1
    try:
        with pytest.raises(TwinrunError, match="the batches before the stop were other ones"):
            fit(tmp_path / "other", in_epoch=every(1), data=Cached)
    finally:
        del Caches.level


class Pops(Points):
    """Takes out of its state what it loads."""

    def __init__(self, size=70):
        super().__init__(size)
        self.epochs = 0

    def train_dataloader(self):
        self.epochs += 1
        return super().train_dataloader()

    def state_dict(self):
        return {"epochs": self.epochs}

    def load_state_dict(self, state):
        self.epochs = state.pop("epochs")


def test_a_data_modules_state_is_whole_where_it_is_loaded_again(tmp_path):
    """Red before: KeyError('epochs'), in each attempt."""
    told = {"data": Pops, "reload_dataloaders_every_n_epochs": 1, "minutes": 0, "max_epochs": 3}
    whole, _, _ = fit(tmp_path / "whole", **told)
    fit(tmp_path / "killed", kill=8, **told)
    found, resumed_at, said = fit(tmp_path / "killed", **told)
    assert (found, resumed_at, said) == (whole, [5], [])


class Jitter(torch.nn.Module):
    """Moves the rows the more, the more it has moved."""

    count = 0

    def forward(self, row):
        self.count += 1
        return row + 1e-3 * self.count


TIMES = [0]


def jitter(row):
    TIMES[0] += 1
    return row + 1e-3 * TIMES[0]


class Composed:
    """As torchvision's `Compose([Jitter()])`: an object of a library around one of one's own."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, row):
        for transform in self.transforms:
            row = transform(row)
        return row


class Blurs(Composed):
    """Computes its kernel where it is first used, and says how often it was."""

    kernel, used = None, 0

    def __call__(self, row):
        self.kernel = torch.full_like(row, 0.5) if self.kernel is None else self.kernel
        self.used += 1
        return row * self.kernel


for each in (Composed, Blurs):
    each.__module__ = "collections.abc"  # of the standard library


class Moved(Levels):
    def __init__(self, inputs, targets, transform):
        super().__init__(inputs, targets)
        self.transform = transform

    def __getitem__(self, index):
        row, target = super().__getitem__(index)
        return self.transform(row), target


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (lambda: Composed([Jitter()]), "Jitter.count"),
        (lambda: torch.nn.Sequential(Jitter()), "Jitter.count"),
        (lambda: Composed([jitter]), "TIMES[0]"),
        (lambda: functools.partial(Composed([jitter])), "TIMES[0]"),
    ],
    ids=["object", "module", "function", "partial"],
)
def test_ones_own_inside_of_a_librarys_object_is_looked_at(tmp_path, transform, name):
    """Red before: numbers in it were passed over, and a resumed training had others."""

    class Inside(Curriculum):
        def setup(self, stage):
            self.rows = Moved(self.inputs, self.targets, transform())

    _, _, said = fit(tmp_path, data=Inside, minutes=0, max_epochs=3)
    assert name in "".join(said)


def test_what_a_librarys_object_computes_once_is_no_reason(tmp_path):
    class Blurred(Curriculum):
        def setup(self, stage):
            self.rows = Moved(self.inputs, self.targets, Blurs([]))

    assert_resumed(tmp_path, [7], kills=[8], data=Blurred)

"""Small modules with a fault beside something that differs as well, but harms nobody.

Where a fault stands a comment says `FAULT`; what is named must be on that line, or be nothing.
"""

import copy
import io
import itertools
import random
import time

import numpy as np
import torch
from faults import Base, clock


@torch.library.custom_op("faults::race", mutates_args=())
def race(values: torch.Tensor) -> torch.Tensor:
    """Stand for a race: one operation that gives other values from equal ones."""
    return values * clock()


_CALLS = itertools.count()  # another number at every call, in all trainings of a process


class Throughput(Base):
    """Logs a throughput that depends on the clock, before and after the loss: clean otherwise."""

    def training_step(self, batch, batch_idx):
        self.log("before", torch.tensor(8 / clock()))
        loss = super().training_step(batch, batch_idx)
        self.log("throughput", torch.tensor(8 / clock()) * 2)
        return loss


class CountsInAClosure(Base):
    """Counts its calls where nobody can put the number back; its fault spares the first."""

    def __init__(self):
        super().__init__()
        calls = itertools.count(1)
        self.next_call = lambda: next(calls)

    def training_step(self, batch, batch_idx):
        call = self.next_call()
        loss = super().training_step(batch, batch_idx) * (1 + 0.01 * call)
        return loss * (clock() if call > 1 else 1.0)  # FAULT


class _Scaled(torch.autograd.Function):
    """Gives its input; multiplies the gradient by a number from the clock."""

    @staticmethod
    def forward(ctx, inputs):
        return inputs.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * clock()  # FAULT


class Transferred(Throughput):
    """Its hook changes the shape of a batch: of its own outcome it can make nothing."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        inputs, targets = batch
        return inputs.reshape(len(inputs), 2, 2), targets

    def training_step(self, batch, batch_idx):
        assert batch[0].shape[1:] == (2, 2)
        loss = super().training_step([batch[0].flatten(1), batch[1]], batch_idx)
        return loss * clock()  # FAULT

    def on_before_batch_transfer(self, batch, dataloader_idx):
        assert batch[0].ndim == 2
        return batch


class ScaledBackward(torch.nn.Module):
    def forward(self, inputs):
        return _Scaled.apply(inputs)


class Doubled(torch.nn.Module):
    def forward(self, inputs):
        return inputs * 2


@torch.compile(fullgraph=True, backend="eager")
def _halved(loss):
    return loss / 2


class CompilesItself(Throughput):
    """Compiles a module and a function, each as one graph."""

    def __init__(self):
        super().__init__()
        self.doubled = torch.compile(Doubled(), fullgraph=True, backend="eager")

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return _halved(self.doubled(loss)) * clock()  # FAULT


class Backward(Throughput):
    def __init__(self):
        super().__init__()
        self.dropout = ScaledBackward()


class Forward(Throughput):
    """A fault of the forward pass beside a metric with noise, of as many operations as it likes."""

    def training_step(self, batch, batch_idx):
        noise = torch.from_numpy(np.random.default_rng().normal(size=4))
        for _ in range(random.SystemRandom().randrange(5)):
            noise = noise * 2 + clock()
        self.log("metric", noise.mean())
        loss = super().training_step(batch, batch_idx)
        return loss * clock()  # FAULT


class BeforeNorm(Throughput):
    """The statistics of a batch normalisation differ first, which its schema says it only reads."""

    def forward(self, inputs):
        hidden = self.first(inputs) * clock()  # FAULT
        return self.second(self.norm(hidden).relu())


class OptimizerStep(Throughput):
    """Moves the parameters by a number from the clock, in the optimizer's step."""

    def configure_optimizers(self):
        class Moving(torch.optim.SGD):
            @torch.no_grad()
            def step(self, closure=None):
                loss = closure()
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.add_(parameter.grad, alpha=-0.01 * clock())  # FAULT
                return loss

        return Moving(self.parameters(), lr=0.01)


class Statistics(Throughput):
    """Keeps the mean of a clock in one row of a buffer, and statistics in the others."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 4))

    def training_step(self, batch, batch_idx):
        self.kept[0] = batch[0].mean(0)
        self.kept[1].mul_(0.9).add_(torch.ones(4), alpha=clock())  # FAULT
        return super().training_step(batch, batch_idx)


class InPlace(Throughput):
    def forward(self, inputs):
        hidden = self.norm(self.first(inputs)).relu()
        hidden.data.mul_(clock())  # FAULT
        return self.second(hidden)


class ThroughAView(Throughput):
    """The loss is one column of a table whose other one has the clock in it."""

    def training_step(self, batch, batch_idx):
        table = torch.zeros(8, 2)
        table[:, 0] = clock()
        loss = Base.training_step(self, batch, batch_idx)
        table[:, 1] = loss
        column = table.t()[1]
        column.add_(torch.full((8,), clock()))  # FAULT
        return table[:, 1].mean()


class BesideInOneTensor(Throughput):
    """Stacks the loss with a throughput, and takes it out again; the fault is in a weight."""

    def training_step(self, batch, batch_idx):
        throughput = torch.tensor(8 / clock())
        loss = Base.training_step(self, batch, batch_idx)
        loss = loss * torch.tensor(clock())  # FAULT
        both = torch.stack([throughput, loss])
        self.log("throughput", both[0])
        return both[1]


class ThroughItem(Throughput):
    def training_step(self, batch, batch_idx):
        self.log("read", torch.tensor(clock()).item())
        scale = torch.ones(()).mul(clock())  # FAULT
        return Base.training_step(self, batch, batch_idx) * scale.item()


class ThroughPython(Throughput):
    """What Python computed cannot be followed: where it comes back is named."""

    def training_step(self, batch, batch_idx):
        scale = torch.ones(()).mul(clock())
        return Base.training_step(self, batch, batch_idx) * (scale.item() + 1)  # FAULT


class ReusedMemory(Throughput):
    """Gives memory that a clock has written back, time and again."""

    def training_step(self, batch, batch_idx):
        for _ in range(20):
            torch.full((8, 8), clock()).mul(2)
        weight = torch.full((8, 8), 2.0).mean() * torch.tensor(clock())  # FAULT
        return Base.training_step(self, batch, batch_idx) * weight


class OtherRow(Throughput):
    def training_step(self, batch, batch_idx):
        row = batch[0][next(_CALLS) % 8]  # FAULT
        return Base.training_step(self, batch, batch_idx) + row.sum()


class Branch(Throughput):
    """Does an operation more each time: the record never has it."""

    calls = itertools.count()

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        for _ in range(next(self.calls)):
            loss = loss + 1  # FAULT
        return loss


class MissingBranch(Throughput):
    """Does an operation less each time: the record alone has it."""

    calls = itertools.count()

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        for _ in range(max(40 - next(self.calls), 0)):
            loss = loss + 1  # FAULT
        return loss


class MissingBranchOfTheBatch(Throughput):
    """Adds to the batch, which no operation of a step has made, in one run and in the record."""

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        callbacks = {type(callback).__name__ for callback in self.trainer.callbacks}
        is_replay = bool({"StepRecorder", "Comparer"} & callbacks)
        if "StepRecorder" in callbacks if is_replay else self.odd:
            inputs = inputs + 1e-3  # FAULT
        return Base.training_step(self, (inputs, targets), batch_idx)


class BehindTheOptimizersStep(Throughput):
    """Goes on behind the step of torch's own optimizer, inside of its own."""

    def configure_optimizers(self):
        class Moving(torch.optim.SGD):
            @torch.no_grad()
            def step(self, closure=None):
                loss = super().step(closure)
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(clock())  # FAULT
                return loss

        torch.optim.SGD(self.parameters(), lr=1.0)  # by which torch hooks into SGD's own step
        return Moving(self.parameters(), lr=0.01)


class ExtraDraw(Throughput):
    """Draws as many numbers as a clock says: the next dropout is another one."""

    def training_step(self, batch, batch_idx):
        torch.rand(1 + next(_CALLS))  # FAULT
        return Base.training_step(self, batch, batch_idx)


class NumPyView(Throughput):
    """Changes a tensor behind torch's back, through NumPy: no operation did it."""

    def training_step(self, batch, batch_idx):
        weight = torch.ones(4)
        weight.numpy()[:] *= clock()
        return Base.training_step(self, batch, batch_idx) * weight.mean()  # FAULT


class PythonGenerator(Throughput):
    """Leaves another state of Python's generator: no operation of torch reaches it."""

    def training_step(self, batch, batch_idx):
        for _ in range(time.time_ns() % 100):
            random.random()
        return super().training_step(batch, batch_idx)


class AfterBackward(Throughput):
    """Adds a clock to a gradient, in a hook that Lightning calls after the backward pass."""

    def on_after_backward(self):
        self.first.bias.grad += clock()  # FAULT


class SecondGradient(Throughput):
    """Adds a clock to the gradient of one parameter, by a hook."""

    def __init__(self):
        super().__init__()
        self.second.bias.register_hook(lambda gradient: gradient + clock())  # FAULT


class HookedActivation(Throughput):
    """Adds a clock to the gradient of what a layer gave, by a hook."""

    def forward(self, inputs):
        hidden = self.norm(self.first(inputs)).relu()
        hidden.register_hook(lambda gradient: gradient + clock())  # FAULT
        return self.second(self.dropout(hidden))


class Memory(Throughput):
    """Adds up its losses in an attribute that is no buffer, which changes none: clean.

    And uses what it has added up, which is the same in both runs, but not in each repeat.
    """

    def __init__(self):
        super().__init__()
        self.total, self.seen = torch.zeros(()), []

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx) + 0.1 * self.total
        self.total = self.total + loss.detach()
        self.seen.append(float(loss))
        return loss * (1 + 0.01 * len(self.seen))


class MemoryAndRate(Memory):
    """The same, diverging at its third step: a number from the clock."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * clock() if batch_idx == 2 else loss  # FAULT


class Chooses(Throughput):
    """Has the same tensors in both of two runs and of two replays, and uses others of them."""

    def is_other(self):
        callbacks = {type(callback).__name__ for callback in self.trainer.callbacks}
        is_replay = bool({"StepRecorder", "Comparer"} & callbacks)
        return bool("StepRecorder" in callbacks if is_replay else self.odd)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        parts = [inputs * 1.5, inputs.sin(), inputs.cos(), inputs[:, :1], inputs[:, 1:2]]
        return (self(inputs + self.chosen(parts)) - targets).square().mean()


class OrderOfACat(Chooses):
    def chosen(self, parts):
        order = parts[2::-1] if self.is_other() else parts[:3]
        return torch.cat(order, 1)[:, 2:6]  # FAULT


class OrderOfColumns(Chooses):
    def chosen(self, parts):
        order = parts[:2:-1] if self.is_other() else parts[3:]
        return torch.stack([*order, *order], 1)[:, :, 0]  # FAULT


class LongerCat(Chooses):
    def chosen(self, parts):
        order = parts[1:3] if self.is_other() else parts[:3]
        return torch.cat(order, 1)[:, 2:6]  # FAULT


class OneOfTwo(Chooses):
    def chosen(self, parts):
        return parts[self.is_other()] * 0.5  # FAULT


class OneOfTwoColumns(Chooses):
    def chosen(self, parts):
        both = parts[3].exp() + parts[4].exp()
        return both + parts[3 + self.is_other()] * 0.5  # FAULT


class LongerCatByABranch(Chooses):
    def chosen(self, parts):
        order = parts[1:3]
        if self.is_other():
            order = [parts[0].exp(), *order]  # FAULT
        return torch.cat(order, 1)[:, :4]


class SecondEvaluation(Throughput):
    """Its optimizer evaluates the step twice; the clock comes in at the second time."""

    def on_train_batch_start(self, batch, batch_idx):
        self.evaluations = 0

    def training_step(self, batch, batch_idx):
        self.evaluations += 1
        loss = super().training_step(batch, batch_idx)
        return loss * (clock() if self.evaluations == 2 else 1.0)  # FAULT

    def configure_optimizers(self):
        return _Twice(self.parameters(), lr=0.01)


class _Twice(torch.optim.SGD):
    """Evaluates the step once more before its own, as SAM does."""

    def step(self, closure=None):
        with torch.enable_grad():
            closure()
        return super().step(closure)


def is_replayed(module):
    """Say whether a replay does the step, and not a training."""
    callbacks = {type(callback).__name__ for callback in module.trainer.callbacks}
    return bool({"StepRecorder", "Comparer"} & callbacks)


class LostByRounding(Throughput):
    """Adds a clock to the loss: in a replay so little of it that the loss is the same."""

    def training_step(self, batch, batch_idx):
        added = torch.full((), clock())  # FAULT
        loss = super().training_step(batch, batch_idx)
        return loss + added * (1e-20 if is_replayed(self) else 1e-3)


class EqualInThePair(Throughput):
    """Scales the gradients by a clock, and in a replay the loss as well."""

    def training_step(self, batch, batch_idx):
        factor = torch.full((), clock())  # FAULT
        loss = super().training_step(batch, batch_idx)
        if is_replayed(self):
            return loss * factor
        return loss.detach() + (loss - loss.detach()) * factor


class DivergesEarlierAgain(Throughput):
    """Has a fault in its third step, and one in the first that two runs do not show."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if any(type(callback).__name__ == "_Saver" for callback in self.trainer.callbacks):
            return loss * clock()
        return loss * clock() if batch_idx == 2 else loss  # FAULT


class FilledByNumPy(Throughput):
    """Has NumPy write what torch has but allocated."""

    def training_step(self, batch, batch_idx):
        weight = torch.empty(4)
        weight.numpy()[:] = clock()
        return Base.training_step(self, batch, batch_idx) * weight.mean()  # FAULT


class OfTheRecordAlone(Chooses):
    """Does an operation in the record alone, which changes nothing there."""

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        if not is_replayed(self):
            return loss * clock()
        return loss + 0 if self.is_other() else loss  # FAULT


class DeepCopied(Throughput):
    """Keeps a copy of a weight that it goes on to use: both lie in storages that torch wraps."""

    def training_step(self, batch, batch_idx):
        weight = torch.full((4, 4), 2.0) * clock()  # FAULT
        self.kept = [copy.deepcopy(weight)]
        return Base.training_step(self, (batch[0] @ weight, batch[1]), batch_idx)


class UsesACopy(Throughput):
    def training_step(self, batch, batch_idx):
        weight = copy.deepcopy(torch.full((4, 4), 2.0) * clock())  # FAULT
        return Base.training_step(self, (batch[0] @ weight, batch[1]), batch_idx)


class Loads(Throughput):
    """Uses what it reads from a file: no operation has made it."""

    def training_step(self, batch, batch_idx):
        file = io.BytesIO()
        torch.save(torch.full((4, 4), 2.0) * clock(), file)
        file.seek(0)
        weight = torch.load(file)
        return Base.training_step(self, (batch[0] @ weight, batch[1]), batch_idx)  # FAULT


class EndsEarlierAgain(DivergesEarlierAgain):
    """The training towards its third step ends before it."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if any(type(callback).__name__ == "_Saver" for callback in self.trainer.callbacks):
            self.trainer.should_stop = True


class OneBehindTheOther(Throughput):
    """Has two faults, of which the first hides the second."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * clock()  # FAULT
        return loss * torch.tensor(clock())  # FAULT


class DrawsOfTheRecordAlone(Chooses):
    """Draws once more in one process alone: the next dropout is another one."""

    def training_step(self, batch, batch_idx):
        if self.is_other():
            torch.randint(5, (1,))  # FAULT
        return dropped(Base.training_step(self, batch, batch_idx), batch)


class DrawsInOrder(Chooses):
    """Draws the same in another order."""

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        if self.is_other():
            return dropped(loss, batch) + noisy(loss, batch)
        return noisy(loss, batch) + dropped(loss, batch)


class Reseeds(Chooses):
    """Seeds torch's generator anew, by another number in each process."""

    def training_step(self, batch, batch_idx):
        torch.manual_seed(int(self.is_other()))
        return dropped(Base.training_step(self, batch, batch_idx), batch)  # FAULT


class ReadsARace(Throughput):
    """Python reads what a race has decided, and computes a number of it."""

    def training_step(self, batch, batch_idx):
        scale = 1 + race(torch.ones(4)).norm().item()  # RACE
        return Base.training_step(self, batch, batch_idx) * scale  # FAULT


class ReadsARaceByNumPy(Throughput):
    """NumPy reads it, which nobody sees."""

    def training_step(self, batch, batch_idx):
        scale = float(race(torch.ones(4)).numpy().sum())  # RACE
        return Base.training_step(self, batch, batch_idx) * scale  # FAULT


class BranchesOnARace(Throughput):
    """Python reads it, and decides by it how much is to be done."""

    def training_step(self, batch, batch_idx):
        parts = int(1e9 * race(torch.ones(4)).mean().item()) % 100  # RACE
        loss = Base.training_step(self, batch, batch_idx)
        for _ in range(parts):
            loss = loss + 1  # FAULT
        return loss


class CopiesARace(Throughput):
    """NumPy writes it into a tensor."""

    def training_step(self, batch, batch_idx):
        weight = torch.ones(4)
        weight.numpy()[:] = race(torch.ones(4)).numpy()  # RACE
        return Base.training_step(self, batch, batch_idx) * weight.mean()  # FAULT


class MovesByARace(Throughput):
    """NumPy writes it into a buffer that no operation reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(4))

    def training_step(self, batch, batch_idx):
        self.centre.numpy()[:] += race(torch.ones(4)).numpy()  # RACE
        return Base.training_step(self, batch, batch_idx)


class LogsARace(Throughput):
    """Python reads it behind the fault, which cannot come from it."""

    def training_step(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx) * clock()  # FAULT
        self.log("raced", race(torch.ones(4)).norm().item())
        return loss


def dropped(loss, batch):
    return loss * torch.nn.functional.dropout(batch[0], 0.5).mean().exp()


def noisy(loss, batch):
    return loss * torch.randn_like(batch[0]).mean().exp()

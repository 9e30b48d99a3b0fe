"""What a sanity check leaves that a first validation behind a step does not show."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from sanity import notes_of, weights_of
from small import Points, Small
from torch.utils.data import DataLoader
from torchmetrics import MaxMetric, Metric

from twinrun.training import first_made, step_on_copies


def train_alike(module, data=None, **others):
    data = data or Points()
    with_check, without = (weights_of(module, data, told, **others) for told in (2, 0))
    return with_check == without


class Counting(Small):
    """Counts validations, and goes by the count in each step."""

    def __init__(self):
        super().__init__()
        self.count, self.factor = 0, 1.0

    def training_step(self, batch, index):
        return self.factor * super().training_step(batch, index)

    def on_validation_epoch_end(self):
        self.count += 1


class ReadBefore(Counting):
    def on_train_start(self):
        if self.count:
            self.factor = 0.5
        self.count = 0


class ReadByAMethodBefore(Counting):
    def _update(self):
        self.factor = 0.5**self.count

    def on_train_start(self):
        self._update()
        self.count = 0


class ReadInAnEarlierHook(Counting):
    def on_train_start(self):
        self.factor = 0.5**self.count

    def on_train_epoch_start(self):
        self.count = 0


class ReadByTextBefore(Counting):
    def on_train_start(self):
        self.factor = 0.5 ** getattr(self, "count", 0)
        self.count = 0


class SetAnew(Counting):
    def on_train_start(self):
        self.count = 0


class ReadByCallback(pl.Callback):
    """Its hooks come before the module's."""

    def on_train_start(self, trainer, pl_module):
        pl_module.factor = 0.5**pl_module.count


@pytest.mark.parametrize(
    ("kind", "callbacks"),
    [
        (ReadBefore, []),
        (ReadByAMethodBefore, []),
        (ReadInAnEarlierHook, []),
        (ReadByTextBefore, []),
        (SetAnew, [ReadByCallback()]),
    ],
)
def test_what_is_read_before_it_is_set_anew_is_named(kind, callbacks):
    """Red before: other weights than a script's, in silence, since a later statement sets it."""
    module = kind()
    if not callbacks:
        assert not train_alike(module)
    (note,) = notes_of(module, Points(), callbacks=callbacks)
    assert note.startswith("validation changes count")
    assert "training may be otherwise" in note


class SetFirst(Counting):
    """Sets it anew ahead of all that reads it; its object bears another name."""

    def _begin(this):  # noqa: N805
        this.count = 0

    def on_train_start(this):  # noqa: N805
        super().on_train_start()
        this._begin()
        this.factor = 0.5**this.count


class SetInTheNextHook(Counting):
    def on_train_start(self):
        self.started = self.current_epoch
        self.factor = 1.0

    def on_train_epoch_start(self):
        self.count = 0

    def on_train_batch_start(self, batch, index):
        self.factor = 0.5**self.count


class Timer(pl.Callback):
    """Has a name of the module's for another thing."""

    count = 0

    def on_train_start(self, trainer, pl_module):
        self.started = self.count


@pytest.mark.parametrize("kind", [SetAnew, SetFirst, SetInTheNextHook])
def test_what_is_set_anew_ahead_of_all_that_reads_it_is_not_named(kind):
    assert train_alike(kind())
    assert notes_of(kind(), Points(), callbacks=[Timer()]) == []


class Best(Small):
    """Goes by a metric as training starts, where it `reads` one, and resets it then."""

    def __init__(self, reads):
        super().__init__()
        self.reads, self.best, self.factor = reads, MaxMetric(), 1.0

    def on_train_start(self):
        if self.reads == "its value":
            self.factor = 0.5 if self.best.compute() > 0 else 1.0
        elif self.reads:
            self.factor = 0.5 if self.best.update_called else 1.0
        self.best.reset()

    def training_step(self, batch, index):
        return self.factor * super().training_step(batch, index)

    def on_validation_epoch_end(self):
        self.best(1.0)


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("reads", ["its value", "whether it was updated", ""])
def test_a_metric_that_is_computed_before_it_is_reset_is_named(reads):
    module = Best(reads)
    assert train_alike(module) != bool(reads)
    notes = notes_of(module, Points())
    assert any("best.max_value" in note for note in notes) == bool(reads)
    assert vars(Metric)["update_called"].fget.__module__ == "torchmetrics.metric", "as it was"


FIRST = "the first call of all, by its batch or by drawing, sets "


class ActNorm(torch.nn.Module):
    """Begins with the statistics of the first batch that it is given."""

    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("is_made", torch.tensor(0, dtype=torch.uint8))

    def forward(self, inputs):
        if self.is_made.item() == 0:
            self.shift.data.copy_(-inputs.mean(0))
            self.is_made.fill_(1)
        return inputs + self.shift


class Layered(Small):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, inputs):
        return super().forward(self.layer(inputs))


class Centred(Small):
    def __init__(self):
        super().__init__()
        self.mean = None

    def forward(self, inputs):
        if self.mean is None:
            self.mean = inputs.mean(0)
        return super().forward(inputs - self.mean)


class Projecting(torch.nn.Module):
    """Draws random features at its first call; of its own generator, where that is said."""

    def __init__(self, seed=None):
        super().__init__()
        self.seed = seed

    def forward(self, inputs):
        if not hasattr(self, "features"):
            of_its_own = torch.Generator().manual_seed(self.seed or 0)
            generator = None if self.seed is None else of_its_own
            features = torch.randn(4, 4, generator=generator)
            self.register_buffer("features", features)
        return inputs @ self.features


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (lambda: Layered(ActNorm()), FIRST + "layer.shift, "),
        (Centred, FIRST + "mean:"),
        (lambda: Layered(Projecting()), FIRST + "layer.features, "),
    ],
    ids=["ActNorm", "mean of the first batch", "random features"],
)
def test_what_the_first_call_makes_is_named_and_trains_otherwise(module, named):
    """Red before: other weights than a script's, whose check makes it, in silence."""
    assert not train_alike(module())
    (note,) = notes_of(module(), Points())
    assert note.startswith(named)
    assert "training may be otherwise" in note


class Averaged(torch.nn.Module):
    """Moves its mean in training alone, and counts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.seen = None

    def forward(self, inputs):
        if self.training:
            self.steps += 1
            self.seen = inputs.detach()
            self.mean.lerp_(inputs.mean(0), 1 / self.steps.item())
        return inputs - self.mean


class Masked(torch.nn.Module):
    """Keeps what its first call makes, which any call makes alike."""

    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, inputs):
        if self.mask is None:
            self.mask = torch.arange(inputs.shape[1]) < 3
        return inputs * self.mask


class Shorter(Points):
    """Validates smaller batches than it trains."""

    def val_dataloader(self):
        return DataLoader(super().val_dataloader().dataset, batch_size=2)


class InTraining(torch.nn.Module):
    """Begins with the first batch of training."""

    def __init__(self):
        super().__init__()
        self.mean = None

    def forward(self, inputs):
        if self.training and self.mean is None:
            self.mean = inputs.mean(0)
        return inputs if self.mean is None else inputs - self.mean


@pytest.mark.parametrize("layer", [Averaged, Masked, InTraining, lambda: Projecting(seed=1)])
def test_what_any_call_makes_alike_or_training_alone_is_not_named(layer):
    module = Layered(layer())
    assert notes_of(module, Shorter()) == []
    assert train_alike(module)


class Scripted(torch.jit.ScriptModule):
    """Is compiled by torch.jit, method by method."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    @torch.jit.script_method
    def forward(self, inputs):
        return inputs * self.weight


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_layer_that_holds_all_in_its_compiled_form_is_rehearsed():
    """Red before: TypeError, from looking at what it holds."""
    (note,) = notes_of(Layered(Scripted()), Points())
    assert "TorchScript" in note


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_a_weight_that_each_call_computes_is_no_change(name):
    """Red before: validation changes layer.weight, and training may be otherwise."""

    def layered():
        layer = getattr(torch.nn.utils, name)(torch.nn.Linear(4, 4))
        layer.weight = layer.weight.detach()  # else no copy can be made of it
        return Layered(layer)

    assert notes_of(layered(), Points()) == []
    assert train_alike(layered())


class Uncopied(Centred):
    """Cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError


class AskingItsTrainer(Centred):
    def validation_step(self, batch, index):
        self.trainer.datamodule.asked = 1
        return super().validation_step(batch, index)


@pytest.mark.parametrize("kind", [Uncopied, AskingItsTrainer])
def test_of_what_cannot_be_tried_on_a_copy_nothing_is_said(kind):
    assert notes_of(kind(), Points()) == []


@pytest.mark.parametrize(("largest", "is_tried"), [(15_000, False), (20_000, True)])
def test_of_a_large_module_no_copy_is_made(monkeypatch, largest, is_tried):
    for each in (first_made, step_on_copies):
        monkeypatch.setattr(each, "LARGEST", largest)
    module = Centred()
    module.kept = {"table": np.zeros(2000)}
    assert bool(notes_of(module, Points())) == is_tried


class LeavingGradients(Small):
    """Validation does a backward pass; `clears` says when a step clears what it left."""

    def __init__(self, clears):
        super().__init__()
        self.automatic_optimization, self.clears = False, clears

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        if self.clears == "before":
            optimizer.zero_grad()
        elif self.clears == "of the module":
            self.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        optimizer.step()
        if self.clears == "behind":
            optimizer.zero_grad()

    def validation_step(self, batch, index):
        with torch.inference_mode(mode=False), torch.enable_grad():
            self(batch[0].clone()).sum().backward()


class Automatic(Small):
    def validation_step(self, batch, index):
        with torch.inference_mode(mode=False), torch.enable_grad():
            self(batch[0].clone()).sum().backward()


@pytest.mark.parametrize("clears", ["behind", "before", "of the module"])
def test_gradients_that_validation_leaves_are_named_where_a_step_begins_with_them(clears):
    """Red before: other weights than a script's, in silence."""
    module = LeavingGradients(clears)
    notes = notes_of(module, Points())
    if clears == "behind":
        assert not train_alike(module)
        assert notes[0].startswith("validation changes the gradient of hidden.weight, ")
    else:
        assert train_alike(module)
        assert notes == []
    assert torch.nn.Module.zero_grad.__module__ == "torch.nn.modules.module", "as it was"


class ByItsOwn(Automatic):
    """Clears gradients where Lightning asks for it, inside of the optimizer's step."""

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("kind", [Automatic, ByItsOwn])
def test_gradients_that_are_cleared_before_each_backward_pass_are_not_named(kind):
    """Red before, by an own `optimizer_zero_grad`: validation changes the gradient."""
    assert train_alike(kind())
    assert notes_of(kind(), Points()) == []

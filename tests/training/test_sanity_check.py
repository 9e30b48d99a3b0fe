"""What a script's sanity check does otherwise than a run without one is said in the rehearsal."""

import random
import time

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from sanity import notes_of, weights_of
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MaxMetric, MeanMetric, MetricCollection, MetricTracker, SumMetric
from torchmetrics.classification import BinaryAccuracy, BinaryRecall

DRAWS = {"torch": lambda: torch.rand(1), "numpy": np.random.rand, "python": random.random}


class Drawing(Points):
    """Draws from a global generator where a loader of validation is made."""

    def __init__(self, name):
        super().__init__()
        self.draw = DRAWS[name]

    def val_dataloader(self):
        self.draw()
        return self.train_dataloader()


class Validated(Small):
    """Validates; `kind` says what that leaves or draws."""

    def __init__(self, kind="nothing"):
        super().__init__()
        self.kind, self.count, self.outputs = kind, 0, []
        self.metric = SumMetric()
        self.norm = torch.nn.BatchNorm1d(4)
        self.generator = torch.Generator().manual_seed(1)

    def on_validation_epoch_start(self):
        self.norm.train(self.kind == "norm")
        if self.kind == "hook":
            self.count += 1

    def validation_step(self, batch, index, dataloader_idx=0):
        self.outputs.append(self.norm(batch[0]).sum())
        self.metric.update(1.0)
        self.log("seen", self.metric)
        if self.kind in DRAWS:
            DRAWS[self.kind]()
        if self.kind == "count":
            self.count += 1
        if self.kind == "generator":
            torch.rand(1, generator=self.generator)
        if self.kind == "last":
            self.last_seen = batch[0].sum()

    def training_step(self, batch, index):
        noise = torch.rand((), generator=self.generator) + torch.rand(())
        # Python's and NumPy's draws count, too.
        noise = noise + random.random() + np.random.rand()
        return (self.count + noise) * super().training_step((self.norm(batch[0]), batch[1]), index)

    def on_validation_epoch_end(self):
        self.outputs.clear()


@pytest.mark.parametrize("name", DRAWS)
def test_a_loader_of_validation_that_draws_is_named_and_trains_otherwise(name):
    """Red before: nothing was said, and no later shuffle was that of the user's script."""
    (note,) = notes_of(Validated(), Drawing(name))
    assert f"val_dataloader draws from the global generator of {name}" in note
    assert "this is otherwise; " in note
    assert note.endswith("as such a script")
    assert not notes_of(Validated(), Drawing(name), told=2)
    module = Validated()
    assert weights_of(module, Drawing(name), 0) != weights_of(module, Drawing(name), 2)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("hook", "count"),
        ("count", "count"),
        ("generator", "generator"),
        ("norm", "norm.running_mean"),
    ],
)
def test_what_validation_leaves_is_named_and_trains_otherwise(kind, named):
    (note,) = notes_of(Validated(kind), Points())
    assert note.startswith("validation changes ")
    assert "training may be otherwise; " in note, "what reads it may read the same (a cache)"
    assert named in note
    module = Validated(kind)
    assert weights_of(module, Points(), 0) != weights_of(module, Points(), 2)


class ScriptedPart(Validated):
    """Has a part that TorchScript compiles, as late as a hook of the module may."""

    def setup(self, stage):
        part = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.part = torch.jit.script(part)

    def validation_step(self, batch, index):
        self.part(batch[0])


def test_a_part_that_torchscript_compiles_in_its_first_calls_is_named():
    """Red before: other bits than a script's, whose check calls it twice."""
    (note,) = notes_of(ScriptedPart(), Points())
    assert note.startswith("validation calls part, which TorchScript ")


@pytest.mark.parametrize("kind", ["nothing", "last", *DRAWS])
def test_what_trains_the_same_is_not_named(kind):
    """Steps of validation may draw: the check puts the global generators back.

    Red before of what it keeps and nothing reads, as for a script that prints it after the fit.
    """
    assert notes_of(Validated(kind), Points()) == []
    module = Validated(kind)
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)


class Checked(pl.Callback):
    def __init__(self):
        self.validated = 0

    def on_validation_end(self, trainer, pl_module):
        self.validated += 1

    def on_sanity_check_end(self, trainer, pl_module):
        self.validated = 0


def test_a_callback_that_keeps_count_or_waits_for_the_check_is_named():
    notes = notes_of(Validated(), Points(), callbacks=[Checked()])
    assert "on_sanity_check_end of Checked is never called" in notes[0]
    assert "validation changes Checked.validated" in notes[1]


class Reading(Validated):
    """Reads in a training step what validation keeps, by its name."""

    def training_step(self, batch, index):
        seen = self.last_seen if hasattr(self, "last_seen") else 0
        return super().training_step(batch, index) * (1 + seen)


class ReadingByText(Validated):
    """Reads it by a name that is put together."""

    def training_step(self, batch, index):
        return super().training_step(batch, index) * (1 + getattr(self, f"last_{'seen'}", 0))


class ReadByCallback(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        vars(trainer)["seen"] = trainer.lightning_module.last_seen


@pytest.mark.parametrize(
    ("kind", "callbacks"), [(Reading, ()), (ReadingByText, ()), (Validated, [ReadByCallback()])]
)
def test_what_validation_keeps_is_named_where_it_may_be_read(kind, callbacks):
    module = kind("last")
    module.last_seen = 0
    (note,) = notes_of(module, Points(), callbacks=callbacks)
    assert note.startswith("validation changes last_seen:")


class Own(Points):
    """Draws the samples of validation from a generator of its own."""

    def val_dataloader(self):
        return self._loader(shuffle=True, generator=torch.Generator().manual_seed(3))


def test_a_generator_of_a_validation_loader_is_named():
    (note,) = notes_of(Validated(), Own())
    assert "validation changes val_dataloader" in note


class Scheduled(Validated):
    """Has two optimizers of one class with a schedule each; `moved` says what validation moves."""

    def __init__(self, moved):
        super().__init__()
        self.moved, self.automatic_optimization = moved, False

    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
            optimizer.zero_grad()

    def on_train_epoch_end(self):
        if self.moved == "nothing":
            self.lr_schedulers()[0].step()

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        if self.moved == "schedule":
            self.lr_schedulers()[0].step()
        elif self.moved == "kept schedule":
            self.kept.step()

    def on_validation_end(self):
        if self.moved == "rate":
            self.trainer.optimizers[0].param_groups[0]["lr"] *= 0.5

    def configure_optimizers(self):
        parts = [torch.optim.SGD(part.parameters(), 0.1) for part in (self.hidden, self.output)]
        # The first of its steps leaves the rate as it is.
        schedules = [torch.optim.lr_scheduler.StepLR(part, 2) for part in parts]
        self.kept = torch.optim.lr_scheduler.StepLR(parts[0], 2)
        return parts, schedules


@pytest.mark.parametrize(
    ("moved", "named"),
    [
        ("schedule", "the schedule StepLR:"),
        ("kept schedule", "kept"),
        ("rate", "the setting lr of SGD:"),
    ],
)
def test_a_schedule_or_a_rate_that_validation_moves_is_named(moved, named):
    """Red before: trained at another rate than the script's, in silence."""
    (note,) = notes_of(Scheduled(moved), Points())
    assert note.startswith(f"validation changes {named}")


class SteppedByLightning(Validated):
    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedules = torch.optim.lr_scheduler
        if self.schedule == "epoch":
            found = {"scheduler": schedules.StepLR(optimizer, 1)}
        elif self.schedule == "step":
            of_step = schedules.OneCycleLR(optimizer, 0.1, total_steps=100)
            found = {"scheduler": of_step, "interval": "step"}
        else:
            plateau = schedules.ReduceLROnPlateau(optimizer, patience=0)
            found = {"scheduler": plateau, "monitor": "seen"}
        return {"optimizer": optimizer, "lr_scheduler": found}


@pytest.mark.parametrize(
    "module",
    [*(SteppedByLightning(kind) for kind in ("epoch", "step", "plateau")), Scheduled("nothing")],
    ids=["epoch", "step", "plateau", "by the module as an epoch ends"],
)
def test_a_schedule_that_training_steps_is_not_named(module):
    assert notes_of(module, Points()) == []
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)


class Unfreezing(Validated):
    """Trains its first layer from the end of the first validation on."""

    def __init__(self):
        super().__init__()
        self.hidden.requires_grad_(requires_grad=False)

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.hidden.requires_grad_()


def test_what_validation_unfreezes_is_named_and_trains_otherwise():
    """Red before: another network was trained than a script's, in silence."""
    (note,) = notes_of(Unfreezing(), Points())
    assert note.startswith("validation changes requires_grad of hidden.")
    module = Unfreezing()
    assert weights_of(module, Points(), 0) != weights_of(module, Points(), 2)


class Best(Validated):
    """Keeps the best value of validation, as the template of Lightning and Hydra does."""

    def __init__(self, resets):
        super().__init__()
        self.resets, self.seen = resets, MeanMetric()
        self.best, self.both = MaxMetric(), MetricCollection({"max": MaxMetric()})

    def on_train_start(self):
        if self.resets:
            for metric in (self.best, self.both):
                metric.reset()

    def training_step(self, batch, index):
        self.seen(batch[0].sum())
        self.log("train_seen", self.seen, on_step=False, on_epoch=True)
        return super().training_step(batch, index)

    def validation_step(self, batch, index):
        self.seen(batch[0].sum())
        self.log("val_seen", self.seen, on_epoch=True)

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.best(1.0)
        self.both(1.0)
        self.log("best", self.best.compute())


def test_metrics_that_are_reset_before_the_first_step_or_behind_a_validation_are_not_named():
    """Red before: named, as if what the check leaves in them were there in the first step."""
    assert notes_of(Best(resets=True), Points()) == []
    (note,) = notes_of(Best(resets=False), Points())
    assert "best.max_value" in note
    assert "seen" not in note
    assert MaxMetric.reset is SumMetric.reset, "as it was"


class Counted(SumMetric):
    """Has a number that `reset` leaves as it is."""

    def __init__(self):
        super().__init__()
        self.updates = 0

    def update(self, value):
        self.updates += 1
        super().update(value)


class OwnMetric(Validated):
    def __init__(self):
        super().__init__()
        self.metric = Counted()

    def on_train_start(self):
        self.metric.reset()


def test_what_a_metric_keeps_beside_its_states_is_named():
    (note,) = notes_of(OwnMetric(), Points())
    assert note.startswith("validation changes metric.updates")


class Setting(Validated):
    """Sets in a hook what validation counts in; `kind` says how."""

    def __init__(self, kind):
        super().__init__("count")
        self.how = kind

    def on_train_start(self):
        if self.how == "after a return":
            return
        self.count = 0


class SettingAlways(Validated):
    def on_train_start(self):
        self.count = 0


class SettingFromItself(Validated):
    def on_train_start(self):
        self.count = self.count + 1


class SettingCallback(pl.Callback):
    def __init__(self):
        self.validated = 0

    def on_train_start(self, trainer, pl_module):
        self.validated = 0

    def on_validation_end(self, trainer, pl_module):
        self.validated += 1


def test_what_is_set_anew_as_training_starts_is_not_named():
    """Red before: named, as if what the check leaves in it were there in the first step."""
    assert notes_of(SettingAlways("count"), Points(), callbacks=[SettingCallback()]) == []
    module = SettingAlways("count")
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)
    for kept in (Setting("after a return"), Setting("always"), SettingFromItself("count")):
        (note,) = notes_of(kept, Points())
        assert note.startswith("validation changes count:"), "it need not come to it"


class ReadByItself(Validated):
    """Keeps what only later validations ask for."""

    def __init__(self):
        super().__init__()
        self.most = 0.0

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.most = max(self.most, 1.0)
        self.log("most", self.most)


def test_of_what_validation_alone_reads_it_is_not_said_that_training_is_otherwise():
    """Red before: "training may be otherwise", of what a log alone shows."""
    (note,) = notes_of(ReadByItself(), Points())
    assert note.startswith(
        "validation changes most, which no other code names: with a sanity check before the first "
        "step what later validations log or do may be otherwise; "
    )
    module = ReadByItself()
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)


class Persistent(Points):
    """Has a validation loader that keeps its workers."""

    def val_dataloader(self, **options):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, num_workers=1, persistent_workers=True, **options)


class PersistentOfTwo(Persistent):
    def val_dataloader(self):
        return [self.train_dataloader(), super().val_dataloader()]


class PersistentWithItsOwn(Persistent):
    def val_dataloader(self):
        return super().val_dataloader(generator=torch.Generator().manual_seed(1))


def test_a_validation_loader_that_keeps_its_workers_is_named_and_trains_otherwise():
    """Red before: nothing was said, and all later shuffles were others than the script's."""
    for data in (Persistent(), PersistentOfTwo()):
        (note,) = notes_of(Validated(), data)
        assert note.startswith("a loader of val_dataloader with persistent_workers and no ")
    assert notes_of(Validated(), PersistentWithItsOwn()) == []
    module = Validated()
    found = [weights_of(module, Persistent(), told, epochs=2) for told in (0, 2)]
    assert found[0] != found[1]
    own = [weights_of(module, PersistentWithItsOwn(), told, epochs=2) for told in (0, 2)]
    assert own[0] == own[1]


class Collected(Validated):
    """Has metrics that share their states, as torchmetrics finds in the first update."""

    def __init__(self, is_logged):
        super().__init__()
        self.is_logged = is_logged
        kinds = {"accuracy": BinaryAccuracy(), "recall": BinaryRecall()}
        self.collection = MetricCollection(kinds)

    def validation_step(self, batch, index):
        self.collection.update(self.norm(batch[0]).sum(1), batch[1].flatten() > 0)
        if self.is_logged:
            self.log_dict(self.collection)

    def on_validation_epoch_end(self):
        if not self.is_logged:
            self.log_dict(self.collection.compute())
            self.collection.reset()


@pytest.mark.parametrize("is_logged", [True, False])
def test_how_a_collection_of_metrics_shares_their_states_is_not_named(is_logged):
    """Red before: "validation changes collection._groups_checked: training may be otherwise"."""
    module = Collected(is_logged)
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)
    assert notes_of(module, Points()) == []


class OwnCollection(MetricCollection):
    """Keeps a number of its own."""

    def update(self, *values):
        super().update(*values)
        self.updates = 1 + getattr(self, "updates", 0)


def test_what_a_collection_of_a_users_own_keeps_is_named():
    module = Collected(is_logged=True)
    module.collection = OwnCollection({"accuracy": BinaryAccuracy(), "recall": BinaryRecall()})
    (note,) = notes_of(module, Points())
    assert note.startswith("validation changes collection.updates: ")


class Lazy(Validated):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.LazyLinear(8)


def test_a_layer_that_its_first_call_makes_is_named():
    """Red before: other weights than a script's, whose check draws them, in silence."""
    notes = notes_of(Lazy(), Points())
    assert notes[0].startswith("the first call of hidden makes its weights")


class Timed(pl.Callback):
    """Times validations, keeps a batch to show, and trains on without what it keeps."""

    def on_validation_start(self, trainer, pl_module):
        self.started = time.time()

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, *_):
        self.shown = batch

    def on_validation_end(self, trainer, pl_module):
        self.took = time.time() - self.started


class Swapped(pl.Callback):
    """Validates other weights; `kept` says when the training's are put back."""

    backup = None

    def _swap(self, module):
        self.backup = {name: value.clone() for name, value in module.state_dict().items()}
        module.hidden.weight.data.zero_()

    def on_validation_start(self, trainer, pl_module):
        self._swap(pl_module)

    def on_validation_end(self, trainer, pl_module):
        pl_module.load_state_dict(self.backup)
        self.backup = None


class SwappedInPart(Swapped):
    """Reads what it keeps as a validation starts."""

    def on_validation_start(self, trainer, pl_module):
        if self.backup is None:
            self._swap(pl_module)

    def on_validation_end(self, trainer, pl_module):
        pl_module.load_state_dict(self.backup)


def test_what_no_training_reads_of_a_callback_is_not_named():
    """Red before: "validation changes Timed.took: training may be otherwise"."""
    assert notes_of(Validated(), Points(), callbacks=[Timed(), Swapped()]) == []
    notes = notes_of(Validated(), Points(), callbacks=[SwappedInPart()])
    assert any("SwappedInPart.backup" in note for note in notes)


class TimedForTraining(Timed):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        vars(trainer)["seen"] = getattr(self, "took", 0)


class ReadInTraining(Timed):
    took = 0.0

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        vars(trainer)["seen"] = self.took


@pytest.mark.parametrize("kind", [TimedForTraining, ReadInTraining])
def test_what_a_training_reads_of_a_callback_is_named(kind):
    (note,) = notes_of(Validated(), Points(), callbacks=[kind()])
    assert f"{kind.__name__}.took" in note
    assert "training may be otherwise" in note


class Guarded(Validated):
    """Leaves all as it is in a sanity check."""

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        if self.trainer.sanity_checking:
            return
        self.count += 1


def test_code_that_asks_for_the_sanity_check_is_named_beside_what_it_may_leave():
    """Red before: "training may be otherwise", and not a word of the guard."""
    module = Guarded()
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)
    (note,) = notes_of(module, Points())
    assert "training may be otherwise, unless on_validation_epoch_end by asking for " in note


class Average(torch.nn.Module):
    """Keeps an average of weights, and the weights while it is in their place."""

    def __init__(self, of):
        super().__init__()
        self.kept = []
        self.average = torch.nn.ParameterList([p.detach().clone() for p in of.parameters()])

    def store(self, of):
        self.kept = [p.detach().clone() for p in of.parameters()]

    def restore(self, of):
        for parameter, kept in zip(of.parameters(), self.kept, strict=True):
            parameter.data.copy_(kept)


class Averaging(Validated):
    """Validates the average; `reads` says whether its training reads what was kept."""

    def __init__(self, *, reads):
        super().__init__()
        self.reads, self.average = reads, Average(self.hidden).requires_grad_(requires_grad=False)

    def _swap(self):
        self.average.store(self.hidden)

    def validation_step(self, batch, index):
        self._swap()
        super().validation_step(batch, index)
        self.average.restore(self.hidden)


class AveragingInTraining(Averaging):
    def training_step(self, batch, index):
        if self.reads and self.average.kept:
            self.average.restore(self.hidden)
        return super().training_step(batch, index)


def test_what_a_layer_of_a_users_own_keeps_for_validation_alone_is_said_of_it():
    """Red before: "training may be otherwise", of what validation alone puts back."""
    (note,) = notes_of(Averaging(reads=False), Points())
    assert note.startswith("validation changes average.kept, average.kept[0], average.kept[1], ")
    assert "what later validations log or do may be otherwise" in note
    (note,) = notes_of(AveragingInTraining(reads=True), Points())
    assert "training may be otherwise" in note


class Keeping(Validated):
    """Keeps the weights as a validation starts, and puts them back as it ends."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def on_validation_epoch_start(self):
        super().on_validation_epoch_start()
        self.kept = [p.detach().clone() for p in self.hidden.parameters()]

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.hidden.weight.data.copy_(self.kept[0])


class KeepingOlder(Keeping):
    """Begins with the weights of an earlier validation."""

    def on_validation_epoch_start(self):
        if self.kept:
            self.hidden.weight.data.copy_(self.kept[0])
        self.kept = [p.detach().clone() for p in self.hidden.parameters()]


def test_what_each_validation_sets_before_it_reads_it_is_not_named():
    """Red before: named, since its value goes by the module."""
    assert notes_of(Keeping(), Points()) == []
    (note,) = notes_of(KeepingOlder(), Points())
    assert note.startswith("validation changes kept, kept[0], kept[1], which no other code names")


class Tracking(Validated):
    def __init__(self):
        super().__init__()
        self.tracker = MetricTracker(MeanMetric(), maximize=True)

    def on_validation_epoch_start(self):
        super().on_validation_epoch_start()
        self.tracker.increment()

    def validation_step(self, batch, index):
        self.tracker.update(batch[0].sum())

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        self.log("tracked", self.tracker.compute())


def test_what_a_tracker_of_metrics_keeps_is_said_of_validations_alone():
    """Red before: "training may be otherwise"."""
    (note,) = notes_of(Tracking(), Points())
    assert "what later validations log or do may be otherwise" in note
    module = Tracking()
    assert weights_of(module, Points(), 0) == weights_of(module, Points(), 2)

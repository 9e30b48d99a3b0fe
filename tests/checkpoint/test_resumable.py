"""A training that was killed and resumed ends in the same bits; what cannot be resumed is not."""

import contextlib
import itertools
import os
import pickle
import random
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import FILES, VARIANT, WORKLOAD, arguments
from small import Points, Restless
from streams import (
    ContinuingStreams,
    DrawingStreams,
    EndingStreams,
    HiddenStreams,
    ListedStreams,
    SilentStreams,
    StatefulLoaders,
)
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    Subset,
    TensorDataset,
)
from torchmetrics import SumMetric
from tracing import rows_of

from twinrun import artifacts
from twinrun.checkpoint import left_out, restored, resumable
from twinrun.checkpoint.resumable import Resumable
from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.trace.step_tracer import Tracer

EPOCHS, STEPS = 4, 5


class Killed(BaseException):
    pass


class Kill(pl.Callback):
    """Ends the training after a step, as far as one can inside the test's own process."""

    def __init__(self, step):
        self._step = step

    def on_train_batch_end(self, trainer, *_):
        if trainer.fit_loop.total_batch_idx + 1 == self._step:
            raise Killed


class OwnGenerator(Points):
    """Its order comes from a generator that is nobody else's."""

    def train_dataloader(self):
        return self._loader(shuffle=True, generator=torch.Generator().manual_seed(3))


class OwnSampler(Points):
    def train_dataloader(self):
        generator = torch.Generator().manual_seed(3)
        return self._loader(sampler=RandomSampler(self.inputs, generator=generator))


def fit(
    folder,
    data=Points,
    *,
    kill=0,
    minutes=0,
    look=fingerprint_tree,
    module=None,
    callbacks=(),
    **options,
):
    """Train in this process, from the last checkpoint where there is one."""
    pl.seed_everything(1, verbose=False)
    said = []
    resumable, tracer = (
        Resumable(folder, minutes=minutes, say=said.append, fingerprint=look),
        Tracer(),
    )
    module = (module or Restless)()
    options = {"max_epochs": EPOCHS, **options}
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[resumable, tracer, Kill(kill), *callbacks],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"num_sanity_val_steps": 0, **options},
    )
    last = resumable.last()
    with contextlib.suppress(Killed):
        trainer.fit(module, data(size=70), ckpt_path=last, weights_only=True)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    hashes = {name: value.detach().numpy().tobytes() for name, value in state.items()}
    return rows_of(tracer), hashes, tracer.resumed_at, said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted training."""
    return fit(tmp_path_factory.mktemp("whole"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kill", "resumed_at"), [(5, []), (6, [5]), (15, [10])])
def test_a_resumed_training_ends_in_the_same_bits(whole, tmp_path, kill, resumed_at):
    rows, hashes, _, _ = whole
    fit(tmp_path, kill=kill)
    assert fit(tmp_path) == (rows, hashes, resumed_at, [])


def test_a_training_killed_twice_ends_in_the_same_bits(whole, tmp_path):
    rows, hashes, _, _ = whole
    for kill in (7, 19):
        fit(tmp_path, kill=kill)
    assert fit(tmp_path) == (rows, hashes, [5, 15], [])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("data", [ContinuingStreams, StatefulLoaders, DrawingStreams])
def test_a_stream_goes_on_where_it_was(tmp_path, data):
    rows, hashes, _, _ = fit(tmp_path / "whole", data)
    fit(tmp_path / "killed", data, kill=12)
    assert fit(tmp_path / "killed", data) == (rows, hashes, [10], [])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (SilentStreams, "Silent.position {}, and there is no state_dict that has it"),
        (ListedStreams, "Listed.place[0] {}, and no checkpoint holds it"),
    ],
)
def test_a_stream_whose_position_nobody_saves_is_not_resumed(tmp_path, data, why):
    *_, said = fit(tmp_path, data)
    changes = why.format("changes while the training runs")
    assert said == [f"no checkpoints are written: {changes}"]


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (HiddenStreams, "the first batch after the stop is another one"),
        (EndingStreams, "no batch came after the stop"),
    ],
)
def test_a_stream_that_does_not_go_on_is_noticed(tmp_path, data, how):
    """Where nothing shows that it has a position, the first batch after a stop does."""
    fit(tmp_path, data, kill=12)
    with pytest.raises(TwinrunError, match=f"data: the data does not go on where it was: {how}"):
        fit(tmp_path, data)
    assert Resumable(tmp_path).last() is None
    rows, *_ = fit(tmp_path, data)
    assert rows[0]["step"] == 1


class BeginsAnew(Restless):
    """Writes weights, a rate and a callback's count where a training begins; reads what it logs."""

    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def configure_callbacks(self):
        return [Counts()]

    def on_fit_start(self):
        with torch.no_grad():
            for parameter in list(self.parameters())[:1]:
                parameter.fill_(0.01)

    def on_train_start(self):
        self.trainer.optimizers[0].param_groups[0]["lr"] = 0.07
        for buffer in self.buffers():
            buffer.zero_()

    def training_step(self, batch, batch_idx):
        seen = self.trainer.logged_metrics.get("seen", torch.tensor(1.0))
        count = self.trainer.callbacks[-1].count if self.trainer.callbacks else 0
        found = super().training_step(batch, batch_idx)
        self.log("seen", found.detach(), on_step=False, on_epoch=True, prog_bar=True)
        bar = self.trainer.progress_bar_metrics.get("seen", 1.0)
        return found * (1 + 0.1 * float(seen) + 0.1 * float(bar) + 0.01 * count)


class Counts(pl.Callback):
    """Counts from where the training begins."""

    count = 0

    def on_train_start(self, *_):
        self.count = 0

    def on_train_batch_end(self, *_):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]


def test_what_hooks_write_where_a_training_begins_is_put_back(tmp_path):
    """Red before: a resumed training went on with what its hooks had written anew."""
    rows, hashes, _, _ = fit(tmp_path / "whole", module=BeginsAnew)
    fit(tmp_path / "killed", kill=12, module=BeginsAnew)
    assert fit(tmp_path / "killed", module=BeginsAnew) == (rows, hashes, [10], [])


class MakesOtherGroups(Restless):
    """Has an optimizer with more groups in its second process, whatever it reads there."""

    made = 0

    def configure_optimizers(self):
        type(self).made += 1
        parameters = list(self.parameters())
        groups = [parameters] if self.made != 2 else [parameters[1:], parameters[:1]]
        return torch.optim.SGD([{"params": each} for each in groups], lr=0.05)


def test_a_checkpoint_that_cannot_be_loaded_costs_one_attempt(tmp_path, monkeypatch):
    """Red before: each attempt found it again, and failed."""
    monkeypatch.setattr(MakesOtherGroups, "made", 0)
    fit(tmp_path, kill=12, module=MakesOtherGroups)
    with pytest.raises(ValueError, match="parameter group"):
        fit(tmp_path, module=MakesOtherGroups)
    resumable = Resumable(tmp_path)
    assert resumable.last() is None
    assert "could not be loaded (ValueError" in resumable.refused
    rows, _, resumed_at, _ = fit(tmp_path, module=MakesOtherGroups)
    assert (rows[0]["step"], resumed_at) == (1, [])


class FailsOnce(Restless):
    """Fails at its second start, as where a service does not answer."""

    starts = 0

    def on_train_start(self):
        type(self).starts += 1
        if self.starts == 2:
            raise ValueError("no answer")


def test_a_failure_of_another_kind_leaves_the_checkpoint(tmp_path, monkeypatch):
    """Red before: a hook that failed once cost all that was trained."""
    monkeypatch.setattr(FailsOnce, "starts", 0)
    fit(tmp_path, kill=12, module=FailsOnce)
    with pytest.raises(ValueError, match="no answer"):
        fit(tmp_path, module=FailsOnce)
    assert fit(tmp_path, module=FailsOnce)[2] == [10]


class StopsAtFirst(Restless):
    """Is stopped early at its first validation, but for the epochs that it must train."""

    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_loss", divergence_threshold=-1.0)]

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        for callback in self.trainer.early_stopping_callbacks[: self.current_epoch]:
            callback.divergence_threshold = None


EXHAUSTIVE = pytest.mark.exhaustive
# What a checkpoint is asked for by the arguments of the Trainer that say what is trained.
TOLD = [
    {"max_steps": 17, "max_epochs": -1},
    {"check_val_every_n_epoch": 2},
    {"val_check_interval": 7, "check_val_every_n_epoch": None},
    {"reload_dataloaders_every_n_epochs": 1},
    {"reload_dataloaders_every_n_epochs": 2},
    {"accumulate_grad_batches": 2, "max_steps": 11},
    {"schedule": {1: 2, 2: 3}},
    pytest.param({"val_check_interval": 2}, marks=EXHAUSTIVE),
    pytest.param({"overfit_batches": 4}, marks=EXHAUSTIVE),
    pytest.param({"num_sanity_val_steps": 2}, marks=EXHAUSTIVE),
    pytest.param({"limit_train_batches": 0.9, "limit_val_batches": 1}, marks=EXHAUSTIVE),
    pytest.param({"inference_mode": False, "val_check_interval": 0.5}, marks=EXHAUSTIVE),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("told", TOLD, ids=str)
def test_it_does_so_whatever_the_trainer_is_told(tmp_path, told):
    told, callbacks = dict(told), []
    if schedule := told.pop("schedule", None):
        callbacks = [pl.callbacks.GradientAccumulationScheduler(schedule)]
    whole = fit(tmp_path / "whole", callbacks=callbacks, **told)
    fit(tmp_path / "killed", callbacks=callbacks, kill=12, **told)
    resumed = fit(tmp_path / "killed", callbacks=callbacks, **told)
    assert resumed[:2] == whole[:2]
    # With overfit_batches and limit_train_batches an epoch has four steps.
    assert resumed[2] == [8 if len(whole[0]) == 4 * EPOCHS else 10]


def test_a_stop_that_must_wait_is_kept(tmp_path):
    """The epochs that `min_epochs` asks for are trained, and no more, though it was resumed."""
    told = {"min_epochs": 3, "max_epochs": 6, "module": StopsAtFirst}
    whole = fit(tmp_path / "whole", **told)
    fit(tmp_path / "killed", kill=12, **told)
    assert fit(tmp_path / "killed", **told)[:2] == whole[:2]
    assert len(whole[0]) == 3 * STEPS


@pytest.mark.parametrize("data", [OwnGenerator, OwnSampler])
def test_generators_of_loaders_and_samplers_go_on(tmp_path, data):
    rows, hashes, _, _ = fit(tmp_path / "whole", data)
    fit(tmp_path / "killed", data, kill=12)
    assert fit(tmp_path / "killed", data) == (rows, hashes, [10], [])


def test_random_numbers_that_are_not_restored_would_be_noticed(whole, tmp_path, monkeypatch):
    rows = whole[0]
    fit(tmp_path, kill=12, look=None)
    monkeypatch.setattr(restored, "restore_rng_states", lambda _: ())
    again = fit(tmp_path, look=None)[0]
    first, other = next((a, b) for a, b in zip(rows, again, strict=True) if a != b)
    assert first["step"] == 2 * STEPS + 1
    assert first["batch"] != other["batch"]  # the order is drawn first


def test_weights_that_are_not_restored_are_refused(tmp_path, monkeypatch):
    fit(tmp_path, kill=12, look=None)
    monkeypatch.setattr(left_out, "transient_buffers", lambda _: ())
    with pytest.raises(TwinrunError, match="is not what it was where the checkpoint was taken"):
        fit(tmp_path, look=None)


def test_what_averages_hold_beside_their_state_goes_on(tmp_path):
    """Red before: a buffer that is no part of the state_dict was averaged from the start."""
    whole, _, resumed = (
        fit(tmp_path / name, kill=kill, callbacks=[pl.callbacks.EMAWeightAveraging(decay=0.5)])
        for name, kill in (("whole", 0), ("killed", 16), ("killed", 0))
    )
    assert resumed[2:] == ([15], [])
    assert resumed[:2] == whole[:2]


def test_a_schedule_that_a_callback_has_exchanged_is_refused(tmp_path):
    """Red before: "it could not be loaded", which cost an attempt."""
    *_, said = fit(tmp_path, callbacks=[pl.callbacks.StochasticWeightAveraging(swa_lrs=0.01)])
    why = "StochasticWeightAveraging has exchanged the schedule of the learning rate"
    assert said == [f"no checkpoints are written: {why}"]


class Opaque(pl.Callback):
    def state_dict(self):
        return {"object": TwinrunError("no plain value")}

    def load_state_dict(self, state_dict):
        pass


def assert_refused(folder, why):
    """Another process, which has to do without a checkpoint, can say why."""
    assert not list(folder.glob("*.ckpt"))
    other = Resumable(folder)
    assert other.last() is None
    assert why in other.refused


def test_a_state_that_is_more_than_data_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Restless, "configure_callbacks", lambda self: [Opaque()])
    *_, said = fit(tmp_path)
    assert len(said) == 1
    assert "more than data" in said[0]
    assert_refused(tmp_path, "more than data (")


class OwnOrder(torch.utils.data.Sampler):
    """Draws its order from a generator of NumPy's, of which torch knows nothing."""

    def __init__(self, size):
        self._size, self._random = size, np.random.default_rng(3)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self._random.permutation(self._size).tolist())


class NumpySampler(Points):
    def train_dataloader(self):
        return self._loader(sampler=OwnOrder(len(self.inputs)))


class NumpyBatchSampler(Points):
    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        batches = BatchSampler(OwnOrder(len(self.inputs)), batch_size=16, drop_last=False)
        return DataLoader(data, batch_sampler=batches)


class Augmented(TensorDataset):
    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.noise = {"random": random.Random(3)}


class WrappedDataset(Points):
    def train_dataloader(self):
        data = ConcatDataset([Subset(Augmented(self.inputs, self.targets), range(40))])
        return DataLoader(data, batch_size=16)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (NumpySampler, "OwnOrder._random is a random number generator (numpy's Generator)"),
        (NumpyBatchSampler, "OwnOrder._random is a random number generator"),
        (WrappedDataset, "Augmented.noise is a random number generator (random's Random)"),
    ],
)
def test_generators_that_no_checkpoint_holds_are_refused(tmp_path, data, words):
    """Red before: the resumed training drew the first epoch's order again."""
    *_, said = fit(tmp_path, data)
    assert len(said) == 1
    assert words in said[0]
    assert_refused(tmp_path, words)


class Average(pl.Callback):
    """Keeps a moving average of a weight, and forgets to save it."""

    def __init__(self):
        self.average, self.rate = None, 0.5

    def on_train_batch_end(self, trainer, pl_module, *_):
        weight = pl_module.output.weight.detach().clone()
        old = weight if self.average is None else self.average
        self.average = old + self.rate * (weight - old)


class SavedAverage(Average):
    def state_dict(self):
        return {"average": self.average}

    def load_state_dict(self, state_dict):
        self.average = state_dict["average"]


def test_a_callback_that_changes_and_has_no_state_dict_is_refused(tmp_path, monkeypatch):
    """Red before: the resumed training went on with a new average."""
    monkeypatch.setattr(Restless, "configure_callbacks", lambda self: [Average()])
    *_, said = fit(tmp_path / "unsaved")
    assert len(said) == 1
    assert "Average.average changes while the training runs" in said[0]
    monkeypatch.setattr(Restless, "configure_callbacks", lambda self: [SavedAverage()])
    assert fit(tmp_path / "saved")[-1] == []


def test_weights_that_only_an_optimizer_holds_are_refused(tmp_path, monkeypatch):
    """Red before: the resumed training went on with the weights of the beginning."""
    hidden = torch.nn.Linear(2, 1)
    own = Restless.configure_optimizers

    def configure_optimizers(self):
        found = own(self)
        found["optimizer"].add_param_group({"params": list(hidden.parameters())})
        return found

    monkeypatch.setattr(Restless, "configure_optimizers", configure_optimizers)
    *_, said = fit(tmp_path)
    assert len(said) == 1
    assert "an optimizer trains parameters that Restless does not hold" in said[0]


def test_tensors_that_come_late_are_refused(tmp_path, monkeypatch):
    """Red before: the checkpoint was written, and every further start failed in loading it."""
    own = Restless.training_step

    def training_step(self, batch, batch_idx):
        self.register_buffer("late", torch.zeros(1))
        return own(self, batch, batch_idx)

    monkeypatch.setattr(Restless, "training_step", training_step)
    *_, said = fit(tmp_path, kill=12)
    assert "late of Restless is not there, or of another shape, where the training" in said[0]
    assert fit(tmp_path)[2] == []


class Teacher(Restless):
    """Has a network that nobody sees: a module's lists hold no parameters of it."""

    def training_step(self, batch, batch_idx):
        (teacher,) = self.__dict__.setdefault("teachers", [torch.nn.Linear(8, 1)])
        with torch.no_grad():
            for of_teacher, own in zip(teacher.parameters(), self.output.parameters(), strict=True):
                of_teacher.lerp_(own, 0.1)
        return super().training_step(batch, batch_idx) + teacher.weight.square().mean()


class CountsBatches(Points):
    seen = 0

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.seen += self.trainer.training
        return [batch[0] * (1 + self.seen / 100), batch[1]]


class Keeps(Restless):
    """Has its optimizer and its schedule in attributes, too, which Lightning saves."""

    def configure_optimizers(self):
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        self.schedules = [torch.optim.lr_scheduler.StepLR(self.optimizer, 1)]
        return [self.optimizer], self.schedules


def test_what_lightning_saves_may_be_in_an_attribute(tmp_path):
    """Red before: its optimizer, whose state changes, was refused."""
    rows, hashes, _, _ = fit(tmp_path / "whole", module=Keeps)
    fit(tmp_path / "killed", kill=12, module=Keeps)
    assert fit(tmp_path / "killed", module=Keeps) == (rows, hashes, [10], [])


class SwitchesOptimizers(Restless):
    """Goes on with an optimizer of another class."""

    def on_train_epoch_end(self):
        if self.current_epoch == 0:
            self.trainer.strategy.optimizers = [torch.optim.Adagrad(self.parameters())]


class SwitchesVariables(Restless):
    """Keeps a number in the environment."""

    def on_train_epoch_end(self):
        os.environ["TEST_OF_TWINRUN"] = str(self.current_epoch)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (SwitchesOptimizers, "is exchanged for another optimizer while the training runs"),
        (SwitchesVariables, "the environment variable TEST_OF_TWINRUN changes while the training"),
    ],
)
def test_what_is_exchanged_under_way_is_refused(tmp_path, monkeypatch, module, words):
    """Red before: a checkpoint was written, and another optimizer or number went on from it."""
    monkeypatch.setenv("TEST_OF_TWINRUN", "none")
    *_, said = fit(tmp_path, module=module, max_epochs=2)
    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize(
    ("module", "data", "words"),
    [
        (Teacher, Points, "Teacher.teachers changes while the training runs"),
        (Restless, CountsBatches, "CountsBatches.seen changes while the training runs"),
    ],
)
def test_attributes_that_no_checkpoint_can_hold_are_refused(
    tmp_path, monkeypatch, module, data, words
):
    """Red before: the resumed training went on with those of the beginning."""
    monkeypatch.setitem(globals(), "Restless", module)
    *_, said = fit(tmp_path, data)
    assert len(said) == 1
    assert words in said[0]
    assert_refused(tmp_path, words)


def test_plain_attributes_of_a_module_go_on(tmp_path, monkeypatch):
    """Red before: the resumed training counted from the beginning."""
    own = Restless.training_step

    def training_step(self, batch, batch_idx):
        kept = self.__dict__.setdefault("kept", {"steps": 0, "losses": [torch.zeros(())]})
        kept["steps"] += 1
        loss = own(self, batch, batch_idx) * (1 + kept["steps"] / 100) + kept["losses"][-1]
        kept["losses"] = [*kept["losses"][-2:], loss.detach()]
        return loss

    monkeypatch.setattr(Restless, "training_step", training_step)
    rows, hashes, _, _ = fit(tmp_path / "whole")
    fit(tmp_path / "killed", kill=12)
    fit(tmp_path / "killed", kill=17)
    assert fit(tmp_path / "killed") == (rows, hashes, [10, 15], [])


class Holding(Restless):
    """Is changed by a function after its first epoch."""

    name = "COO"

    def __init__(self):
        super().__init__()
        self.held = HELD[self.name][0](self)

    def on_train_epoch_end(self):
        if self.current_epoch == 0:
            HELD[self.name][1](self)


def gone(module):
    del module.held


def in_place(module):
    module.held[-1] += 1


class Unseen:
    @property
    def __dict__(self):
        raise ValueError


def schedule(module):
    return torch.optim.lr_scheduler.StepLR(torch.optim.SGD(module.parameters(), lr=0.1), 1)


def grown(module):
    module.held.scale(torch.ones(1))
    module.held.update(2.0)


NOTHING_CHANGES = (lambda module: None, "")
NOT_HELD = "Holding.held changes while the training runs, and no checkpoint holds it"
SHARED = "changes, and is shared with another attribute or tensor"
HELD = {
    "COO": (lambda _: torch.eye(3).to_sparse(), *NOTHING_CHANGES),
    "CSR": (lambda _: torch.eye(3).to_sparse_csr(), *NOTHING_CHANGES),
    "nested": (lambda _: torch.nested.nested_tensor([torch.ones(2)]), *NOTHING_CHANGES),
    "meta": (lambda _: torch.ones(3, device="meta"), *NOTHING_CHANGES),
    "texts": (lambda _: [[], "text"], *NOTHING_CHANGES),
    "sparse": (lambda _: torch.eye(3).to_sparse(), lambda m: m.held.mul_(2), NOT_HELD),
    "array": (lambda _: np.zeros((2, 2), order="F"), lambda m: m.held.fill(1), NOT_HELD),
    "unseen": (lambda _: Unseen(), lambda _: None, "Holding.held cannot be looked at (ValueError)"),
    "deleted": (lambda _: 1, gone, "Holding.held is there where the training begins"),
    "function": (lambda _: torch.sin, lambda m: setattr(m, "held", torch.cos), NOT_HELD),
    "alias": (lambda m: m.__dict__.setdefault("other", [0]), in_place, SHARED),
    "view": (lambda m: [m.output.weight.data[0], 0], in_place, SHARED),
    "schedule": (lambda m: schedule(m), lambda m: m.held.step(), NOT_HELD),
    "schedules": (lambda m: {"warm": [schedule(m)]}, lambda m: m.held["warm"][0].step(), NOT_HELD),
    "scaler": (lambda _: torch.amp.GradScaler("cpu"), grown, NOT_HELD),
    "schedule that waits": (lambda m: schedule(m), *NOTHING_CHANGES),
    "clipping": (
        lambda _: 0,
        lambda m: setattr(m.trainer, "gradient_clip_val", 0.1),
        "gradient_clip_val of the Trainer changes while the training runs",
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", HELD)
def test_what_could_not_be_put_back_is_refused_by_name(tmp_path, monkeypatch, name):
    """Red before: an error where the first epoch starts, or other bits after a stop."""
    monkeypatch.setattr(Holding, "name", name)
    *_, said = fit(tmp_path, module=Holding, max_epochs=2)
    assert len(said) == bool(HELD[name][2])
    assert HELD[name][2] in "".join(said)


class Flagged(Restless):
    """Changes flags, numbers of torch's modules, a metric and a list, once."""

    def __init__(self):
        super().__init__()
        self.dropout, self.batches = torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(4)
        self.mean, self.waiting = SumMetric(), [0.5]

    def forward(self, inputs):
        return super().forward(self.dropout(self.batches(inputs)))

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.mean.update(loss.detach())
        return loss * self.mean.compute() ** (1 + len(self.waiting))

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 1:
            self.batches.eval()
            self.hidden.requires_grad_(False)
            self.dropout.p = 0.3
            self.waiting.clear()


def test_flags_and_numbers_of_parts_go_on(tmp_path):
    """Red before: the resumed training went on with those of the beginning."""
    rows, hashes, _, _ = fit(tmp_path / "whole", module=Flagged)
    fit(tmp_path / "killed", module=Flagged, kill=12)
    assert fit(tmp_path / "killed", module=Flagged) == (rows, hashes, [10], [])


class KeepsAverages(torch.optim.SGD):
    """Keeps averages of the weights, and how many there were, in attributes."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.averages, self.count = None, 0

    def step(self, closure=None):
        loss = super().step(closure)
        weights = [p.detach() for group in self.param_groups for p in group["params"]]
        averages = self.averages or [weight.clone() for weight in weights]
        self.averages = [a.lerp(w, 0.5) for a, w in zip(averages, weights, strict=True)]
        self.count += 1
        for weight, average in zip(weights, self.averages, strict=True):
            weight.lerp_(average, 0.1)
        return loss


class SavesAverages(KeepsAverages):
    def state_dict(self):
        return {**super().state_dict(), "averages": self.averages, "count": self.count}

    def load_state_dict(self, state_dict):
        own = dict(state_dict)
        self.averages, self.count = own.pop("averages"), own.pop("count")
        super().load_state_dict(own)


@pytest.mark.parametrize("kind", [KeepsAverages, SavesAverages])
def test_what_an_optimizer_keeps_beside_its_state_is_refused(tmp_path, monkeypatch, kind):
    """Red before: the resumed training began with new averages."""
    monkeypatch.setattr(
        Restless, "configure_optimizers", lambda self: kind(self.parameters(), lr=0.05)
    )
    rows, hashes, _, said = fit(tmp_path / "whole")
    if kind is KeepsAverages:
        assert len(said) == 1
        assert "KeepsAverages.averages[0] changes while the training runs" in said[0]
        return
    assert said == []
    fit(tmp_path / "killed", kill=12)
    assert fit(tmp_path / "killed") == (rows, hashes, [10], [])


def test_a_module_that_saves_other_weights_than_it_trains_is_resumed(tmp_path, monkeypatch):
    """Red before: the resumed training went on with the saved halves."""
    own = Restless.state_dict

    def state_dict(self, *arguments, **options):
        found = own(self, *arguments, **options)
        return {n: v.half().float() if v.is_floating_point() else v for n, v in found.items()}

    monkeypatch.setattr(Restless, "state_dict", state_dict)
    rows, hashes, _, _ = fit(tmp_path / "whole")
    fit(tmp_path / "killed", kill=12)
    assert fit(tmp_path / "killed") == (rows, hashes, [10], [])


def test_a_module_finds_its_hyperparameters_in_the_checkpoint_that_it_completes(
    tmp_path, monkeypatch
):
    """Red before: they had been taken out, and the hook ended the training by a KeyError."""
    own = Restless.on_save_checkpoint

    def on_save_checkpoint(self, checkpoint):
        own(self, checkpoint)
        checkpoint["hyper_parameters"].update({"width": checkpoint["hyper_parameters"]["rate"]})

    def configure_optimizers(self, made=Restless.configure_optimizers):
        self.save_hyperparameters({"rate": 0.5, "kind": Restless, "number": np.float64(1)})
        return made(self)

    monkeypatch.setattr(Restless, "on_save_checkpoint", on_save_checkpoint)
    monkeypatch.setattr(Restless, "configure_optimizers", configure_optimizers)
    rows, hashes, _, _ = fit(tmp_path / "whole")
    fit(tmp_path / "killed", kill=12)
    assert fit(tmp_path / "killed") == (rows, hashes, [10], [])


@pytest.mark.parametrize("name", ["state_dict", "on_save_checkpoint"])
def test_what_a_module_takes_out_of_its_checkpoint_is_kept(tmp_path, monkeypatch, name):
    """Red before: the resumed training went on with the weights of the beginning."""
    own = Restless.state_dict

    def state_dict(self, *arguments, **options):
        found = own(self, *arguments, **options)
        return {name: value for name, value in found.items() if "norm" not in name}

    def on_save_checkpoint(self, checkpoint):
        checkpoint["state_dict"] = state_dict(self)

    monkeypatch.setattr(Restless, name, locals()[name])
    monkeypatch.setattr(Restless, "strict_loading", False)
    rows, hashes, _, _ = fit(tmp_path / "whole")
    fit(tmp_path / "killed", kill=12)
    assert fit(tmp_path / "killed") == (rows, hashes, [10], [])


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    fit(folder, kill=12)
    return folder


@pytest.fixture
def killed(killed_once, tmp_path):
    folder = tmp_path / "checkpoints"
    shutil.copytree(killed_once, folder)
    (file,) = folder.glob("*.ckpt")
    return folder, file


def spoil(file, how):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content if how == "flip" else content[: len(content) // 2])


@pytest.mark.parametrize(
    ("name", "how"), [("epoch2.ckpt", "flip"), ("epoch2.ckpt", "cut"), ("checkpoint.json", "cut")]
)
def test_a_corrupt_checkpoint_is_named_and_ignored(killed, name, how):
    folder, _ = killed
    spoil(folder / name, how)
    said = []
    assert Resumable(folder, say=said.append).last() is None
    assert said == [f"{folder / name} is corrupt: the training starts from its beginning"]


def test_a_planted_pickle_is_never_executed(killed, tmp_path):
    folder, file = killed

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"callbacks": Bomb()}, file, pickle_module=pickle)
    entry = artifacts.read_json(folder / "checkpoint.json")
    artifacts.write_json(folder / "checkpoint.json", entry | {"sha256": artifacts.sha256(file)})
    said = []
    assert Resumable(folder, say=said.append).last() is None
    assert "corrupt" in said[0]
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("other", [{}, {"threads": 1, "limit": 1}, {"threads": 2, "limit": 1.0}])
def test_a_checkpoint_of_other_settings_is_not_used(tmp_path, other):
    """Red before for the last: 1 mini-batch is not 1.0, all of them."""
    artifacts.write_text(tmp_path / "epoch1.ckpt", "")
    entry = {"file": "epoch1.ckpt", "sha256": artifacts.sha256(tmp_path / "epoch1.ckpt")}
    identity = {"seed": 1, "settings": {"threads": 2, "limit": 1}}
    artifacts.write_json(tmp_path / "checkpoint.json", entry | {"identity": identity})
    said = []
    other = Resumable(tmp_path, identity=identity | {"settings": other}, say=said.append)
    assert other.last() is None
    assert "is of another settings" in said[0]


@pytest.mark.parametrize("value", [{"threads": 2}, {}, 0, "", None])
def test_a_checkpoint_that_does_not_say_what_is_asked_for_is_not_used(tmp_path, value):
    """Of another version: it cannot be known to be the same. Red before for None."""
    (tmp_path / "epoch1.ckpt").write_bytes(b"")
    entry = {"file": "epoch1.ckpt", "sha256": artifacts.sha256(tmp_path / "epoch1.ckpt")}
    artifacts.write_json(tmp_path / "checkpoint.json", entry | {"identity": {"seed": 1}})
    said = []
    other = Resumable(tmp_path, identity={"seed": 1, "data": value}, say=said.append)
    assert other.last() is None
    assert "is of another data" in said[0]


@pytest.mark.parametrize("is_absolute", [False, True])
def test_an_entry_names_no_file_outside_of_its_folder(killed, is_absolute):
    folder, file = killed
    outside = file.rename(folder.parent / "outside.ckpt")
    entry = artifacts.read_json(folder / "checkpoint.json")
    name = str(outside) if is_absolute else f"../{outside.name}"
    assert (folder / name).is_file()
    artifacts.write_json(folder / "checkpoint.json", entry | {"file": name})
    said = []
    assert Resumable(folder, say=said.append).last() is None
    assert "is corrupt" in said[0]


def test_checkpoints_are_no_more_frequent_than_asked_for(tmp_path):
    fit(tmp_path, minutes=9, max_epochs=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("minutes", "last"), [(0.5, 3), (1, 3), (1.5, 2), (2, 2), (2.5, 3), (3, 3), (4, None)]
)
def test_a_checkpoint_is_written_when_its_minutes_have_passed(tmp_path, monkeypatch, minutes, last):
    """Epochs take a minute each, and there are four; the last start of an epoch is at three."""
    seconds = itertools.count(0, 60)
    now = [next(seconds)]

    class Minute(pl.Callback):
        def state_dict(self):
            return {}

        def on_train_epoch_end(self, *_):
            now[0] = next(seconds)

    monkeypatch.setattr(resumable, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Restless, "configure_callbacks", lambda self: [Minute()])
    fit(tmp_path, minutes=minutes)
    expected = [] if last is None else [f"epoch{last}.ckpt"]
    assert [file.name for file in tmp_path.glob("*.ckpt")] == expected


def start(folder, death):
    workload = {
        **WORKLOAD,
        "module": "small:Restless",
        "hyperparameters": {"size": 70, "death": str(death)},
        "epochs": EPOCHS,
    }
    launch(
        "twinrun.training.train:train",
        arguments(folder, workload, VARIANT, minutes=0),
        environment_of(seed=1, deterministic=True, threads=2),
    )


@pytest.mark.exhaustive  # tests/workflow/test_resuming.py kills one, too
def test_a_run_killed_with_signal_9_ends_in_the_same_files(tmp_path):
    death, folders = tmp_path / "death", [tmp_path / "whole", tmp_path / "killed"]
    start(folders[0], death)
    death.write_text("17")
    with pytest.raises(TwinrunError, match="SIGKILL"):
        start(folders[1], death)
    assert not list(folders[1].glob("*.*"))
    start(folders[1], death)
    for name in ("weights", "steps", "epochs", "fingerprints", "predictions"):
        left, right = ((folder / FILES[name]).read_bytes() for folder in folders)
        assert left == right, name
    manifest = artifacts.read_json(folders[1] / "run.json")
    assert manifest["resumed_at"] == [15]
    assert manifest["ended"] == "finished"
    assert len(manifest["seconds"]["epochs"]) == EPOCHS
    assert not (tmp_path / "killed-checkpoints").exists()

"""A fast step under the Trainer trains, counts and logs as the Trainer alone does."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from points_and_images import Images, Regression, images, points
from torch.utils.data import DataLoader

from twinrun.acceleration.compilation import compiler_switches, traced_only
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

POINTS = [points(seed=1), points(seed=2)]
IMAGES = [images(seed=1), images(seed=2)]


class Seen(pl.Callback):
    """What a callback sees of the training."""

    def __init__(self):
        self.gradients, self.losses = [], []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.gradients.append(
            [p.grad.clone() for p in pl_module.parameters() if p.grad is not None]
        )

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))


def fitted(module_class, batches, tmp_path, *, is_watched=True, **changes):
    torch.manual_seed(0)
    module, seen = module_class(), Seen()
    speed = Speed(module, Variant(**{**VARIANT, **changes}))
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=3,
        default_root_dir=tmp_path,
        # A callback that looks at gradients keeps steps in parts.
        callbacks=[speed, *([seen] if is_watched else [])],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(batches, batch_size=None, collate_fn=list)
    with compiler_switches():
        trainer.fit(module, loader)
        predicted = trainer.predict(module, loader)
    return module, trainer, seen, predicted, speed


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("module_class", "batches", "changes"),
    [
        (Regression, POINTS, {"compile": "step", "layout": "features_first"}),
        (Images, IMAGES, {"compile": "module", "layout": "channels_last"}),
        (Regression, POINTS, {"optimizer": "fused"}),
        (Images, IMAGES, {"layout": "channels_last"}),
    ],
)
def test_fast_steps_in_the_trainer(module_class, batches, changes, tmp_path):
    module, trainer, seen, predicted, speed = fitted(module_class, batches, tmp_path, **changes)
    plain, plain_trainer, plain_seen, plain_predicted, _ = fitted(module_class, batches, tmp_path)
    assert trainer.global_step == plain_trainer.global_step == 6
    # Six steps round in the sixth or seventh digit; Adam and momentum spread it a little.
    assert seen.losses == pytest.approx(plain_seen.losses, rel=1e-4)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(
            value, plain.state_dict()[name], rtol=1e-3, atol=1e-4, msg=name, check_stride=False
        )
    assert trainer.callback_metrics.keys() == plain_trainer.callback_metrics.keys()
    for name, value in trainer.callback_metrics.items():
        assert float(value) == pytest.approx(float(plain_trainer.callback_metrics[name]), rel=1e-4)
    assert len(seen.gradients) == 6
    torch.testing.assert_close(seen.gradients[-1], plain_seen.gradients[-1], rtol=1e-2, atol=1e-4)
    torch.testing.assert_close(predicted, plain_predicted, rtol=1e-3, atol=1e-3)
    if changes.get("compile", "none") != "none":
        # A callback that does more than read gradients keeps steps in parts: all are compiled.
        assert (speed.counts()["calls"], speed.counts()["compilations"]) == (6, 1)
    else:
        assert speed.counts() is None


class SetsItsRate(Regression):
    """Sets the rate in its step, which the compiler traces."""

    def training_step(self, batch, batch_idx):
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = 0.01 / (1 + self.trainer.global_step)
        return super().training_step(batch, batch_idx)


class SetsItsRateOfSGD(SetsItsRate):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module_class", [SetsItsRate, SetsItsRateOfSGD])
def test_a_rate_that_a_compiled_step_sets_leaves_the_optimizer_its_form(module_class, tmp_path):
    """Red before: torch's "If capturable=True, params and state_steps must be on supported"."""
    with traced_only():
        fast, trainer, *_, speed = fitted(module_class, POINTS, tmp_path, compile="module")
    plain, *_ = fitted(module_class, POINTS, tmp_path)
    assert speed.counts()["calls"] == 6
    (group,) = trainer.optimizers[0].param_groups
    assert group["lr"] == 0.01 / 6
    assert not group.get("capturable")
    assert ("capturable" in group) == (module_class is SetsItsRate)
    for name, value in fast.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[name], rtol=1e-5, atol=1e-6)


def doubled(_, inputs, output):
    return output * 2


def other_step(module):
    def step(batch, batch_idx):
        return 3 * type(module).training_step(module, batch, batch_idx)["loss"]

    return step


def other_groups(optimizer):
    return [{**group, "lr": 20 * group["lr"]} for group in optimizer.param_groups]


def another_list(module):
    optimizer = module.optimizers(use_pl_optimizer=False)
    optimizer.param_groups = other_groups(optimizer)


def another_group(module):
    optimizer = module.optimizers(use_pl_optimizer=False)
    optimizer.param_groups[:] = other_groups(optimizer)


def sign_gradients(module, optimizer):
    for parameter in module.hidden.parameters():
        parameter.grad.sign_()


# What a module may change in itself when the second epoch begins.
CHANGES = {
    "another step": lambda module: setattr(module, "training_step", other_step(module)),
    "a hook on a layer": lambda module: next(
        layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)
    ).register_forward_hook(doubled),
    "a hook between the passes": lambda module: setattr(
        module,
        "on_before_optimizer_step",
        lambda optimizer: [p.grad.sign_() for p in module.hidden.parameters()],
    ),
    # Red before: the rates went on to be read from the groups that were there first.
    "another list of groups": another_list,
    "another group in the list": another_group,
    # Red before: hooks of the class were looked at when the training began.
    "a hook of the class": lambda module: setattr(
        type(module), "on_before_optimizer_step", sign_gradients
    ),
}


class Changing(Regression):
    change = ""

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            CHANGES[self.change](self)


class LogsLate(Regression):
    """Logs a buffer and a parameter that the step goes on to change."""

    def on_train_end(self):
        self.logged = {name: float(v) for name, v in self.trainer.callback_metrics.items()}

    def __init__(self):
        super().__init__()
        self.register_buffer("beta", torch.tensor(1.0))

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"] * self.beta.clone()
        self.log("beta", self.beta, on_step=False, on_epoch=True)
        self.log(name="by name", value=self.beta, on_step=False, on_epoch=True)
        self.log_dict(dictionary={"in a dictionary": self.beta}, on_step=False, on_epoch=True)
        self.log("weight", next(self.parameters()).sum(), on_step=False, on_epoch=True)
        self.beta.mul_(0.9)
        return loss


@pytest.mark.one_in(4)
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_module_changes_under_way_takes_effect(change, tmp_path, monkeypatch):
    monkeypatch.setattr(Changing, "change", change)
    # Put back in the end, and once before, since one of the changes patches the class.
    monkeypatch.setattr(
        Changing, "on_before_optimizer_step", pl.LightningModule.on_before_optimizer_step
    )
    with traced_only():
        module, *_, speed = fitted(Changing, POINTS, tmp_path, is_watched=False, compile="step")
    assert speed.counts()["calls"] > 0
    Changing.on_before_optimizer_step = pl.LightningModule.on_before_optimizer_step
    plain, *_ = fitted(Changing, POINTS, tmp_path)
    unchanged, *_ = fitted(Regression, POINTS, tmp_path)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert any(not torch.equal(v, unchanged.state_dict()[n]) for n, v in plain.state_dict().items())


class Tripled(Regression):
    """What a module turns into, or is patched with."""

    def training_step(self, batch, batch_idx):
        return 3 * super().training_step(batch, batch_idx)["loss"]


class Turning(Regression):
    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.__class__ = Tripled


@pytest.mark.parametrize(
    "changes",
    [
        {"compile": "step"},
        {"compile": "module"},
        {"layout": "channels_last"},
    ],
)
def test_a_step_that_a_class_exchanges_under_way_is_refused(changes, tmp_path):
    """Red before: the step of the first epoch was done to the end."""
    with traced_only(), pytest.raises(TwinrunError, match="training_step of Tripled is not"):
        fitted(Turning, POINTS, tmp_path, is_watched=False, **changes)


def turned(gradient):
    return -gradient


class ChangesLate(Regression):
    """Changes in its own step of the third epoch what the update of that step goes by."""

    change = ""

    def training_step(self, batch, batch_idx):
        if self.current_epoch == 2 and batch_idx == 0:
            optimizer = self.trainer.optimizers[0]
            if self.change == "rate":
                for group in optimizer.param_groups:
                    group["lr"] *= 0.01
            elif self.change == "decay":
                optimizer.param_groups[0]["weight_decay"] = 5.0
            elif self.change == "state":
                optimizer.state.clear()
            else:
                next(self.parameters()).register_hook(turned)
        return super().training_step(batch, batch_idx)


class Forgets(Regression):
    """Has its optimizer begin anew in the third epoch."""

    def on_train_epoch_start(self):
        if self.current_epoch == 2:
            self.trainer.optimizers[0].state.clear()


def test_an_optimizer_that_forgets_between_epochs_begins_anew(tmp_path):
    """Red before: refused, as if training_step itself had done it."""
    with traced_only():
        module, *_, speed = fitted(Forgets, POINTS, tmp_path, is_watched=False, compile="step")
    plain, *_ = fitted(Forgets, POINTS, tmp_path)
    assert speed.in_parts is None
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-6)


class ClipsInItsOptimizer(Regression):
    """Replaces a method of the optimizer that its update calls, which clips late."""

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        own = optimizer._init_group

        def clipping(group, parameters, gradients, *others):
            found = own(group, parameters, gradients, *others)
            if self.current_epoch == 2:
                gradients[:] = [gradient.clamp(-1e-3, 1e-3) for gradient in gradients]
            return found

        optimizer._init_group = clipping
        return optimizer


def test_a_method_that_is_replaced_on_an_optimizer_is_called(tmp_path):
    """Red before: done in one piece, without it."""
    with traced_only():
        module, *_, speed = fitted(
            ClipsInItsOptimizer, POINTS, tmp_path, is_watched=False, compile="step"
        )
    plain, *_ = fitted(ClipsInItsOptimizer, POINTS, tmp_path)
    assert speed.in_parts == "a replaced _init_group of Adam"
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-6)


class BranchesLate(Regression):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        return 2 * loss if self.current_epoch == 2 else loss


@pytest.mark.one_in(2)
@pytest.mark.parametrize("compile_", ["step", "module"])
def test_code_that_is_compiled_behind_the_steps_of_a_proof_raises_a_doubt(compile_, tmp_path):
    """Red before: nothing said that the proof had not seen it."""
    with traced_only():
        *_, speed = fitted(BranchesLate, POINTS, tmp_path, is_watched=False, compile=compile_)
        *_, same = fitted(Regression, POINTS, tmp_path, is_watched=False, compile=compile_)
    (doubt,) = speed.unproven(3)
    assert "epoch_progress" in doubt
    assert same.unproven(0) == []


class ReadsItsRate(Regression):
    """Only looks: no change of anything."""

    def training_step(self, batch, batch_idx):
        self.log("rate", self.trainer.optimizers[0].param_groups[0]["lr"])
        return super().training_step(batch, batch_idx)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("rate", "a change of lr of Adam"),
        ("decay", "a change of weight_decay of Adam"),
        ("state", "of the optimizer's state"),
        ("hook", "a hook of a parameter"),
    ],
)
def test_what_a_step_changes_too_late_for_its_own_update_is_refused(
    change, named, tmp_path, monkeypatch
):
    """Red before: the update of that step was done as before, without a word."""
    monkeypatch.setattr(ChangesLate, "change", change)
    with traced_only(), pytest.raises(TwinrunError, match=f"training_step itself brings .*{named}"):
        fitted(ChangesLate, POINTS, tmp_path, is_watched=False, compile="step")


def test_a_step_that_looks_at_its_rate_is_done_in_one_piece(tmp_path):
    with traced_only():
        *_, speed = fitted(ReadsItsRate, POINTS, tmp_path, is_watched=False, compile="step")
    assert speed.in_parts is None


def test_a_log_is_of_the_moment_when_it_was_logged(tmp_path):
    """Red before: of values that are given by name, that of the end of the step was logged."""
    with traced_only():
        module, *_ = fitted(LogsLate, POINTS, tmp_path, is_watched=False, compile="step")
    plain, *_ = fitted(LogsLate, POINTS, tmp_path)
    assert plain.logged.keys() >= {"beta", "by name", "in a dictionary", "weight"}
    assert module.logged == pytest.approx(plain.logged, rel=1e-5)


class LogsNumbersOfNumPy(LogsLate):
    """Weighs the loss by the epoch, and logs that, and an entry of an array that it changes."""

    def __init__(self):
        super().__init__()
        self.weights = np.ones(3)

    def training_step(self, batch, batch_idx):
        weight = 2 / (1 + np.exp(-self.trainer.current_epoch / 4))
        loss = Regression.training_step(self, batch, batch_idx)["loss"] * weight
        self.log("weight", weight)
        self.log("single", np.float32(0.5) * self.trainer.current_epoch)
        self.log("entry", self.weights[0], on_step=False, on_epoch=True)
        self.log_dict({"mean": self.weights.mean()}, batch_size=np.int64(2))
        self.weights *= 0.9
        return loss


@pytest.mark.parametrize("compiles", ["step", "module"])
def test_numbers_of_numpy_are_logged(tmp_path, compiles):
    """Red at 959891d6: refused, as an array without a dimension cannot be logged."""
    with traced_only():
        module, *_ = fitted(
            LogsNumbersOfNumPy, POINTS, tmp_path, is_watched=False, compile=compiles
        )
    plain, *_ = fitted(LogsNumbersOfNumPy, POINTS, tmp_path)
    assert plain.logged.keys() >= {"weight", "single", "entry", "mean"}
    assert module.logged == pytest.approx(plain.logged, rel=1e-5)

"""A resumed training does its fast steps as the whole one did, or no checkpoint is written."""

import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT

from twinrun.acceleration.compilation import traced_only
from twinrun.checkpoint.exchanged import Exchanged
from twinrun.checkpoint.resumable import Resumable
from twinrun.config.definitions import Training, Variant, Workload
from twinrun.training.assemble import assembled, trainer_of

HERE = Path(__file__).parents[1]
STEP = Variant(**{**VARIANT, "compile": "step"})


class StoppedError(Exception):
    pass


class StopAt(pl.Callback):
    def __init__(self, epoch, batch=None):
        self.epoch, self.batch = epoch, batch

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == self.epoch and self.batch is None:
            raise StoppedError

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.current_epoch == self.epoch and self.batch == batch_idx:
            raise StoppedError


class Forms(pl.Callback):
    """Notes how each step is done."""

    def __init__(self, speed):
        self.forms = []
        if speed._fast is not None:
            own = speed._fast.form
            speed._fast.form = lambda *arguments: self.note(own(*arguments))

    def note(self, form):
        self.forms.append(form)
        return form

    def state_dict(self):
        return {}  # nothing that the training needs


def train(name, folder, *, variant=STEP, epochs=4, stop=None, in_epoch=None):
    """Train, from the last checkpoint if there is one; return the weights and the steps' forms."""
    torch.compiler.reset()
    said = []
    workload = Workload(
        module=f"ordinary_modules:{name}",
        data="ordinary_modules:Points",
        dataset=None,
        hyperparameters={},
        epochs=epochs,
    )
    training = Training(
        workload=workload,
        variant=variant,
        seed=1,
        dataset=None,
        search_path=[str(HERE / "faithfulness")],
    )
    with assembled(training) as assembly:
        resumable = Resumable(folder, minutes=0, in_epoch=in_epoch, say=said.append)
        forms = Forms(assembly.speed)
        stops = [] if stop is None else [StopAt(*stop) if isinstance(stop, tuple) else StopAt(stop)]
        trainer = trainer_of(
            variant,
            workload.trainer,
            root=assembly.root,
            callbacks=[resumable, assembly.speed, forms, *stops],
            max_epochs=epochs,
        )
        with suppress(StoppedError):
            trainer.fit(
                assembly.module,
                datamodule=assembly.data,
                ckpt_path=resumable.last(),
                weights_only=True,
            )
        weights = {name: value.clone() for name, value in assembly.module.state_dict().items()}
    return weights, forms.forms, said


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "whole", "resumed"),
    [
        ("Dropout", ["plain"] + ["whole"] * 11, ["whole"] * 6),
        # Its layer is frozen at first: to see it trained takes a plain step in both.
        ("Unfrozen", ["plain", "whole", "whole", "plain"] + ["whole"] * 8, ["whole"] * 6),
        ("ClippedByHook", ["parts"] * 12, ["parts"] * 6),
        ("OneCycle", ["plain"] + ["parts"] * 11, ["parts"] * 6),
    ],
)
def test_steps_after_a_resumption_take_the_form_they_had(name, whole, resumed, tmp_path):
    with traced_only():
        weights, forms, _ = train(name, tmp_path / "whole")
        assert forms == whole
        train(name, tmp_path / "stopped", stop=2)
        again, forms, said = train(name, tmp_path / "stopped")
    assert said == []
    assert forms == resumed
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "resumed"),
    [
        ("Dropout", ["whole"] * 8),
        pytest.param("Unfrozen", ["whole"] * 8, marks=pytest.mark.exhaustive),
        pytest.param("ClippedByHook", ["parts"] * 8, marks=pytest.mark.exhaustive),
        ("OneCycle", ["parts"] * 8),
    ],
)
def test_steps_after_a_resumption_in_mid_epoch_take_the_form_they_had(name, resumed, tmp_path):
    """Of 3 batches an epoch the first was done in the second one."""
    with traced_only():
        weights, _, _ = train(name, tmp_path / "whole")
        told = {"in_epoch": lambda trainer, done: done == 1}
        train(name, tmp_path / "stopped", stop=(1, 1), **told)
        again, forms, said = train(name, tmp_path / "stopped")
    assert said == []
    assert forms == resumed
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


def test_code_that_depends_on_what_came_first_is_not_resumed(tmp_path):
    with traced_only():
        _, _, said = train("Annealed", tmp_path)
    assert any("compiled code depends on what came first" in text for text in said)
    # The one from before a number had changed is kept.
    assert {path.name for path in tmp_path.glob("*.ckpt")} <= {"epoch1.ckpt"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["Dropout", "StepSchedule", "Convolution"])
def test_generated_code_is_resumed_to_the_same_bits(name, tmp_path, monkeypatch):
    """Red before: the compiler's own variable of the environment was a reason to write none."""
    weights, _, _ = train(name, tmp_path / "whole")
    # As in a process that has compiled nothing yet.
    monkeypatch.delenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", raising=False)
    _, _, first = train(name, tmp_path / "stopped", stop=2)
    again, forms, said = train(name, tmp_path / "stopped")
    assert [*first, *said] == []
    assert forms == ["whole"] * 6
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


def test_variables_that_the_compiler_sets_itself_do_not_count(monkeypatch):
    """Red before: that of torch's code generator for CPUs, by which no compiled run was resumed."""
    folder = Path(torch.__file__).parent
    text = "".join(
        path.read_text()
        for name in ("_inductor", "_dynamo")
        for path in folder.glob(f"{name}/**/*.py")
    )
    names = {*re.findall(r"""environ(?:\.setdefault\(|\[)['"](\w+)['"](?:\] = |,)""", text)}
    assert "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR" in names
    trainer = SimpleNamespace(
        optimizers=[], lr_scheduler_configs=[], callbacks=[], lightning_module=torch.nn.Module()
    )
    for name in names:
        monkeypatch.delenv(name, raising=False)
    before = Exchanged(trainer)
    for name in names:
        monkeypatch.setenv(name, "1")
    assert [*before.changed(Exchanged(trainer))] == []
    monkeypatch.setenv("OF_A_USER", "1")
    (found,) = before.changed(Exchanged(trainer))
    assert "OF_A_USER" in found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["Dropout", "EpochSchedule", "BatchNorm"])
@pytest.mark.parametrize("in_epoch", [None, lambda trainer, done: True])
@pytest.mark.parametrize(
    "changes",
    [
        {"compile": "step"},
        {"cuda_graph": True},
        {"compile": "step", "cuda_graph": True},
        {"precision": "16-mixed"},
        {"precision": "bf16-mixed", "cuda_graph": True},
        {"optimizer": "fused"},
    ],
    ids=str,
)
def test_on_a_gpu_steps_go_on_in_the_same_bits(name, in_epoch, changes, tmp_path):
    """Captured ones are warmed up anew, and so are done in another way at first."""
    variant = Variant(**{**VARIANT, "accelerator": "gpu", **changes})
    options = {"variant": variant, "epochs": 9, "in_epoch": in_epoch}
    weights, _, _ = train(name, tmp_path / "whole", **options)
    stop = 7 if in_epoch is None else (7, 1)
    train(name, tmp_path / "stopped", stop=stop, **options)
    again, _, said = train(name, tmp_path / "stopped", **options)
    assert said == []
    assert {key: value.tolist() for key, value in again.items()} == {
        key: value.tolist() for key, value in weights.items()
    }

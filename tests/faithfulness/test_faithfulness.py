"""Every module times every setting: equal to the plain Trainer's training, or refused by name."""

from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import pytorch_lightning as pl
import replay_stand_in
import torch
from example_trainings import VARIANT
from faithfulness import ordinary_modules, table

from twinrun.acceleration.compilation import traced_only
from twinrun.acceleration.cuda_graph import record
from twinrun.acceleration.evidence import Recorder
from twinrun.acceleration.proof import compare
from twinrun.config.definitions import TrainerArguments, Training, Variant, Workload
from twinrun.errors import TwinrunError
from twinrun.returned_loss import loss_of
from twinrun.training.assemble import assembled, trainer_of
from twinrun.training.prove import prove

HERE = str(Path(__file__).parent)
EPSILON = torch.finfo(torch.float64).eps
EPOCHS, CAPTURED_EPOCHS = 3, 7  # the second leaves room for warm-up, capture and replays
PLAIN = Variant(**{**VARIANT, "precision": "64-true", "deterministic": False})


class OfMiniBatches(Recorder):
    """Keeps the evidence of mini-batches: Lightning calls it, and gives a loss, for each half."""

    half = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx % 2 == 0:
            self.half = loss_of(outputs)
            return
        loss = loss_of(outputs)
        whole = None if loss is None else {"loss": self.half + loss}
        super().on_train_batch_end(trainer, pl_module, whole, batch, batch_idx // 2)


def training_of(name, variant):
    workload = Workload(
        module=f"ordinary_modules:{name}",
        data="ordinary_modules:Points",
        dataset=None,
        hyperparameters={},
        epochs=EPOCHS,
    )
    return Training(workload=workload, variant=variant, seed=1, dataset=None, search_path=[HERE])


@cache
def plain(name, epochs, perturbation=0.0, *, keeps_workers=False, accelerator="cpu"):
    """Train as a script of the user's would: nothing of Twinrun's but what looks on."""
    loading = {"data_workers": 2, "persistent_workers": True} if keeps_workers else {}
    recorder = Recorder(perturbation=perturbation)
    with torch.random.fork_rng():
        pl.seed_everything(1, workers=True, verbose=False)
        data = ordinary_modules.Points(**loading)
        module = getattr(ordinary_modules, name)()
        pl.Trainer(
            accelerator=accelerator,
            devices=1,
            precision="64-true",
            max_epochs=epochs,
            callbacks=[recorder],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, datamodule=data)
    return recorder.evidence


def fast(name, changes, epochs, generates_code=False):
    """Train as a run does; return what was recorded and why steps were done in parts."""
    torch.compiler.reset()
    variant = replace(PLAIN, **changes)
    recorder = OfMiniBatches() if variant.accumulate == 2 else Recorder()
    with (
        assembled(training_of(name, variant)) as assembly,
        nullcontext() if generates_code else traced_only(),
    ):
        trainer = trainer_of(
            variant,
            TrainerArguments(),
            root=assembly.root,
            callbacks=[assembly.speed, recorder],
            max_epochs=epochs,
        )
        trainer.fit(assembly.module, datamodule=assembly.data)
        return recorder.evidence, assembly.speed.in_parts


def count_replays(monkeypatch):
    """Count what CUDA records and replays."""
    counted = replay_stand_in.Replays()

    def counting(step):
        replay, result = record(step)
        counted.recorded += 1

        def counting_replay():
            counted.replayed += 1
            replay()

        return counting_replay, result

    monkeypatch.setattr("twinrun.acceleration.cuda_graph.record", counting)
    return counted


def check(name, setting, monkeypatch, *, changes=None, **options):
    """Hold a cell to the table."""
    changes = changes or {**table.SETTINGS, **table.SLOW_SETTINGS}[setting]
    accelerator = changes.get("accelerator", "cpu")
    kind, why = table.expected(name, setting, accelerator)
    epochs = EPOCHS
    if changes.get("cuda_graph"):
        in_place = count_replays if accelerator == "gpu" else replay_stand_in.put_in_place
        replays, epochs = in_place(monkeypatch), CAPTURED_EPOCHS
    if kind == "refused" and name in table.UNSEEN:
        with pytest.raises(TwinrunError, match=f"{why}.*where rounding explains"), traced_only():
            prove(training_of(name, replace(PLAIN, **changes)))
        return
    if kind == "refused":
        with pytest.raises(TwinrunError) as refusal:
            fast(name, changes, epochs)
        assert why in str(refusal.value)
        assert any(key in str(refusal.value) for key in changes)
        return
    found, in_parts = fast(name, changes, epochs, **options)
    expected, perturbed = (plain(name, epochs, p, accelerator=accelerator) for p in (0.0, EPSILON))

    def comparison():
        # Plain training was seen to repeat, in `tests/training`.
        again = expected
        return compare(
            expected, again, [perturbed], found, precision="64-true", epsilon=EPSILON
        ).leg

    if kind == "another":
        with pytest.raises(TwinrunError, match="where rounding explains"):
            comparison()
        if not changes.get("persistent_workers"):
            return
        # Another one, but torch's own: that of the user's loader with the same option.
        expected, perturbed = (plain(name, epochs, p, keeps_workers=True) for p in (0.0, EPSILON))
        kind, why = "equal", ""
    leg = comparison()
    # What rounding alone moves too far (a bias before batch normalisation) is the exception.
    assert leg["judged"] + leg["fixed"] > 10 * leg["left_out"]
    assert (in_parts is not None) == (kind == "in parts"), in_parts
    assert why in (in_parts or "")
    if changes.get("cuda_graph"):
        assert replays.replayed > replays.recorded > 0


# Each module under some settings, and each setting with some modules.
CELLS = [(name, setting) for name in table.NAMES for setting in table.SETTINGS]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("name", "setting"), CELLS)
def test_a_setting_changes_nothing(name, setting, monkeypatch):
    check(name, setting, monkeypatch)


SLOW_CELLS = [
    pytest.param(
        name,
        setting,
        # Every third module of the sample.
        marks=pytest.mark.slow
        if number % 3 == 0 and table.is_sampled(name, setting)
        else pytest.mark.exhaustive,
    )
    for number, name in enumerate(table.NAMES)
    for setting in table.SLOW_SETTINGS
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "setting"), SLOW_CELLS)
def test_a_slow_setting_changes_nothing(name, setting, monkeypatch):
    check(name, setting, monkeypatch)


# Each setting with a module of its own at every change, with the others on demand.
GENERATED_CELLS = [
    pytest.param(
        name,
        setting,
        marks=pytest.mark.slow if number == of_setting else pytest.mark.exhaustive,
    )
    for number, name in enumerate(["StepSchedule", "Dropout", "Convolution", "Buffers", "OneCycle"])
    for of_setting, setting in enumerate(["compile: step", "compile: module"])
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "setting"), GENERATED_CELLS)
def test_generated_code_changes_nothing(name, setting, monkeypatch):
    check(name, setting, monkeypatch, generates_code=True)


# A step that is replayed is captured for real here. Of the settings with compiled steps, whose code
# takes long to make, each has five modules.
GPU_CELLS = [
    (name, setting)
    for setting in ("cuda_graph", "optimizer: foreach", "optimizer: fused")
    for name in table.NAMES
] + [
    (name, setting)
    for setting in ("compile: step", "compile: module", "compile: step, cuda_graph")
    for name in ("StepSchedule", "Dropout", "Convolution", "Buffers", "Plain")
]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "setting"), GPU_CELLS)
def test_a_setting_changes_nothing_on_a_gpu(name, setting, monkeypatch):
    changes = {**table.SETTINGS, **table.SLOW_SETTINGS}[setting]
    is_compiled = "compile" in changes
    changes = {**changes, "accelerator": "gpu"}
    check(name, setting, monkeypatch, changes=changes, generates_code=is_compiled)


@pytest.mark.slow
@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", (name for name in table.NAMES if name not in table.MANUAL))
def test_the_proof_raises_no_false_alarm(name):
    with traced_only():
        found = prove(training_of(name, replace(PLAIN, precision="32-true", compile="step")))
    exact, own = found["legs"]
    assert (exact["precision"], own["precision"]) == ("64-true", "32-true")
    assert exact["judged"] + exact["fixed"] > 10 * exact["left_out"]
    # Logs, some twenty values of which none is left out, are judged in float64 alone.
    assert own["judged"] + own["fixed"] > 5 * own["left_out"]
    for leg in (exact, own):
        assert leg["unrepeated"] == 0
        assert leg["losses"]["judged"] == leg["losses"]["of"]
        assert leg["parameters"]["judged"] > 0
    assert found["steps"] == 6
    assert found["shapes"] == 2


def test_the_sample_meets_each_module_and_trains_under_each_setting():
    sample = [
        (name, setting)
        for name in table.NAMES
        for setting in table.SLOW_SETTINGS
        if table.is_sampled(name, setting)
    ]
    assert [name for name, _ in sample] == table.NAMES
    for setting in table.SLOW_SETTINGS:
        kinds = [table.expected(name, found)[0] for name, found in sample if found == setting]
        assert len(kinds) - kinds.count("refused") >= 5, setting


def test_the_page_is_the_table():
    assert table.DOCS.read_text(encoding="utf-8") == table.page(), (
        "docs/faithfulness.md is stale: python tests/faithfulness/table.py"
    )

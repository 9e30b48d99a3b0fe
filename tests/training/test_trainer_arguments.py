"""What a workload tells the Trainer reaches every training: alone, fast, by several workers."""

import random
from dataclasses import asdict, fields
from typing import ClassVar

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import HERE, VARIANT, WORKLOAD, arguments
from safetensors.torch import load_file
from small import Points, Small

from twinrun import artifacts
from twinrun.acceleration.compilation import traced_only
from twinrun.comparison import replay
from twinrun.comparison.replay_record import StepRecorder
from twinrun.config.definitions import TrainerArguments, Training, Variant, Workload
from twinrun.process.launching import environment_of, launch
from twinrun.training.assemble import assembled, trainer_of
from twinrun.training.prove import prove

CLIPPING = [
    {"gradient_clip_val": 0.05},
    {"gradient_clip_val": 0.02, "gradient_clip_algorithm": "value"},
]
BY_NORM = CLIPPING[0]
# Each of the others alone: 5 batches an epoch, of 16 samples and one of 6.
SINGLE = [
    {"max_steps": 7},
    {"min_epochs": 2, "min_steps": 6},
    {"accumulate_grad_batches": 2},
    {"accumulate_grad_batches": {"1": 2, "2": 3}},  # as JSON holds it
    {"val_check_interval": 2},
    {"val_check_interval": 0.5},
    {"val_check_interval": 7, "check_val_every_n_epoch": None},
    {"check_val_every_n_epoch": 2},
    {"limit_train_batches": 3},
    {"limit_train_batches": 0.5},
    {"limit_val_batches": 0.5},
    {"limit_val_batches": 0},
    {"overfit_batches": 2},
    {"overfit_batches": 0.5},
    {"num_sanity_val_steps": 2},
    {"num_sanity_val_steps": -1},
    {"reload_dataloaders_every_n_epochs": 1},
    {"reload_dataloaders_every_n_epochs": 2},
    {"inference_mode": False},
]


def drawn(seed):
    """Draw a combination of several of them."""
    draw = random.Random(seed)
    found = {}
    for told in draw.sample([*SINGLE, *CLIPPING], 4):
        found |= told
    if "overfit_batches" in found:
        found = {
            k: v for k, v in found.items() if k not in ("limit_train_batches", "limit_val_batches")
        }
    if found.get("check_val_every_n_epoch", 1) is None:
        found["val_check_interval"] = 7
    elif isinstance(found.get("val_check_interval"), int):
        found["val_check_interval"] = 2  # an epoch must have as many
    return found


# Those that Lightning rounds, counts or keeps by itself, and one of several.
BY_DEFAULT = ("max_steps", "accumulate_grad_batches", "overfit_batches")
TOLD = [
    *(
        pytest.param(
            told,
            marks=[] if {*told} & {*BY_DEFAULT} else pytest.mark.exhaustive,
            id=str(told),
        )
        for told in SINGLE
    ),
    *(pytest.param(drawn(s), marks=pytest.mark.exhaustive, id=f"drawn {s}") for s in range(40)),
    {
        "accumulate_grad_batches": {"1": 2},
        "max_steps": 9,
        "limit_train_batches": 0.9,
        "val_check_interval": 2,
        "num_sanity_val_steps": 1,
        "reload_dataloaders_every_n_epochs": 2,
        **BY_NORM,
    },
]


def weights_of(folder, trainer, *, module="small:Small", size=70, **variant):
    """Train as the workflow does, in a fresh process."""
    folder.mkdir()
    settings = {**VARIANT, "threads": 1, **variant}
    sized = {**WORKLOAD["hyperparameters"], "size": size}
    workload = {**WORKLOAD, "module": module, "hyperparameters": sized, "trainer": trainer}
    asked = arguments(folder, workload, settings)
    variables = environment_of(seed=1, deterministic=True, threads=1)
    workers = settings["devices"]
    launch("twinrun.training.train:train", asked, variables, workers=workers)
    return load_file(folder / "weights.safetensors")


class Validations(pl.Callback):
    """Keeps after which steps there was a validation, of how many batches, and what was planned."""

    def __init__(self):
        self.seen = []

    def on_fit_start(self, trainer, *_):
        self.seen.append(trainer.estimated_stepping_batches)

    def on_train_epoch_start(self, trainer, *_):
        self.seen.append(trainer.estimated_stepping_batches)

    def on_validation_batch_end(self, trainer, *_):
        self.seen.append((trainer.global_step, trainer.current_epoch, trainer.sanity_checking))


def after(trainer, module, data):
    """Train, and give what a training comes to."""
    validations = next(c for c in trainer.callbacks if isinstance(c, Validations))
    trainer.fit(module, datamodule=data)
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    return weights, trainer.global_step, trainer.current_epoch, validations.seen


def by_script(trainer):
    """Train as a script of the user's does."""
    told, callbacks = dict(trainer), [Validations()]
    if isinstance(told.get("accumulate_grad_batches"), dict):
        schedule = {int(k): v for k, v in told.pop("accumulate_grad_batches").items()}
        callbacks.append(pl.callbacks.GradientAccumulationScheduler(schedule))
    pl.seed_everything(1, workers=True, verbose=False)
    data = Points(size=70, seed=1)
    module = Small(learning_rate=0.1)
    plain = pl.Trainer(
        accelerator="cpu",
        max_epochs=WORKLOAD["epochs"],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **{"num_sanity_val_steps": 0, **told},
    )
    return after(plain, module, data)


def weights_of_script(trainer):
    return by_script(trainer)[0]


def by_twinrun(trainer, *, size=70, **variant):
    """Train as a run does, in this process."""
    run = training(trainer, size=size, **variant)
    with assembled(run) as assembly:
        own = trainer_of(
            run.variant,
            run.workload.trainer,
            root=assembly.root,
            callbacks=[assembly.speed, assembly.team.tracer, Validations()],
            max_epochs=run.workload.epochs,
        )
        return after(own, assembly.module, assembly.data)


@pytest.mark.parametrize("trainer", TOLD)
def test_a_training_is_that_of_a_script_with_the_same_arguments(trainer):
    with torch.random.fork_rng():
        (expected, *counts), (found, *own) = by_script(trainer), by_twinrun(trainer, threads=1)
    assert own == counts
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("trainer", TOLD)
def test_it_is_so_of_micro_batches_but_for_rounding(trainer):
    """Red before: twice as many steps were planned, where gradients accumulate by epochs."""
    exact = {"precision": "64-true", "threads": 1}
    with torch.random.fork_rng():
        expected, *counts = by_twinrun(trainer, **exact)
        found, *own = by_twinrun(trainer, accumulate=2, **exact)
    assert own == counts
    for name in expected.keys() - {"calls"}:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-12, atol=1e-13, msg=name)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("trainer", CLIPPING, ids=["norm", "value"])
def test_a_run_is_the_training_of_a_script_with_the_same_arguments(tmp_path, trainer):
    with torch.random.fork_rng():
        expected, unbounded = weights_of_script(trainer), weights_of_script({})
    found = weights_of(tmp_path / "run", trainer)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert any(not torch.equal(expected[name], unbounded[name]) for name in expected)


@pytest.mark.exhaustive
def test_they_are_settings_of_the_run(tmp_path):
    weights_of(tmp_path / "run", BY_NORM)
    settings = artifacts.read_json(tmp_path / "run/run.json")["settings"]
    assert settings["workload"]["trainer"] == asdict(TrainerArguments(**BY_NORM))


@pytest.mark.exhaustive
def test_two_workers_clip_what_one_does(tmp_path):
    """What is clipped is the gradient of the whole batch, not of each share."""
    exact = {"precision": "64-true"}
    one = weights_of(tmp_path / "one", BY_NORM, **exact)
    two = weights_of(tmp_path / "two", BY_NORM, devices=2, **exact)
    unbounded = weights_of(tmp_path / "unbounded", {}, **exact)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-12, atol=1e-14, msg=name)
    assert any(not torch.allclose(one[name], unbounded[name]) for name in one)


@pytest.mark.exhaustive
def test_two_workers_accumulate_what_one_does(tmp_path):
    """Their shards of the last mini-batch, of 4 and of 3 samples, have other weights."""
    told = {"accumulate_grad_batches": {"0": 2, "1": 3}, "max_steps": 6, "val_check_interval": 2}
    exact = {"precision": "64-true", "size": 71}
    with torch.random.fork_rng():
        one, *_ = by_twinrun(told, threads=1, **exact)
    two = weights_of(tmp_path / "two", told, devices=2, **exact)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-12, atol=1e-14, msg=name)
    assert artifacts.read_json(tmp_path / "two/run.json")["steps"] == 13


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "module", ["StopsInOne", "StopsInOneLater", "StopsInOneValidated", "StopsEarly"]
)
def test_two_workers_stop_at_once_in_the_middle_of_an_epoch(tmp_path, module):
    """Red before: behind a step's exchange, or a validation, one left and the others waited."""
    told = {"val_check_interval": 2}
    weights_of(tmp_path / "two", told, module=f"small:{module}", devices=2)
    manifest = artifacts.read_json(tmp_path / "two/run.json")
    assert (manifest["ended"], manifest["steps"]) == ("finished", 7)


@pytest.mark.exhaustive
def test_micro_batches_are_clipped_when_they_are_added_up(tmp_path):
    exact = {"precision": "64-true"}
    whole = weights_of(tmp_path / "whole", BY_NORM, **exact)
    parts = weights_of(tmp_path / "parts", BY_NORM, accumulate=2, **exact)
    # `calls` counts what is called, and each micro-batch is.
    for name in whole.keys() - {"calls"}:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-12, atol=1e-14, msg=name)


def training(trainer=BY_NORM, *, size=70, **variant):
    sized = {**WORKLOAD["hyperparameters"], "size": size}
    told = TrainerArguments(**trainer)
    workload = Workload(**{**WORKLOAD, "hyperparameters": sized, "trainer": told})
    variant = Variant(**{**VARIANT, **variant})
    return Training(workload=workload, variant=variant, seed=1, dataset=None, search_path=[HERE])


def test_each_of_them_reaches_the_trainer(tmp_path):
    told = {
        "gradient_clip_val": 0.5,
        "gradient_clip_algorithm": "value",
        "max_steps": 9,
        "min_epochs": 2,
        "min_steps": 3,
        "accumulate_grad_batches": 4,
        "val_check_interval": 5,
        "check_val_every_n_epoch": 6,
        "limit_train_batches": 7,
        "limit_val_batches": 8,
        "limit_test_batches": 10,
        "limit_predict_batches": 11,
        "num_sanity_val_steps": 12,
        "reload_dataloaders_every_n_epochs": 13,
    }
    others = {"overfit_batches", "inference_mode"}
    others |= {"callbacks", "logger"}  # see test_trainer_objects
    others |= {"enable_model_summary"}  # see test_before_the_first_step
    assert told.keys() | others == {field.name for field in fields(TrainerArguments)}
    variant, given = training().variant, TrainerArguments(**told)
    trainer = trainer_of(variant, given, root=str(tmp_path), callbacks=[], max_epochs=1)
    assert {name: getattr(trainer, name) for name in told} == told
    given = TrainerArguments(overfit_batches=3, inference_mode=False)
    variant = training(validation=False).variant
    trainer = trainer_of(variant, given, root=str(tmp_path), callbacks=[], max_epochs=1)
    limits = (trainer.overfit_batches, trainer.limit_train_batches, trainer.limit_val_batches)
    assert limits == (3, 3, 0)
    assert not trainer.test_loop.inference_mode


@pytest.mark.exhaustive
def test_a_module_may_clip_by_an_algorithm_of_its_own(tmp_path):
    """Red before: told the default algorithm, Lightning refuses any other."""
    module = {**WORKLOAD, "module": "small:ClipsByValue"}
    launch(
        "twinrun.training.train:train",
        arguments(tmp_path, module, {**VARIANT, "threads": 1}),
        environment_of(seed=1, deterministic=True, threads=1),
    )
    assert artifacts.read_json(tmp_path / "run.json")["ended"] == "finished"


def test_a_fast_step_is_done_in_parts():
    with traced_only():
        assert prove(training(compile="step"))["in_parts"] == "Trainer(gradient_clip_val=0.05)"


@pytest.mark.exhaustive
def test_a_proof_has_an_epoch_for_each_number_of_a_schedule():
    """Steps in one piece, then steps of which some only accumulate."""
    told = {"accumulate_grad_batches": {"7": 2}, "max_steps": 90, "min_epochs": 3}
    told |= {"val_check_interval": 50, "check_val_every_n_epoch": None, "overfit_batches": 4}
    with traced_only():
        proof = prove(training(told, compile="step"))
    assert proof["in_parts"] == "Trainer(accumulate_grad_batches=2)"
    assert proof["steps"] == 4 * 3  # epochs of 3 mini-batches


def test_a_step_is_replayed_with_the_same_arguments():
    with replay._trained(training(), []) as (trainer, _, _):
        assert trainer.gradient_clip_val == BY_NORM["gradient_clip_val"]


class Kept(StepRecorder):
    """Keeps what the repeats of a step leave."""

    left: ClassVar = []

    def end_repeat(self, tracer, marks):
        self.left.append(marks)
        self._set_phase("forward")


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [7, 6])
def test_a_step_of_an_accumulation_is_replayed(tmp_path, monkeypatch, step):
    """The first one of the second epoch accumulates, the second updates: in every repeat."""
    told = {"accumulate_grad_batches": {"1": 2}, "limit_train_batches": 5, "max_steps": 9}
    weights_of(tmp_path / "run", told)
    run, start = training(told, threads=1), str(tmp_path / "start.pt")
    monkeypatch.setattr(replay, "StepRecorder", Kept)
    monkeypatch.setattr(Kept, "left", [])
    with torch.random.fork_rng():
        recorded = str(tmp_path / "run/run.json")
        replay.save_start(run, step=step, recorded=recorded, start=start)
        (tmp_path / "record").mkdir()
        replay.replay(run, start=start, record=str(tmp_path / "record"), repeats=3)
    with np.load(tmp_path / "run/fingerprints.npz") as arrays:
        names = arrays["names"].tolist()
        expected = {q: arrays[q][step - 1].tolist() for q in ("gradients", "parameters")}
    assert len(Kept.left) == 3
    for marks in Kept.left:
        for quantity, values in expected.items():
            found = {mark.name: mark.content for mark in marks if mark.quantity == quantity}
            assert found == {n: f"{v:016x}" for n, v in zip(names, values, strict=True)}

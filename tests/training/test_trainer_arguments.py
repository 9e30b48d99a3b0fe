"""What a workload tells the Trainer reaches every training: alone, fast, by several workers."""

from dataclasses import fields

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import HERE, VARIANT, WORKLOAD, arguments
from safetensors.torch import load_file
from small import Points, Small

from twinrun import artifacts
from twinrun.acceleration.compilation import traced_only
from twinrun.comparison import replay
from twinrun.config.definitions import TrainerArguments, Training, Variant, Workload
from twinrun.process.launching import environment_of, launch
from twinrun.training.assemble import trainer_of
from twinrun.training.prove import prove

CLIPPING = [
    {"gradient_clip_val": 0.05},
    {"gradient_clip_val": 0.02, "gradient_clip_algorithm": "value"},
]
BY_NORM = CLIPPING[0]


def weights_of(folder, trainer, **variant):
    """Train as the workflow does, in a fresh process."""
    folder.mkdir()
    settings = {**VARIANT, "threads": 1, **variant}
    asked = arguments(folder, {**WORKLOAD, "trainer": trainer}, settings)
    variables = environment_of(seed=1, deterministic=True, threads=1)
    workers = settings["devices"]
    launch("twinrun.training.train:train", asked, variables, workers=workers)
    return load_file(folder / "weights.safetensors")


def weights_of_script(trainer):
    """Train as a script of the user's does."""
    pl.seed_everything(1, workers=True, verbose=False)
    data = Points(size=70, seed=1)
    module = Small(learning_rate=0.1)
    pl.Trainer(
        accelerator="cpu",
        max_epochs=WORKLOAD["epochs"],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **trainer,
    ).fit(module, datamodule=data)
    return module.state_dict()


@pytest.mark.parametrize("trainer", CLIPPING, ids=["norm", "value"])
def test_a_run_is_the_training_of_a_script_with_the_same_arguments(tmp_path, trainer):
    with torch.random.fork_rng():
        expected, unbounded = weights_of_script(trainer), weights_of_script({})
    found = weights_of(tmp_path / "run", trainer)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert any(not torch.equal(expected[name], unbounded[name]) for name in expected)


def test_they_are_settings_of_the_run(tmp_path):
    weights_of(tmp_path / "run", BY_NORM)
    settings = artifacts.read_json(tmp_path / "run/run.json")["settings"]
    assert BY_NORM.items() <= settings["workload"]["trainer"].items()


def test_two_workers_clip_what_one_does(tmp_path):
    """What is clipped is the gradient of the whole batch, not of each share."""
    exact = {"precision": "64-true"}
    one = weights_of(tmp_path / "one", BY_NORM, **exact)
    two = weights_of(tmp_path / "two", BY_NORM, devices=2, **exact)
    unbounded = weights_of(tmp_path / "unbounded", {}, **exact)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-12, atol=1e-14, msg=name)
    assert any(not torch.allclose(one[name], unbounded[name]) for name in one)


def test_micro_batches_are_clipped_when_they_are_added_up(tmp_path):
    exact = {"precision": "64-true"}
    whole = weights_of(tmp_path / "whole", BY_NORM, **exact)
    parts = weights_of(tmp_path / "parts", BY_NORM, accumulate=2, **exact)
    # `calls` counts what is called, and each micro-batch is.
    for name in whole.keys() - {"calls"}:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-12, atol=1e-14, msg=name)


def training(**variant):
    workload = Workload(**{**WORKLOAD, "trainer": TrainerArguments(**BY_NORM)})
    variant = Variant(**{**VARIANT, **variant})
    return Training(workload=workload, variant=variant, seed=1, dataset=None, search_path=[HERE])


def test_each_of_them_reaches_the_trainer(tmp_path):
    told = {"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}
    objects = {"callbacks", "logger"}  # see test_trainer_objects
    assert told.keys() == {field.name for field in fields(TrainerArguments)} - objects
    variant, given = training().variant, TrainerArguments(**told)
    trainer = trainer_of(variant, given, root=str(tmp_path), callbacks=[], max_epochs=1)
    assert {name: getattr(trainer, name) for name in told} == told


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


def test_a_step_is_replayed_with_the_same_arguments():
    with replay._trained(training(), []) as (trainer, _, _):
        assert trainer.gradient_clip_val == BY_NORM["gradient_clip_val"]

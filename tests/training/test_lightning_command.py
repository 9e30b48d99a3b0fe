"""A workload that is a config of LightningCLI trains what LightningCLI itself does, to the bit."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from example_trainings import HERE, VARIANT
from given_objects import DrawnPoints, Given
from msgspec import convert
from pytorch_lightning.cli import LightningCLI
from small import Points

from twinrun.config.definitions import Training, Variant, Workload
from twinrun.config.lightning_cli import written_out
from twinrun.config.shipped import SCHEMA
from twinrun.training.assemble import build, trainer_of
from twinrun.training.build_workload import wrong_values

RULES = yaml.safe_load(SCHEMA.read_text())
NET = "{class_path: given_objects.Net, init_args: {width: 5}}"
BY_CLASS = f"""
seed_everything: 3
trainer:
  max_epochs: 2
  gradient_clip_val: 0.5
  callbacks:
    class_path: pytorch_lightning.callbacks.GradientAccumulationScheduler
    init_args: {{scheduling: {{0: 2, 1: 1}}}}
model:
  class_path: given_objects.Given
  init_args:
    net: {NET}
    optimizer: {{class_path: torch.optim.Adam, init_args: {{lr: 1e-2, betas: [0.8, 0.9]}}}}
    scheduler: {{class_path: torch.optim.lr_scheduler.StepLR, init_args: {{step_size: 1}}}}
data: {{class_path: small.Points, init_args: {{size: 50}}}}
"""
OF_ONE_CLASS = f"""
seed_everything: 3
trainer: {{max_epochs: 2}}
model: {{net: {NET}, loss: torch.nn.functional.l1_loss}}
data: {{size: 50}}
"""
WITH_OPTIMIZER = f"""
seed_everything: 3
trainer: {{max_epochs: 2}}
model: {{class_path: given_objects.Saved, init_args: {{net: {NET}, rates: [1, 2]}}}}
data: {{class_path: small.Points}}
optimizer: {{class_path: torch.optim.AdamW, init_args: {{lr: 1e-2, betas: [0.8, 0.9]}}}}
lr_scheduler: {{class_path: torch.optim.lr_scheduler.ExponentialLR, init_args: {{gamma: 0.5}}}}
"""
WITHOUT_ARGUMENTS = """
seed_everything: 3
trainer: {max_epochs: 2}
model: given_objects.Bare
data: given_objects.BarePoints
optimizer: {class_path: torch.optim.Adam}
"""
WITH_SHORT_NAMES = """
seed_everything: 3
trainer: {max_epochs: 2}
model: given_objects.Bare
data: given_objects.BarePoints
optimizer: {class_path: Adam, init_args: {lr: 1e-2}}
lr_scheduler: {class_path: ExponentialLR, init_args: {gamma: 0.5}}
"""
WITH_DEFAULTS = WITHOUT_ARGUMENTS.replace("Bare\n", "BareWithActivation\n")

# The fixed noise of a generator's pictures, say.
DRAWS = "[{class_path: given_objects.Draws, init_args: {numbers: 5}}]"
WITH_CALLBACK, OF_ONE_CLASS_WITH_CALLBACK = (
    text.replace("max_epochs: 2", f"max_epochs: 2, callbacks: {DRAWS}")
    for text in (WITH_SHORT_NAMES, OF_ONE_CLASS)
)
OF_ONE = (Given, Points), {"module": "given_objects:Given", "data": "small:Points"}


def commanded(text, folder, classes):
    """Train by LightningCLI."""
    given = yaml.safe_load(text)
    given.setdefault("data", {})
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    (folder / "quiet.yaml").write_text(text)
    command = LightningCLI(
        *classes,
        args=["--config", str(folder / "quiet.yaml")],
        trainer_defaults={**quiet, "accelerator": "cpu", "default_root_dir": str(folder)},
        run=False,
        save_config_callback=None,
    )
    before = {name: value.clone() for name, value in command.model.state_dict().items()}
    command.trainer.fit(command.model, datamodule=command.datamodule)
    return before, command.model


def of_workload(text, folder, beside):
    file = Path(folder, "train.yaml")
    file.write_text(text)
    found = written_out({"workloads": {"mine": {"cli": str(file), **beside}}}, RULES)
    assert found.mistakes == []
    made = {**found.config["workloads"]["mine"], "cli": found.commands["mine"]}
    return convert({"dataset": None, "hyperparameters": {}, **made}, Workload)


def trained(text, folder, beside):
    """Train as a run does."""
    variant = Variant(**{**VARIANT, "threads": torch.get_num_threads()})
    asked = Training(
        workload=of_workload(text, folder, beside),
        variant=variant,
        seed=3,
        dataset=None,
        search_path=[HERE],
    )
    assert list(wrong_values(asked.workload, [HERE])) == []
    module, data, _ = build(asked)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    trainer = trainer_of(
        variant,
        asked.workload.trainer,
        root=str(folder),
        callbacks=[],
        max_epochs=asked.workload.epochs,
    )
    trainer.fit(module, datamodule=data)
    return before, module


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "classes", "beside"),
    [
        (BY_CLASS, (), {}),
        (OF_ONE_CLASS, *OF_ONE),
        (WITH_OPTIMIZER, (), {}),
        # Red before: a KeyError, and a training without the two validation batches at its start.
        (WITHOUT_ARGUMENTS, (), {}),
        (WITH_DEFAULTS, (), {}),
        # Red before: "'Adam' names no class".
        (WITH_SHORT_NAMES, (), {}),
        # Red before: other weights, as the callback was made after them.
        (WITH_CALLBACK, (), {}),
        (OF_ONE_CLASS_WITH_CALLBACK, *OF_ONE),
    ],
    ids=[
        *("by class path", "of one class", "with optimizer", "without arguments", "with defaults"),
        *("with short names", "with a callback that draws", "of one class and such a callback"),
    ],
)
def test_it_is_the_training_of_the_command(tmp_path, text, classes, beside):
    # The run gives the data its seed.
    text_of_command = yaml.safe_load(text)
    data = text_of_command["data"]
    if isinstance(data, dict):
        (data if "class_path" not in data else data.setdefault("init_args", {}))["seed"] = 3
    expected = commanded(yaml.safe_dump(text_of_command), tmp_path, classes)
    found = trained(text, tmp_path, beside)
    for one, other in ((expected[0], found[0]), *[[m[1].state_dict() for m in (expected, found)]]):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(v, found[0][k]) for k, v in found[1].state_dict().items())
    theirs, ours = (dict(m[1].hparams) for m in (expected, found))
    assert {k: v for k, v in theirs.items() if k != "_class_path"} == ours


def test_the_default_seed_of_the_data_can_be_left_as_the_command_leaves_it(tmp_path):
    _, expected = commanded(BY_CLASS, tmp_path, ())
    of_run, of_command = (
        trained(BY_CLASS, tmp_path, beside)[1].state_dict()
        for beside in ({}, {"from_run": {"seed": None}})
    )
    assert all(torch.equal(v, of_command[k]) for k, v in expected.state_dict().items())
    assert not all(torch.equal(v, of_run[k]) for k, v in expected.state_dict().items())


CLASSES = {
    "model": ("given_objects.Given", f"{{net: {NET}}}"),
    "data": ("given_objects.DrawnPoints", "{noise: {class_path: given_objects.Noise}}"),
}


@pytest.mark.parametrize("fixed", [(), ("model",), ("data",), ("model", "data")], ids=str)
def test_classes_are_made_in_the_order_of_the_command(tmp_path, fixed):
    """Red before where the command has a class of its own: the data draws before the module."""
    text = "seed_everything: 3\ntrainer: {max_epochs: 2}\n"
    for key, (path, arguments) in CLASSES.items():
        by_path = f"{{class_path: {path}, init_args: {arguments}}}"
        text += f"{key}: {arguments if key in fixed else by_path}\n"
    targets = {"model": "module", "data": "data"}
    beside = {targets[key]: CLASSES[key][0].replace(".", ":") for key in fixed}
    classes = [{"model": Given, "data": DrawnPoints}[k] if k in fixed else None for k in CLASSES]
    before, expected = commanded(text, tmp_path, classes)
    first, found = trained(text, tmp_path, beside)
    assert all(torch.equal(before[name], first[name]) for name in before)
    theirs, ours = expected.state_dict(), found.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_mistakes_name_the_file(tmp_path):
    text = """
    trainer: {max_epochs: 1}
    model: {class_path: given_objects.Given, init_args: {net: a.B, betas: 3, widht: 2}}
    data: {class_path: small.Points, init_args: {sizes: 3}}
    optimizer: {class_path: torch.optim.Adam, init_args: {lrr: 1}}
    """
    found = list(wrong_values(of_workload(text, tmp_path, {}), [HERE]))
    file = tmp_path / "train.yaml"
    assert [each.removeprefix(f"cli: {file}: ").partition(": ")[0] for each in found] == [
        "optimizer",
        "model.net",
        "model.betas",
        "data.sizes",
    ]


ASKS = """
import pytorch_lightning as pl

class Net(pl.LightningModule):
    def __init__(self, optimizer: pl.cli.OptimizerCallable = None):
        super().__init__()
"""
LOADS = """
import sys
import pytorch_lightning as pl
from twinrun.config.definitions import Workload
from twinrun.training.load_workload import load_constructor
made = {"module": "asks:Net", "data": None, "dataset": None, "hyperparameters": {}, "epochs": 1}
print(load_constructor(Workload(**made, cli="any"), "module", pl.LightningModule, sys.argv[1:]))
"""


@pytest.mark.exhaustive
def test_a_file_may_name_what_the_command_has_imported(tmp_path):
    """Red before: "module 'pytorch_lightning' has no attribute 'cli'"."""
    (tmp_path / "asks.py").write_text(ASKS)
    found = subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "asks.Net" in found.stdout, found.stderr

"""Callbacks and loggers by class path: made for each training, treated as a module's own."""

import copy
import random
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import HERE, VARIANT, WORKLOAD
from small import Small

from twinrun.config.definitions import TrainerArguments, Training, Variant, Workload
from twinrun.errors import TwinrunError
from twinrun.training.assemble import build, trainer_of
from twinrun.training.rehearsal_plan import Part
from twinrun.training.rehearse_workload import rehearse_part
from twinrun.training.trainer_objects import wrong_in_trainer
from twinrun.training.without_checkpoints import without_checkpoints

STOPPING = {"monitor": "val_loss", "patience": 3}
GIVEN = {
    "callbacks": [
        # Either of the names that Lightning is published under.
        {"class_path": "lightning.pytorch.callbacks.EarlyStopping", "init_args": STOPPING},
        {"class_path": "test_trainer_objects.Noting", "init_args": {"word": "a"}},
        "pytorch_lightning.callbacks.LearningRateMonitor",
        {
            "class_path": "pytorch_lightning.callbacks.ModelCheckpoint",
            "init_args": {"dirpath": "kept", "save_last": True},
        },
    ],
    "logger": {"class_path": "lightning.pytorch.loggers.CSVLogger", "init_args": {"save_dir": "l"}},
}


class Noting(pl.Callback):
    def __init__(self, word: str, fails_in: str = ""):
        self.word, self.fails_in, self.seen = word, fails_in, []

    def on_train_batch_end(self, trainer, pl_module, *_):
        self.seen.append(trainer.global_step)
        if self.fails_in == "step":
            raise ValueError("no such word")

    def on_test_start(self, trainer, pl_module):
        self.seen.append("test")


class Brings(Small):
    def configure_callbacks(self):
        return Noting("own")


def training(given=GIVEN, **workload):
    folder = str(Path(__file__).parent)
    asked = {**WORKLOAD, "trainer": TrainerArguments(**given), **workload}
    return Training(
        workload=Workload(**asked),
        variant=Variant(**{**VARIANT, "threads": 1}),
        seed=1,
        dataset=None,
        search_path=[HERE, folder],
    )


def fitted(asked, folder, act=lambda module: None):
    module, data, _ = build(asked)
    module = act(module) or module
    trainer = trainer_of(
        asked.variant, asked.workload.trainer, root=str(folder), callbacks=[], max_epochs=1
    )
    trainer.fit(module, datamodule=data)
    return trainer, module, data


def kinds(trainer):
    return [type(each).__name__ for each in trainer.callbacks]


def test_they_are_in_the_trainer_of_every_training(tmp_path, monkeypatch):
    users = tmp_path / "users"
    users.mkdir()
    monkeypatch.chdir(users)
    trainer, module, data = fitted(training(), tmp_path / "root")
    names = ["EarlyStopping", "Noting", "LearningRateMonitor", "ModelCheckpoint"]
    assert kinds(trainer)[-4:] == names
    assert isinstance(trainer.logger, pl.loggers.CSVLogger)
    noting = trainer.callbacks[-3]
    assert (noting.word, noting.seen) == ("a", [1, 2, 3, 4, 5])
    trainer.test(module, data, verbose=False)
    assert noting.seen[-1] == "test", "a test is watched by the same object"
    assert list((tmp_path / "root/kept").iterdir())
    assert list((tmp_path / "root/l").rglob("metrics.csv"))
    assert not [*users.iterdir()], "nothing lies in the user's folder"
    again, *_ = fitted(training(), tmp_path / "again")
    assert again.callbacks[-3] is not noting
    assert again.callbacks[-3].seen == [1, 2, 3, 4, 5]


def test_a_copy_of_a_module_brings_its_own(tmp_path):
    """A timing copies the module that it has constructed, and leaves checkpoints out."""

    def act(module):
        found = copy.deepcopy(module)
        without_checkpoints(found)
        return found

    first, second = (fitted(training(), tmp_path / name, act)[0] for name in "ab")
    assert kinds(first)[-3:] == ["EarlyStopping", "Noting", "LearningRateMonitor"]
    assert first.callbacks[-2] is not second.callbacks[-2]


def test_what_a_module_brings_replaces_its_kind(tmp_path):
    trainer, *_ = fitted(training(module="test_trainer_objects:Brings"), tmp_path)
    (noting,) = [each for each in trainer.callbacks if type(each).__name__ == "Noting"]
    assert noting.word == "own"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"callbacks": [{"class_path": "torch.nn.ReLU"}]},
            "trainer.callbacks.0: torch.nn.ReLU is no Callback",
        ),
        (
            {"callbacks": ["lightning.pytorch.callbacks.EarlyStoping"]},
            "trainer.callbacks.0: lightning.pytorch.callbacks.EarlyStoping: module",
        ),
        (
            {
                "logger": [
                    {"class_path": "lightning.pytorch.loggers.CSVLogger", "init_args": {"a": 1}}
                ]
            },
            "trainer.logger.0: lightning.pytorch.loggers.CSVLogger: takes no argument 'a'",
        ),
        (
            {"callbacks": [{"init_args": {}}]},
            "trainer.callbacks.0: class_path is missing, which names the class",
        ),
        (
            {"callbacks": [{"class_path": 5}]},
            "trainer.callbacks.0.class_path: 5 names no class; write",
        ),
        (
            {"callbacks": ["EarlyStoping"]},
            "trainer.callbacks.0: no class of Lightning's is called 'EarlyStoping', did you mean "
            "{class_path: EarlyStopping, init_args: {monitor: ...}}?",
        ),
        (
            {"logger": ["wandb"]},
            "trainer.logger.0: no class of Lightning's is called 'wandb', did you mean "
            "WandbLogger?",
        ),
        (
            {"callbacks": [{"class_path": "Mine"}]},
            "trainer.callbacks.0: no class of Lightning's is called 'Mine'; a class of your own is "
            "package.module.Mine",
        ),
        ({"callbacks": [None]}, "trainer.callbacks.0: null names no class; write"),
        (
            {"callbacks": [{"class_path": "EarlyStopping", "init_args": [1]}]},
            "trainer.callbacks.0.init_args: [1] is no mapping of arguments",
        ),
        (
            {"logger": "csv"},
            "trainer.logger: no class of Lightning's is called 'csv', did you mean {class_path: "
            "CSVLogger, init_args: {save_dir: ...}}?",
        ),
        (
            {"callbacks": ["own:Cb"]},
            "trainer.callbacks.0: 'own:Cb' names no class, did you mean own.Cb?",
        ),
        (
            {"callbacks": [{"class_path": "own.parts:Cb", "init_args": {"n": 1}}]},
            "trainer.callbacks.0: 'own.parts:Cb' names no class, did you mean own.parts.Cb?",
        ),
        (
            {"callbacks": [{"class_path": "Timer", "init_arg": {"n": 1}}]},
            "trainer.callbacks.0: 'init_arg' is no key of an object, did you mean init_args?",
        ),
        (
            {"callbacks": [{"class_path": "EarlyStopping", "monitor": "val_loss"}]},
            "trainer.callbacks.0: 'monitor' is no key of an object; arguments stand under "
            "init_args: {...}",
        ),
        (
            {"callbacks": [{"_target_": "own.Cb", "n": 1}]},
            "trainer.callbacks.0: class_path is missing, which names the class; _target_ is "
            "Hydra's, write {class_path: own.Cb, init_args: {...}}",
        ),
    ],
)
def test_a_mistake_is_a_sentence(given, sentence):
    (found,) = wrong_in_trainer(TrainerArguments(**given))
    assert found.startswith(sentence)


def test_a_failure_names_the_callback():
    """Red before: the module was said to have failed."""
    init = {"word": "a", "fails_in": "step"}
    given = {"callbacks": [{"class_path": "test_trainer_objects.Noting", "init_args": init}]}
    asked = training(given)
    part = Part(key="workloads.mine", label="mine", training=asked)
    (found,) = rehearse_part(part, lambda text: None)["mistakes"]
    assert found == (
        "workloads.mine.trainer.callbacks.0: Noting failed in what follows the first training "
        "step with ValueError: no such word"
    )


def test_a_constructor_that_fails_names_the_callback(tmp_path):
    given = {
        "callbacks": [
            {"class_path": "pytorch_lightning.callbacks.Timer", "init_args": {"duration": "x"}}
        ]
    }
    with pytest.raises(TwinrunError, match=r"trainer\.callbacks\.0: making .*Timer failed with"):
        fitted(training(given), tmp_path)


def test_lightnings_classes_need_no_package(tmp_path):
    """Red before: ":CSVLogger" was imported."""
    given = {
        "callbacks": [{"class_path": "EarlyStopping", "init_args": STOPPING}],
        "logger": {"class_path": "CSVLogger", "init_args": {"save_dir": "l"}},
    }
    trainer, *_ = fitted(training(given), tmp_path)
    assert "EarlyStopping" in kinds(trainer)
    assert list((tmp_path / "l").rglob("metrics.csv"))


class Unmade(pl.loggers.CSVLogger):
    def __init__(self):
        raise ModuleNotFoundError("not installed:\n  a package")


class Drawing(pl.Callback):
    def __init__(self):
        self.noise = torch.randn(3)


class DrawingLogger(pl.loggers.CSVLogger):
    def __init__(self, save_dir: str):
        super().__init__(save_dir)
        self.number = random.random()


def test_what_draws_when_it_is_made_is_said(tmp_path):
    """Red before: a script that made it before the module had other weights, without a word."""
    logger = {"class_path": "test_trainer_objects.DrawingLogger", "init_args": {"save_dir": "a"}}
    callbacks = ["test_trainer_objects.Drawing", "pytorch_lightning.callbacks.Timer"]
    given = training({"callbacks": callbacks, "logger": logger})
    part = Part(key="workloads.mine", label="mine", training=given)
    found = rehearse_part(part, lambda text: None)
    assert found["mistakes"] == []
    assert found["notes"][:2] == [
        f"mine: trainer.{key}: test_trainer_objects.{name} draws random numbers when it is made, "
        f"which is after the module; a script that makes it first starts from other weights"
        for key, name in (("callbacks.0", "Drawing"), ("logger", "DrawingLogger"))
    ]


class Unshown(pl.Callback):
    def __init__(self):
        raise ModuleNotFoundError("not installed:\n  a package")


@pytest.mark.parametrize(
    ("given", "key", "name"),
    [
        ({"logger": "test_trainer_objects.Unmade"}, "logger", "Unmade"),
        ({"callbacks": ["test_trainer_objects.Unshown"]}, "callbacks.0", "Unshown"),
    ],
)
def test_what_cannot_be_made_is_a_sentence_of_the_rehearsal(given, key, name):
    """Red before: of a logger the process ended, of a callback the key was missing."""
    part = Part(key="workloads.mine", label="mine", training=training(given))
    (found,) = rehearse_part(part, lambda text: None)["mistakes"]
    assert found == (
        f"workloads.mine.trainer.{key}: making test_trainer_objects.{name} failed with "
        f"ModuleNotFoundError: not installed: a package"
    )

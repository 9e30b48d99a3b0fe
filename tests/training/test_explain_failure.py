"""Which argument a failure is due to: named by the message, or odd beside annotation or default."""

import doctest
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Literal, TypedDict

import pytest
import pytorch_lightning as pl
from example_trainings import VARIANT, WORKLOAD
from lightning_fabric.utilities.data import AttributeDict
from msgspec import convert
from torch.utils.data import DataLoader

from twinrun.config.definitions import Variant, Workload
from twinrun.errors import TwinrunError
from twinrun.training import explain_failure, rehearsal_words
from twinrun.training.constructors import arguments_of
from twinrun.training.explain_failure import booleans_as_texts, explained, explained_failure
from twinrun.training.explain_refusal import explain_refusal
from twinrun.training.rehearsal_plan import Part
from twinrun.training.rehearsal_words import failure


@dataclass
class Settings:
    depth: int = 1


class Said(TypedDict):
    depth: int


class Net:
    def __init__(
        self,
        width: int,
        rate=0.1,
        *,
        sizes: list[int] | None = None,
        mode: Literal["a", "b"] = "a",
        sloppy: int = 0.5,
        path: str = None,  # noqa: RUF013 (as many write it)
        flag=True,
        free=None,
        unknown: "Absent" = None,  # noqa: F821
        several: "int | Absent" = 3,  # noqa: F821
        settings: Settings | None = None,
        mapping: dict | None = None,
        said: Said | None = None,
        thing: object = None,
    ):
        pass


ASKED = "which the constructor asks for"
TAKERS = {"mine:Net": arguments_of(Net)}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"width": "8"},
            "width: '8' is not a whole number, which the constructor asks for; write 8",
        ),
        (
            {"width": 8.0},
            "width: 8.0 is not a whole number, which the constructor asks for; write 8",
        ),
        ({"width": None}, f"width: null is not a whole number, {ASKED}"),
        ({"rate": "1e-3"}, "rate: '1e-3' is a text, where the default is 0.1; write 1.0e-3"),
        ({"rate": None}, "rate: null, where the default is 0.1"),
        ({"rate": True}, "rate: true, where the default is 0.1"),
        ({"sizes": ["a"]}, f"sizes: ['a'] is no list[int] | None, {ASKED}"),
        ({"mode": "c"}, f"mode: 'c' is no Literal['a', 'b'], {ASKED}"),
        ({"flag": 2}, "flag: 2 is a whole number, where the default is true"),
        ({"path": 3}, f"path: 3 is not a text, {ASKED}"),
        (
            {"settings": {"depth": 2}},
            "settings: {'depth': 2} is a mapping, where the constructor asks for an object of "
            "Settings, which is {class_path: package.Class, init_args: {...}}",
        ),
    ],
)
def test_an_odd_value_is_a_suspect_where_something_fails(given, sentence):
    (found,) = explained(TypeError("something else"), given, TAKERS)
    assert found.startswith(f"hyperparameters.{sentence}")


@pytest.mark.parametrize(
    "given",
    [
        {"width": 8, "rate": 1, "mode": "b", "flag": False},
        {"sizes": [1, 2]},
        {"settings": {"class_path": "anything.Settings"}},  # made already, as its class says
        {"mapping": {"a": 1}, "said": {"depth": 1}, "thing": {"a": 1}, "free": {"a": 1}},
        {"sizes": None, "path": None, "free": "x", "unknown": "y", "several": [1, 2]},
        {"sloppy": 0.7},  # the default contradicts the annotation already
    ],
)
def test_what_is_not_odd_is_no_suspect(given):
    assert explained(TypeError("something else"), given, TAKERS) == []


@pytest.mark.parametrize(
    ("text", "given", "names"),
    [
        ("rate must be positive", {"rate": -1.0, "width": 3}, ["rate"]),
        ("Invalid learning rate: -0.5", {"rate": -0.5, "width": 3}, ["rate"]),
        ("negative dimension -3: [4, -3]", {"rate": 0.5, "width": -3}, ["width"]),
        ("expected 3 channels", {"width": 3}, []),  # a usual number, in a message about others
        ("separate things", {"rate": 0.5}, []),  # `rate` is no word of it
    ],
)
def test_what_the_message_names_or_shows_is_the_culprit(text, given, names):
    found = explained(ValueError(text), given, TAKERS)
    assert [sentence.split(":")[0] for sentence in found] == [f"hyperparameters.{n}" for n in names]


def test_of_several_suspects_the_one_that_is_named_is_told():
    found = explained(ValueError("width is wrong"), {"width": "8", "rate": "x"}, TAKERS)
    assert [sentence.split(":")[0] for sentence in found] == ["hyperparameters.width"]


def test_what_no_constructor_names_is_told_to_go_to_several():
    """Red before: a size of batches was refused, by a loss that it had gone to as well."""
    takers = {path: arguments_of(lambda **more: more) for path in ("mine:Net", "mine:Data")}
    (found,) = explained(TypeError("unexpected keyword 'batch_size'"), {"batch_size": 9}, takers)
    assert found.endswith("so that it goes to mine:Net and mine:Data; `cli` gives each its own")


def test_a_mapping_without_attributes_is_told_what_gives_them():
    """Red before: "'dict' object has no attribute 'model'", and no word of a remedy."""
    with pytest.raises(AttributeError) as failure:
        {"model": 3}.model  # noqa: B018
    told = explained_failure("it", failure.value, {"cfg": {"model": 3}}, {})
    assert told.endswith("annotated with another class (omegaconf.DictConfig, argparse.Namespace)")


@pytest.mark.parametrize(
    ("use", "given", "name"),
    [
        (lambda made: made(lr=1), {"optimizer": {"_target_": "torch.optim.Adam"}}, "optimizer"),
        (lambda made: made.forward, {"nets": [{"a": {"_target_": "mine.Net"}}]}, "nets"),
    ],
)
def test_an_object_in_the_form_of_hydra_is_told_the_form_of_ours(use, given, name):
    """Red before: "'dict' object is not callable", and no word of which argument and why."""
    with pytest.raises((TypeError, AttributeError)) as failure:
        use({"_target_": "anything"})
    told = explained_failure("it", failure.value, {"width": 3, **given}, TAKERS)
    assert told.endswith(
        f"; hyperparameters.{name} has _target_, of which Hydra would make an object and a run "
        "hands on a mapping; an object is {class_path: package.Class, init_args: {...}}"
    )


@pytest.mark.parametrize("told", [{"persistent_workers": True}, {"prefetch_factor": 2}])
def test_what_needs_data_workers_is_told_whose_number_it_is(told):
    """Red before: `hyperparameters.prefetch_factor` was blamed, which suits the user's number.

    Red later: "say `data_workers: 1` or more in the variants", where the rehearsal has none.
    """
    with pytest.raises(ValueError, match="num_workers > 0") as failure:
        DataLoader([1, 2], num_workers=0, **told)
    said = explained_failure("the first batch", failure.value, told, TAKERS)
    assert said.startswith("the first batch failed with ValueError: ")
    assert said.endswith("(`from_run: {data_workers: null}`)")
    assert "in the variants" not in said
    with pytest.raises(TwinrunError, match=r"^variants\.one\.data_workers: .*from_run"):
        explain_refusal(failure.value, "one")


def test_a_failure_is_one_short_sentence():
    error = ValueError("first\nsecond " + "x" * 9000)
    text = explained_failure(
        "constructing mine:Net", error, {"width": 3}, TAKERS, "mine.py, line 3"
    )
    assert text == "constructing mine:Net failed with ValueError: first (mine.py, line 3)"
    assert len(explained_failure("it", ValueError("x" * 9000), {}, TAKERS)) < 400
    assert explained_failure("it", KeyError(), {}, TAKERS) == "it failed with KeyError"
    told = explained_failure("it", ValueError("`Trainer` that has no logger."), {}, TAKERS)
    assert told.endswith("; say logging: true in the variants")


def test_what_a_plain_trainer_has_by_default_is_named_by_its_key():
    names = ("logger", "checkpoint_callback", "progress_bar_callback", "other")
    trainer = SimpleNamespace(**dict.fromkeys(names))

    def failure_of(act):
        with pytest.raises(AttributeError) as failure:
            act()
        return explained_failure("it", failure.value, {}, TAKERS)

    assert failure_of(lambda: trainer.logger.log_dir).endswith("what `trainer.logger` names")
    told = failure_of(lambda: trainer.checkpoint_callback.best_model_path)
    assert told.endswith("a run has no ModelCheckpoint but what `trainer.callbacks` names")
    told = failure_of(lambda: trainer.progress_bar_callback.print("x"))
    assert told.endswith("a run has no progress bar unless its variant says logging: true")
    assert failure_of(lambda: trainer.other.attribute).endswith("no attribute 'attribute'")


def test_what_a_packages_own_trainer_adds_is_set_by_a_callback():
    """Red before: "'Trainer' object has no attribute 'logging_kwargs'", and no word of a remedy."""
    with pytest.raises(AttributeError) as failure:
        pl.Trainer(logger=False, accelerator="cpu").logging_kwargs  # noqa: B018
    told = explained_failure("it", failure.value, {}, TAKERS)
    assert told == (
        "it failed with AttributeError: 'Trainer' object has no attribute 'logging_kwargs'; a run "
        "has Lightning's own Trainer, and what a package's own one has beside it a callback of "
        "`trainer.callbacks` can set (in its `setup`)"
    )


def test_a_text_for_a_boolean_is_a_mistake_though_nothing_fails():
    assert list(booleans_as_texts({"flag": False, "free": "no", "rate": 0.1}, TAKERS)) == []
    (found,) = booleans_as_texts({"flag": "No"}, TAKERS)
    assert found.endswith(
        "is a text, which Python takes for true; write no without quotation marks"
    )


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(explain_failure)
    assert found.attempted
    assert found.failed == 0


@pytest.mark.parametrize("owner", [None, "trainer.callbacks.0: LearningRateMonitor"])
def test_variants_without_a_logger_are_named(monkeypatch, owner):
    """Red before: those of the built-in variants are in no config of the user's."""
    monkeypatch.setattr(rehearsal_words, "blamed", lambda _: owner)
    variants = {
        f"variants.{name}": Variant(**{**VARIANT, "logging": logging})
        for name, logging in (("serial", False), ("mine", True))
    }
    training = SimpleNamespace(workload=convert(WORKLOAD, Workload))
    part = Part(key="workloads.small", label="small", training=training, used=variants)
    told = failure("the first batch", ValueError("`Trainer` that has no logger."), part, TAKERS)
    assert told.endswith("; say logging: true in the variants serial")


def test_a_missing_hyperparameter_of_keywords_alone_is_told_where_it_stands():
    """Red before: "'AttributeDict' object has no attribute 'width'", and no word of a key."""
    with pytest.raises(AttributeError) as failure:
        AttributeDict(depth=1).width  # noqa: B018
    told = explained_failure("it", failure.value, {"depth": 1}, TAKERS)
    assert told.endswith(
        "; what `hparams` holds is given to the constructor: hyperparameters.width"
    )

"""Objects as hyperparameters: made as LightningCLI makes them, and of what YAML said."""

import json
from pathlib import Path

import postponed
import pytest
import pytorch_lightning as pl
import torch
import yaml
from example_trainings import HERE
from given_objects import BySettings, DeepEncoder, Encoder, Given, Net, Settings, Spaced
from pytorch_lightning.cli import LightningCLI
from small import Points

from twinrun.config.definitions import Workload
from twinrun.config.schema_check import validate
from twinrun.errors import TwinrunError
from twinrun.training.build_workload import OfRun, build_data, build_module, wrong_values
from twinrun.training.objects import read

NET = """
net:
  class_path: given_objects.Net
  init_args:
    width: 5
    activation: {class_path: torch.nn.Softplus, init_args: {beta: 2}}
optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.01, betas: [0.8, 0.9]}}
scheduler: {class_path: torch.optim.lr_scheduler.StepLR, init_args: {step_size: 1}}
loss: torch.nn.functional.l1_loss
"""


def crossed(text):
    """Return hyperparameters as a job gets them: through the check of a config, and JSON."""
    workload = {"hyperparameters": yaml.safe_load(text)}
    config = validate({"workloads": {"mine": workload}}, {"type": "object"}).config
    return json.loads(json.dumps(config))["workloads"]["mine"]["hyperparameters"]


def workload(text, module="given_objects:Given", **settings):
    given = {"data": "small:Points", "dataset": None, "epochs": 1, **settings}
    return Workload(module=module, hyperparameters=crossed(text), **given)


def built(text, **settings):
    pl.seed_everything(3, workers=True, verbose=False)
    return build_module(workload(text, **settings), [HERE])


def test_the_weights_are_those_of_lightnings_own_command():
    """Drawn by the network that is given first, then by the module that it is given to."""
    made = built(NET)
    expected = LightningCLI(
        Given,
        Points,
        args={"model": yaml.safe_load(NET), "seed_everything": 3},
        run=False,
        save_config_callback=None,
    ).model
    assert all(
        torch.equal(value, expected.state_dict()[name]) for name, value in made.state_dict().items()
    )
    assert made.net.activation.beta == 2
    assert made.loss is torch.nn.functional.l1_loss
    found = made.configure_optimizers()
    assert found["optimizer"].defaults["betas"] == (0.8, 0.9)
    assert isinstance(found["lr_scheduler"], torch.optim.lr_scheduler.StepLR)


def test_each_module_has_objects_of_its_own():
    asked = workload(NET)
    first, second = (build_module(asked, [HERE]) for _ in range(2))
    assert first.net is not second.net


def test_values_and_keys_are_what_yaml_says():
    """Red before: JSON made the texts "0" and "4" of the epochs of a schedule, in silence."""
    made = built(
        """
        net: {class_path: given_objects.Net}
        betas: [1, 0.5]
        factors: {0: 1.0, 4: 0.1}
        plain: {0: one, 0.5: [1, {true: null, 2: x}], null: no, a: 1.0e-5, "!!int 3": "1"}
        other: [{1: 2}]
        """
    )
    assert made.factors == {0: 1.0, 4: 0.1}
    assert made.betas == (1.0, 0.5)
    assert [type(value) for value in made.betas] == [float, float]
    expected = {0: "one", 0.5: [1, {True: None, 2: "x"}], None: False, "a": 1e-5, "!!int 3": "1"}
    assert made.plain == expected
    assert [type(key) for key in made.plain] == [int, float, type(None), str, str]
    assert [type(key) for key in made.plain[0.5][1]] == [bool, int]
    assert made.more == {"other": [{1: 2}]}


def test_objects_are_found_wherever_they_are():
    made = built(
        """
        net: {class_path: torch.nn.Sequential, init_args: {}, dict_kwargs: {}}
        plain: [{class_path: given_objects.Net, init_args: {inner: {class_path: torch.nn.Tanh}}}]
        other: {a: {class_path: given_objects.Net}}
        """.replace(", init_args: {}, dict_kwargs: {}", "")
    )
    (net,) = made.plain
    assert isinstance(net, Net)
    assert isinstance(net.inner, torch.nn.Tanh)
    assert isinstance(made.more["other"]["a"], Net)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{class_path: given_objects.Nett}", "given_objects.Nett: module 'given_objects' has no"),
        ("{class_path: torch.optim.SGD}", "torch.optim.SGD is no Module"),
        (
            "{class_path: given_objects.Net, init_args: {widht: 3}}",
            "given_objects.Net: takes no argument 'widht'",
        ),
        (
            "{class_path: given_objects.Net, init_args: {width: wide}}",
            "given_objects.Net: width: expected int, got wide",
        ),
        (
            "{class_path: given_objects.made}",  # red before: as if there were no way
            "given_objects.made is no Module; a function says by an annotation what it makes: "
            "def made() -> ...",
        ),
        ("torch.nn.RELU", "torch.nn.RELU: module 'torch.nn' has no attribute 'RELU'"),
    ],
)
def test_a_mistake_is_a_sentence_before_anything_is_made(text, sentence):
    (found,) = wrong_values(workload(f"net: {text}"), [HERE])
    assert found.startswith(f"hyperparameters.net: {sentence}")
    with pytest.raises(TwinrunError, match=r"hyperparameters\.net: "):
        built(f"net: {text}")


def test_all_mistakes_are_said_at_once():
    asked = workload("{net: {class_path: given_objects.Net}, betas: [1], factors: {a: b}}")
    assert [text.partition(":")[0] for text in wrong_values(asked, [HERE])] == [
        "hyperparameters.betas",
        "hyperparameters.factors",
    ]


@pytest.mark.parametrize(
    ("module", "text", "width"),
    [
        ("given_objects:Given.tiny", "{rate: 0.5}", 2),
        ("given_objects:Given.tiny", "net: {class_path: given_objects.Net}", 8),
        ("given_objects:part", "net: {class_path: given_objects.Net}", 8),
    ],
)
def test_a_classmethod_or_a_partial_stands_for_a_class(module, text, width):
    made = built(text, module=module)
    assert made.net.hidden.out_features == width
    assert made.plain == ("part" if module.endswith("part") else None)


def test_a_module_without_a_data_module_is_given_what_the_run_gives():
    asked = workload("{size: 32}", module="given_objects:Loading", data=None)
    of_run = OfRun(seed=3, data_workers=2)
    module = build_module(asked, [HERE], of_run)
    assert module.given == (32, 3, 2)
    data = build_data(asked, of_run, module=module)
    hooks = ("train_dataloader", "val_dataloader", "predict_dataloader", "test_dataloader")
    base = pl.LightningDataModule
    own = [getattr(type(data), hook) is not getattr(base, hook) for hook in hooks]
    assert own == [True, True, True, False]


class Failing(torch.nn.Module):
    def __init__(self, depth: int = 1):
        raise ValueError(f"no network of depth {depth}")


def test_an_object_that_cannot_be_made_is_named():
    given = "net: {class_path: test_objects.Failing, init_args: {depth: 7}}"
    with pytest.raises(TwinrunError, match="failed with ValueError: no network of depth 7"):
        build_module(workload(given), [HERE, str(Path(__file__).parent)])


def test_a_mapping_where_an_object_is_wanted_is_told_how_one_is_written():
    (found,) = wrong_values(workload("net: {width: 3}"), [HERE])
    assert found.endswith("; an object is {class_path: package.Class, init_args: {...}}")


@pytest.mark.parametrize(
    "text",
    [
        "spaced: {width: 16, more: {deep: 2}}",
        "spaced: {class_path: argparse.Namespace, dict_kwargs: {width: 16, more: {deep: 2}}}",
        "untyped: {class_path: types.SimpleNamespace, init_args: {width: 16, more: {deep: 2}}}",
    ],
)
def test_a_namespace_is_made_of_a_mapping(text):
    """Red before: an empty one, or the advice that led to it."""
    given = workload(text, module="given_objects:Spaced")
    assert list(wrong_values(given, [HERE])) == []
    made = build_module(given, [HERE])
    found = made.untyped or made.spaced
    assert (found.width, found.more) == (16, {"deep": 2})
    assert isinstance(made, Spaced)


def test_what_cannot_be_made_of_its_arguments_asks_for_an_annotation():
    """Red before: "'Namespace' object is not callable", from the module's line."""
    text = "untyped: {class_path: torch.utils.data.DataLoader, init_args: {batch_size: 3}}"
    with pytest.raises(TwinrunError, match=r"untyped: torch\.utils\.data\.DataLoader .*Callable"):
        build_module(workload(text, module="given_objects:Spaced"), [HERE])


LATER = """
optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.5}}
scheduler: {class_path: torch.optim.lr_scheduler.ReduceLROnPlateau, init_args: {factor: 0.2}}
"""


def test_optimizer_and_schedule_are_made_later_whatever_the_annotation():
    """Red before: "required: params", where a template has `optimizer: torch.optim.Optimizer`."""
    asked = workload(LATER, module="postponed:Templated")
    assert list(wrong_values(asked, [HERE])) == []
    found = build_module(asked, [HERE]).configure_optimizers()
    assert found["optimizer"].defaults["lr"] == 0.5
    assert found["lr_scheduler"]["scheduler"].factor == 0.2
    wrong = workload(LATER.replace("lr:", "rate:"), module="postponed:Templated")
    (sentence,) = wrong_values(wrong, [HERE])
    assert sentence.startswith("hyperparameters.optimizer: torch.optim.Adam: takes no argument")


def test_a_class_of_mappings_is_made_of_a_mapping():
    """Red before: a dict, which has none of the attributes that the module asks for."""
    text = "{cfg: {width: 5}, untyped: {lr: 1}}"
    made = build_module(workload(text, module="postponed:Configured"), [HERE])
    assert (made.cfg.width, made.untyped) == (5, {"lr": 1})


def test_arguments_by_position_alone_are_given_so():
    """Red before: "missing 1 required positional argument: 'width'", given as it was."""
    made = build_module(workload("{width: 5, rate: 2}", module="postponed:ByPosition"), [HERE])
    assert made.given == (5, 1, 2)


def test_annotations_are_read_one_by_one():
    """Red before: one name of the type checkers alone made all of them texts; paths were texts."""
    asked = workload(
        "{act: GELU, names: [x], folder: data, size: [1, 2], mode: max}",
        module="postponed:Postponed",
    )
    assert list(wrong_values(asked, [HERE])) == []
    expected = {"act": postponed.Act.GELU, "names": ["x"], "folder": Path("data"), "size": (1, 2)}
    assert build_module(asked, [HERE]).given == {**expected, "mode": "max"}


def test_a_path_may_be_a_text_where_the_annotation_allows_it():
    def constructor(root: Path | str = "here", other: Path = Path("there"), kind: complex = 0j):
        pass

    given = {"root": "data", "other": "data", "kind": "1+2j"}
    assert read(constructor, given) == {"root": "data", "other": Path("data"), "kind": 1 + 2j}


@pytest.mark.parametrize("path", ["given_objects.made_with", "given_objects.MadeWith"])
def test_what_is_taken_by_keywords_alone_is_said_to_stand_elsewhere(path):
    """Red before: "takes no argument 'width'", and no way to give it."""
    text = f"net: {{class_path: {path}, init_args: {{kind: small, width: 4}}}}"
    (sentence,) = wrong_values(workload(text), [HERE])
    assert "takes no argument 'width'; what it takes by its **kwargs stands under dict" in sentence
    right = f"net: {{class_path: {path}, init_args: {{kind: small}}, dict_kwargs: {{width: 4}}}}"
    assert built(right).net.hidden.out_features == 4


DEEP = {"class_path": "given_objects.DeepEncoder", "init_args": {"depth": 3}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"settings": {"rate": 0.1}}, (Settings(rate=0.1), None)),
        ({"settings": {"encoder": {"width": 5}}}, (Settings(Encoder(5)), None)),
        ({"settings": {"encoder": DEEP}}, (Settings(DeepEncoder(depth=3)), None)),
        ({"settings": {}, "encoder": DEEP}, (Settings(), DeepEncoder(depth=3))),
        (
            {"settings": {"class_path": "given_objects.settings_of"}},
            (Settings(DeepEncoder(depth=7), 0.5), None),
        ),
    ],
)
def test_a_dataclass_may_be_one_that_is_derived_or_come_from_a_function(given, expected):
    """Red before, but for the first two: "Subclasses are disabled for Encoder"."""
    hyperparameters = {"settings": {"class_path": "given_objects.Settings"}} | given
    text = json.dumps(hyperparameters)
    assert list(wrong_values(workload(text, "given_objects:BySettings"), [HERE])) == []
    made = built(text, module="given_objects:BySettings")
    assert (made.settings, made.encoder) == expected
    # LightningCLI's own rule is what it was.
    with pytest.raises(TwinrunError, match="Subclasses are disabled"):
        read(BySettings, {"settings": {"encoder": DEEP}}, is_all=True)


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (
            "{class_path: 'given_objects:Net'}",
            "'given_objects:Net' names no class, did you mean given_objects.Net?",
        ),
        (
            "{class_path: given_objects.Net, init_arg: {width: 3}}",
            "'init_arg' is no key of an object, did you mean init_args?",
        ),
        (
            "{class_path: given_objects.Net, width: 3}",
            "'width' is no key of an object; arguments stand under init_args: {...}",
        ),
        (
            "{class_path: given_objects.Net, init_args: {activation: {class_path: 'nn:SiLU'}}}",
            "'nn:SiLU' names no class, did you mean nn.SiLU?",
        ),
    ],
)
def test_a_slip_in_the_form_of_an_object_is_said_as_such(net, sentence):
    """Red before: of the class of the annotation, and of an argument that none has."""
    (found,) = wrong_values(workload(f"net: {net}"), [HERE])
    assert found == f"hyperparameters.net: {sentence}"


def test_an_import_path_for_an_object_is_a_slip():
    """Red before: the text was handed on as it is, to fail wherever the network was asked."""
    (found,) = wrong_values(workload("net: 'given_objects:Net'"), [HERE])
    assert found == (
        "hyperparameters.net: 'given_objects:Net' names no class, did you mean given_objects.Net?"
    )

"""A config of LightningCLI as a workload: what is taken from it, left to variants, refused."""

import inspect
from inspect import signature

import pytest
import pytorch_lightning as pl
import yaml
from pytorch_lightning import Trainer

from twinrun.config.lightning_cli import DEFAULTS, LEFT, written_out
from twinrun.config.lightning_files import files_of
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA
from twinrun.config.with_standard import with_standard
from twinrun.errors import TwinrunError
from twinrun.wording import shown

RULES = yaml.safe_load(SCHEMA.read_text())
FILE = """
# pytorch_lightning==2.6.6
seed_everything: 3
trainer:
  max_epochs: 2
  accelerator: auto
  devices: 1
  precision: null
  gradient_clip_val: 0.5
  enable_progress_bar: false
  logger: true
  callbacks: {class_path: lightning.pytorch.callbacks.Timer}
model:
  class_path: models.Net
  init_args: {rate: 1e-3, factors: {0: 1.0}}
data: {class_path: data.Points}
optimizer: {class_path: torch.optim.Adam, init_args: {lr: 1e-2}}
ckpt_path: null
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(text, **beside):
        (tmp_path / "train.yaml").write_text(text)
        return written_out({"workloads": {"mine": {"cli": "train.yaml", **beside}}}, RULES)

    return read


def test_a_config_becomes_a_workload(read):
    """Red before: of a logger that a callback asks for nothing said why there is none."""
    found = read(FILE)
    assert found.mistakes == []
    workload = found.config["workloads"]["mine"]
    assert workload == {
        "cli": "train.yaml",
        "module": "models:Net",
        "data": "data:Points",
        "epochs": 2,
        "trainer": {
            "num_sanity_val_steps": 2,
            "gradient_clip_val": 0.5,
            "callbacks": [{"class_path": "lightning.pytorch.callbacks.Timer"}],
        },
    }
    assert found.commands["mine"]["model"] == {"rate": 1e-3, "factors": {"!!int 0": 1.0}}
    assert found.commands["mine"]["optimizer"]["init_args"] == {"lr": 1e-2}
    assert found.notes == [
        "workloads.mine.cli: train.yaml: left to the variants: accelerator: 'auto', "
        "enable_progress_bar: false, logger: true",
        "workloads.mine.cli: train.yaml: what your command says in its own code "
        "(trainer_defaults, set_defaults) is not read; --print_config writes a file with all of it "
        "but links and callbacks",
    ]


@pytest.mark.parametrize("callbacks", [None, [{"class_path": "pytorch_lightning.callbacks.Timer"}]])
def test_a_file_that_says_all_may_still_lack_callbacks(read, callbacks):
    """Red before: a command with an EarlyStopping of its own trained otherwise, without a word."""
    told = {name: each.default for name, each in signature(Trainer).parameters.items()}
    text = yaml.safe_load(FILE) | {"trainer": {**told, "max_epochs": 2, "callbacks": callbacks}}
    found = read(yaml.safe_dump(text))
    assert found.mistakes == []
    assert [note for note in found.notes if "left to the variants" not in note] == (
        []
        if callbacks
        else [
            "workloads.mine.cli: train.yaml: callbacks that your command has in its own code "
            "(trainer_defaults) are in no file; name them as trainer.callbacks"
        ]
    )


def test_what_stands_beside_goes_before_the_file(read):
    workload = read(FILE, epochs=7, trainer={"gradient_clip_val": 1}).config["workloads"]["mine"]
    assert workload["epochs"] == 7
    assert workload["trainer"]["gradient_clip_val"] == 1


def test_a_command_of_one_class_needs_its_name(read):
    text = "{model: {rate: 1}, data: {size: 3}, trainer: {max_epochs: 1}}"
    assert [each.partition(", as")[0] for each in read(text).mistakes] == [
        "workloads.mine.cli: train.yaml: model: names no class_path",
        "workloads.mine.cli: train.yaml: data: names no class_path",
    ]
    found = read(text, module="models:Net", data="data:Points")
    assert found.mistakes == []
    assert found.commands["mine"]["model"] == {"rate": 1}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "trainer: {max_epochs: 1, precision: bf16-mixed}",
            "trainer.precision: 'bf16-mixed' is a ",
        ),
        ("trainer: {max_epochs: 1, devices: 4}", "trainer.devices: 4 is a variant's `devices`"),
        ("trainer: {max_epochs: 1, plugins: [a.B]}", "trainer.plugins: ['a.B'] is not taken"),
        ("trainer: {}", "trainer.max_epochs: is missing"),
        (
            "trainer: {max_epochs: 1, gradient_clip_value: 4}",
            "trainer.gradient_clip_value: 4 is not taken, did you mean gradient_clip_val?",
        ),
        ("my_key: 3", "my_key: is no key of LightningCLI, but of a class derived from it"),
        (
            "data: {class_path: a.B, init_args: {n: '${model.n}'}}",
            "data.init_args.n: '${model.n}' is filled in where a command reads its files with "
            "OmegaConf, and stays as it is elsewhere, which the file does not say; write the value",
        ),
        ("ckpt_path: last.ckpt", "ckpt_path: a run starts from its seed"),
        ("lr_scheduler: {class_path: a.B}", "lr_scheduler: has no effect without optimizer"),
        ("model: {class_path: Net}", "model: 'Net' names no class"),
        ("model: a:B", "model: 'a:B' names no class; write class_path: a.B"),
        (
            "model: {class_path: 'a.b:C'}",
            "model: 'a.b:C' names no class; write class_path: a.b.C",
        ),
        (
            "trainer: {max_epochs: 1, max_time: '00:01:00:00'}",
            "trainer.max_time: '00:01:00:00' is not taken; leave it out of the file: what the ",
        ),
    ],
)
def test_what_is_not_taken_is_refused_by_name(read, change, sentence):
    given = {"model": {"class_path": "a.B"}, "trainer": {"max_epochs": 1}}
    (found,) = read(yaml.safe_dump({**given, **yaml.safe_load(change)})).mistakes
    assert found.startswith(f"workloads.mine.cli: train.yaml: {sentence}")


def test_a_file_that_is_none_is_a_sentence(read):
    (found,) = read("- a").mistakes
    assert "train.yaml: holds no mapping" in found
    (found,) = read("a: 1\n---\na: 2").mistakes
    assert "train.yaml: line 2 begins a second YAML document" in found


def test_of_several_files_the_command_that_makes_one_is_said():
    """Red before: three mistakes, of a wrong type and two missing keys, and no cure."""
    workload = {"cli": ["base.yaml", "mine.yaml"]}
    found = written_out({"workloads": {"mine": workload}}, RULES)
    (mistake,) = found.mistakes
    command = "python main.py fit --config base.yaml --config mine.yaml --print_config > train.yaml"
    assert mistake == f"workloads.mine.cli: one file is needed; your command makes it: {command}"
    with pytest.raises(TwinrunError) as raised:
        resolve(with_standard({"workloads": {"mine": workload}}), SCHEMA, gpus=0)
    assert str(raised.value).startswith("1 error in the config:")


def test_code_in_the_place_of_a_config_is_a_sentence(tmp_path, monkeypatch):
    """Red before: ScannerError: mapping values are not allowed in this context."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "a.py": b"import torch\nclass Net(Module):\n    pass\n",
        "b.ckpt": b"a\n\xff",
        "c.py": b"a",
    }
    reasons = {"a.py": "line 2 is no YAML (", "b.ckpt": "line 2 is not UTF-8 (byte 0xff)"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        (found,) = written_out({"workloads": {"mine": {"cli": name}}}, RULES).mistakes
        reason = reasons.get(name, "holds no mapping, but 'a'")
        assert found.startswith(f"workloads.mine.cli: {name}: {reason}")
        assert found.endswith("; `cli` is a YAML file, and code is named as `module`")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("trainer: [1]", "trainer: [1] is no mapping of arguments"),
        ("trainer: abc", "trainer: 'abc' is no mapping of arguments"),
        ("model: 5", "model: 5 names no class; write class_path: package.Class"),
        ("data: [a.B]", "data: ['a.B'] names no class; write class_path: package.Class"),
        (
            "model: {class_path: a.B, init_args: [1]}",
            "model.init_args: [1] is no mapping of arguments",
        ),
        (
            "optimizer: {class_path: a.B, dict_kwargs: 4}",
            "optimizer.dict_kwargs: 4 is no mapping of arguments",
        ),
        ("model: &a [*a]", "refers to itself (a YAML alias inside its own anchor)"),
    ],
)
def test_a_section_of_another_shape_is_a_sentence(read, change, sentence):
    """Red before: a traceback each."""
    rest = {"model": "model: a.B", "trainer": "trainer: {max_epochs: 1}"}
    rest.pop(change.partition(":")[0], None)
    assert read("\n".join([*rest.values(), change])).mistakes == [
        f"workloads.mine.cli: train.yaml: {sentence}"
    ]


def test_a_trainer_of_another_shape_beside_it_is_left_to_the_schema(read):
    found = read(FILE, trainer=[1])
    assert (found.mistakes, found.config["workloads"]["mine"]["trainer"]) == ([], [1])


def test_what_lightning_takes_by_default_is_no_wish():
    """A config that LightningCLI has saved names all arguments."""
    parameters = inspect.signature(pl.Trainer.__init__).parameters
    for name, parameter in list(parameters.items())[1:]:
        usual = DEFAULTS.get(name, (None,))
        assert name in LEFT or any(
            parameter.default is each or parameter.default == each for each in usual
        ), name
    assert {*DEFAULTS, *LEFT} <= {*parameters}


def test_a_section_may_lie_in_a_file_of_its_own(read, tmp_path):
    text = "{model: net.yaml, data: parts/data.yaml, trainer: {max_epochs: 1}}"
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/data.yaml").write_text("class_path: data.Points")
    for rate in (1, 2):
        (tmp_path / "net.yaml").write_text(f"{{class_path: m.Net, init_args: {{rate: {rate}}}}}")
        found = read(text)
        assert found.mistakes == []
        assert found.config["workloads"]["mine"]["module"] == "m:Net"
        assert found.config["workloads"]["mine"]["data"] == "data:Points"
        assert found.commands["mine"]["model"] == {"rate": rate}
    own = ["train.yaml", "net.yaml", "parts/data.yaml"]
    assert [str(file) for file in files_of("train.yaml")] == own
    (tmp_path / "net.yaml").unlink()
    (mistake,) = read(text).mistakes
    assert "model: net.yaml is read as net.yaml, as LightningCLI does: " in mistake


@pytest.mark.parametrize("value", ["base.yaml", "[base.yaml]", "{optimizer: {class_path: a.B}}"])
@pytest.mark.parametrize("beside", ["", "model: a.B\n"])
def test_a_file_that_names_another_is_refused(read, tmp_path, value, beside):
    """Red before: without `model` that was missing; beside one the other file counted for nothing.

    LightningCLI reads the other one first: its optimizer, say, was left out in silence.
    """
    (tmp_path / "base.yaml").write_text("optimizer: {class_path: torch.optim.SGD}\n")
    (mistake,) = read(f"{beside}trainer: {{max_epochs: 1}}\nconfig: {value}\n").mistakes
    assert mistake == (
        f"workloads.mine.cli: train.yaml: config: {shown(yaml.safe_load(value))} is read before "
        f"it by your command, and one file is needed; your command makes it: python main.py fit "
        f"--config train.yaml --print_config > united.yaml"
    )


def test_a_file_of_all_subcommands_that_names_another_is_refused(read):
    (mistake,) = read("config: base.yaml\nfit: {model: a.B, trainer: {max_epochs: 1}}\n").mistakes
    assert "config: 'base.yaml' is read before it by your command" in mistake


@pytest.mark.parametrize("value", ["null", "[]"])
def test_a_file_may_name_no_other(read, value):
    assert read(f"model: a.B\ntrainer: {{max_epochs: 1}}\nconfig: {value}\n").mistakes == []

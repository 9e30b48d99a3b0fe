"""`twinrun init`: a config for a module of one's own."""

import inspect
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import yaml

from twinrun.__main__ import main
from twinrun.commands import init
from twinrun.commands.init import OWN
from twinrun.commands.workload_name import name_of, names_taken
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA
from twinrun.config.with_standard import merged

MODEL = """
    import collections
    from datetime import date
    import pytorch_lightning as pl

    class Dated(pl.LightningModule):
        def __init__(self, since=date(2020, 1, 2), kinds={1, 2}, lr="1e-3", none="None", at="1:30",
                     options=collections.OrderedDict(a=1)):
            super().__init__()

    class Base(pl.LightningModule):
        def __init__(self, width: int = 16):
            super().__init__()

    class Model(Base):
        def __init__(self, lr=1e-5, betas=(0.9, 0.99), name="1e-3", on=True, no=None, **rest):
            super().__init__(**rest)

    class Sets(Base):
        def __init__(self, depth=2, **kwargs):
            kwargs.setdefault("width", 64)
            super().__init__(**kwargs)

    class Merges(Base):
        def __init__(self, depth=2, **kwargs):
            super().__init__(**{"width": 64, **kwargs})

    class Below(Sets):
        def __init__(self, **rest):
            super().__init__(**rest)

    class Bare(pl.LightningModule):
        pass

    class Fremde(pl.LightningModule):
        def __init__(self, größe=3, straße="Göteborg", таблица="файл", 模型="网络", label="🚀"):
            super().__init__()

    class Needing(pl.LightningModule):
        def __init__(self, size: int):
            super().__init__()

    class Alone(pl.LightningModule):
        def __init__(self, size: int = 3, seed: int = 0, num_workers: int = 1):
            super().__init__()

        def train_dataloader(self):
            pass
"""
DATA = """
    import pytorch_lightning as pl

    SIZES = [[8, 8]] * 2

    class Data(pl.LightningDataModule):
        def __init__(self, batch_size: int, path, seed=1, data_workers=0, parts=[0.5], sizes=SIZES):
            super().__init__()

    class Bare(pl.LightningDataModule):
        pass

    class Needing(pl.LightningDataModule):
        def __init__(self, size: int, path: str):
            super().__init__()

    class Sharing(pl.LightningDataModule):
        def __init__(self, width: int = 200, lr=1e-5, name=None, seed: int = 42, data_workers=2):
            super().__init__()

    class Loaded(pl.LightningDataModule):
        def __init__(self, size=32, num_workers=4):
            super().__init__()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    number = abs(hash(tmp_path))
    for name, text in (("model", MODEL), ("data", DATA)):
        (tmp_path / f"{name}{number}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return lambda model, data: ["init", f"model{number}:{model}", f"data{number}:{data}"]


def test_an_annotation_that_is_a_module_is_named_without_its_file():
    """Red before: a path of this machine, in a config that others are to use."""

    def made(scheduler: torch.optim.lr_scheduler): ...

    taken = {"a:B": inspect.signature(made).parameters["scheduler"]}
    (line,) = init._lines("scheduler", taken, is_otherwise=False)
    assert line == "# scheduler: ...  # needed, torch.optim.lr_scheduler"


@pytest.mark.parametrize(
    ("annotation", "form"),
    [
        (torch.nn.Module, "{class_path: ..., init_args: {...}}"),
        (torch.optim.Optimizer, "{class_path: ..., init_args: {...}}"),
        (int, "..."),
        (inspect.Parameter.empty, "..."),
    ],
)
def test_a_needed_object_is_shown_in_its_form(annotation, form):
    """Red before: "# net: ...", of which nobody knew how an object is written."""
    taken = {"a:B": inspect.Parameter("net", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)}
    (line,) = init._lines("net", taken, is_otherwise=False)
    assert line.startswith(f"# net: {form}  # needed")


def test_the_hyperparameters_are_those_of_the_constructors(own, tmp_path, capsys):
    assert main(own("Model", "Data")) == 0
    file = tmp_path / "config/config.yaml"
    found = yaml.safe_load(file.read_text())
    (workload,) = found["workloads"].values()
    assert workload["hyperparameters"] == {
        "lr": 1e-5,
        "name": "1e-3",
        "on": True,
        "no": None,
        "width": 16,
        "parts": [0.5],
        "sizes": [[8, 8], [8, 8]],
    }
    # Red before: `[&id001 [8, 8], *id001]`.
    assert "sizes: [[8, 8], [8, 8]]" in file.read_text()
    assert "# batch_size: ...  # needed, int" in file.read_text()
    assert "# betas: " in file.read_text()
    shown = capsys.readouterr().out
    # Red before of `path`: no dataset gives it, and `check` ended in a bare TypeError.
    assert "# path: ...  # needed" in file.read_text()
    assert "Give these hyperparameters a value there: batch_size, path\n" in shown
    data = own("Model", "Data")[-1]
    replaced = f"# seed: from the run, in place of 1 of {data}; from_run: {{seed: null}} keeps that"
    assert replaced in file.read_text()
    assert "# data_workers" not in file.read_text()  # 0, which the variants say too


@pytest.mark.parametrize("model", ["Sets", "Merges", "Below"])
def test_a_default_that_a_class_replaces_on_the_way_is_none_of_a_config(own, tmp_path, model):
    """Red before: `width: 16`, with which another network was trained than by the class itself."""
    assert main(own(model, "Bare")) == 0
    text = (tmp_path / "config/config.yaml").read_text()
    (workload,) = yaml.safe_load(text)["workloads"].values()
    assert workload["hyperparameters"] == {"depth": 2}
    assert (
        "# width: ...  # what the class itself makes of its **kwargs, 16 of its base class" in text
    )


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(own, tmp_path, capsys):
    (tmp_path / "config").write_text("a file")
    assert main(own("Model", "Data")) == 1
    assert capsys.readouterr().err.endswith("File exists: config\n")


def test_what_is_written_is_a_right_config(own, tmp_path):
    assert main(own("Bare", "Bare")) == 0
    settings = resolve(merged(["config/config.yaml"])[0], SCHEMA, gpus=0)
    assert settings.active_workloads() == ["bare"]
    assert settings.workloads["bare"].hyperparameters == {}


def test_defaults_that_a_config_cannot_hold_are_left_out_and_others_quoted(own, tmp_path):
    """Red before: three errors in a config that `init` had just written."""
    assert main(own("Dated", "Bare")) == 0
    settings = resolve(merged(["config/config.yaml"])[0], SCHEMA, gpus=0)
    found = settings.workloads["dated"].hyperparameters
    assert found == {"lr": "1e-3", "none": "None", "at": "1:30"}
    text = (tmp_path / "config/config.yaml").read_text()
    assert "# since: ...  # its default" in text
    assert "# kinds: ...  # its default" in text
    assert "# options: ...  # its default" in text


def test_it_may_go_into_another_file(own, tmp_path, capsys):
    command, *named = own("Bare", "Bare")
    assert main([command, "--file", "mine/first.yaml", *named]) == 0
    assert "workloads:" in (tmp_path / "mine/first.yaml").read_text()
    assert not (tmp_path / "config").exists()
    assert "twinrun run --configfile mine/first.yaml" in capsys.readouterr().out


def test_what_comes_next_can_be_given_to_a_shell(own, tmp_path, capsys):
    """Red before: `twinrun check my config.yaml`, which are two files."""
    command, *named = own("Bare", "Bare")
    assert main([command, "--file", "my config.yaml", *named]) == 0
    *_, said = capsys.readouterr().out.splitlines()
    assert "twinrun check 'my config.yaml' (" in said
    assert "twinrun run --configfile 'my config.yaml' (" in said


def test_a_config_that_is_there_is_left_as_it_is(own, tmp_path, capsys):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("mine: 1\n")
    assert main(own("Bare", "Bare")) == 1
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "config/config.yaml").read_text() == "mine: 1\n"


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [("Absent", "Bare", "has no Absent"), ("Bare", "Absent", "has no Absent")],
)
def test_what_cannot_be_imported_is_said_and_nothing_written(
    own, tmp_path, capsys, model, data, words
):
    assert main(own(model, data)) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a:Model", "model"),
        ("a.b:MyBERTModule", "my-bert-module"),
        ("a:_My_Net2D", "my-net2-d"),
        ("a:Digits", "my-digits"),  # a built-in one has the name
        ("a:DigitsFew", "my-digits-few"),
        ("a:On", "my-on"),  # which YAML reads as true
        ("a:Null", "my-null"),
        ("a:Größe", "grosse"),
        ("a:模型", "mine"),
        (f"a:{'Wide' * 3}{'Net' * 10}", f"{'wide-' * 3}{'net-' * 6}n"),
    ],
)
def test_a_workload_is_named_as_a_config_may_name_it(path, name):
    """Red before: names that `twinrun check` refused, or that a built-in workload has."""
    assert name_of(path, names_taken()) == name


def test_a_further_file_names_another_workload(own):
    """Red before: united with the first of that name, it took its hyperparameters and Trainer."""
    command, model, data = own("Base", "Bare")
    assert main([command, model, data]) == 0
    assert main([command, model, data, "--file", "b.yaml"]) == 0
    first, second = (yaml.safe_load(Path(f).read_text()) for f in (OWN, "b.yaml"))
    assert set(first["workloads"]).isdisjoint(second["workloads"])
    assert second["reproducibility"]["workloads"] == list(second["workloads"])


def test_letters_beyond_ascii_are_written_as_they_are(own, tmp_path):
    """Red before: "gr\\xF6\\xDFe"."""
    assert main(own("Fremde", "Bare")) == 0
    text = (tmp_path / "config/config.yaml").read_text(encoding="utf-8")
    for line in ("größe: 3", "straße: Göteborg", "таблица: файл", "模型: 网络", "label: 🚀"):
        assert f"      {line}\n" in text
    settings = resolve(merged(["config/config.yaml"])[0], SCHEMA, gpus=0)
    assert settings.workloads["fremde"].hyperparameters["straße"] == "Göteborg"


@pytest.mark.exhaustive
def test_one_name_with_two_defaults_is_given_no_value(own):
    """Red before: the last constructor's default was written, and went to both."""
    command, model, data = own("Model", "Sharing")
    assert main([command, model, data]) == 0
    (workload,) = yaml.safe_load(OWN.read_text())["workloads"].values()
    assert workload["hyperparameters"] == {"lr": 1e-5, "on": True, "no": None}
    text = OWN.read_text()
    assert f"# width: ...  # 16 of {model}, 200 of {data}; a value given here goes to both" in text
    assert (
        f"# name: ...  # '1e-3' of {model}, null of {data}; a value given here goes to both" in text
    )
    assert f"# seed: from the run, in place of 42 of {data}" in text
    assert f"# data_workers: from the run, in place of 2 of {data}" in text


def test_a_module_that_parses_the_command_line_gets_none(own, tmp_path, monkeypatch):
    """Red before: it read that of `twinrun init`, and argparse ended the program."""
    given = ["twinrun", "init", "parsing:Net"]
    monkeypatch.setattr("sys.argv", list(given))
    text = """
        import argparse
        import pytorch_lightning as pl

        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, default=3)
        WIDTH = parser.parse_args().width

        class Net(pl.LightningModule):
            def __init__(self, width=WIDTH):
                super().__init__()

            def train_dataloader(self):
                pass
    """
    (tmp_path / "parsing.py").write_text(textwrap.dedent(text))
    monkeypatch.delitem(sys.modules, "parsing", raising=False)
    assert main(given[1:]) == 0
    written = yaml.safe_load((tmp_path / "config/config.yaml").read_text())
    assert written["workloads"]["net"]["hyperparameters"] == {"width": 3}
    assert sys.argv == given


def test_what_one_constructor_needs_is_not_the_others_default(own, capsys):
    """Red before: the network was given the default of the data module."""
    command, model, data = own("Needing", "Loaded")
    assert main([command, model, data]) == 0
    (workload,) = yaml.safe_load(OWN.read_text())["workloads"].values()
    assert workload["hyperparameters"] is None  # which a config takes for none
    text = OWN.read_text()
    assert (
        f"# size: ...  # needed by {model}, 32 of {data}; a value given here goes to both" in text
    )
    assert f"# num_workers: from the run, in place of 4 of {data}" in text
    assert "Give these hyperparameters a value there: size\n" in capsys.readouterr().out


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("model", "data"), [("Needing", "Needing"), ("Dated", "Loaded")])
def test_each_comment_is_filled_in_by_a_value_in_place_of_its_dots(own, model, data):
    """Red before: `{}` stood above the comments, so that what was written below was no YAML."""
    assert main(own(model, data)) == 0
    resolve(merged([OWN])[0], SCHEMA, gpus=0)  # as it is, too
    lines = OWN.read_text().split("\n")
    dots = [line for line in lines if line.strip().startswith("# ") and ": ...  #" in line]
    assert dots
    filled = [
        line.replace("# ", "", 1).replace("...", "3") if line in dots else line for line in lines
    ]
    OWN.write_text("\n".join(filled))
    settings = resolve(merged([OWN])[0], SCHEMA, gpus=0)
    (name,) = settings.active_workloads()
    given = settings.workloads[name].hyperparameters
    names = [line.strip().removeprefix("# ").partition(":")[0] for line in dots]
    assert {name: given[name] for name in names} == dict.fromkeys(names, 3)


@pytest.mark.exhaustive
def test_a_data_module_that_says_num_workers_is_given_the_variants(own):
    assert main(own("Bare", "Loaded")) == 0
    workload = yaml.safe_load(OWN.read_text())["workloads"]["bare"]
    assert workload["from_run"] == {"data_workers": "num_workers"}
    assert workload["hyperparameters"] == {"size": 32}


@pytest.mark.exhaustive
def test_a_module_that_brings_its_loaders_is_named_alone(own, capsys):
    command, module, _ = own("Alone", "Bare")
    assert main([command, module]) == 0
    (workload,) = yaml.safe_load(OWN.read_text())["workloads"].values()
    assert workload == {
        "module": module,
        "epochs": 2,
        "hyperparameters": {"size": 3},
        "from_run": {"data_workers": "num_workers"},
    }
    resolve(merged([OWN])[0], SCHEMA, gpus=0)


def test_a_module_without_loaders_needs_a_data_module(own, capsys):
    command, module, _ = own("Bare", "Bare")
    assert main([command, module]) == 1
    assert "has no train_dataloader; name what has one too" in capsys.readouterr().err


LOADERS = """
    import pytorch_lightning as pl
    import torch

    class Net(pl.LightningModule):
        def __init__(self, width: int = 1):
            super().__init__()
            self.layer = torch.nn.Linear(4, width)

        def training_step(self, batch, index):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    class Sets(Net):
        def __init__(self):
            super().__init__()
            self.train_dataloader = lambda: torch.utils.data.DataLoader(torch.ones(8, 4), 2)

    class SetsNone(Net):
        def __init__(self):
            super().__init__()
            self.train_dataloader = None

    def made():
        return Net()

    def made_with():
        return Sets()

    def loader(size: int = 2):
        return torch.utils.data.DataLoader(torch.ones(8, 4), size)

    def nothing():
        pass

    def module(size: int = 2):
        return pl.LightningDataModule.from_datasets(torch.ones(8, 4), batch_size=size)

    def network():
        return torch.nn.Linear(4, 1)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("path", "is_right"),
    [
        ("Sets", True),
        pytest.param("SetsNone", False, marks=pytest.mark.exhaustive),
        ("made", False),
        pytest.param("made_with", True, marks=pytest.mark.exhaustive),
    ],
)
def test_loaders_that_no_class_shows_are_looked_for_in_a_rehearsal(
    tmp_path, monkeypatch, capfd, path, is_right
):
    """Red before: an instance's own was refused; of a function a config was written that failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"loaders{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(LOADERS))
    assert main(["init", f"{name}:{path}"]) == (0 if is_right else 1)
    assert OWN.exists() == is_right
    said = capfd.readouterr().err
    assert ("has no train_dataloader; name what has one too" in said) != is_right
    assert ("audit-your-module.md#without-a-data-module" in said) != is_right


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("Net", "loader"), "loader: it returned a DataLoader, where a pytorch_lightning."),
        pytest.param(("Net", "nothing"), "it returned None, where", marks=pytest.mark.exhaustive),
        pytest.param(("made", "module"), "", marks=pytest.mark.exhaustive),
        pytest.param(("network",), "network: it returned a Linear", marks=pytest.mark.exhaustive),
    ],
)
def test_a_function_that_returns_something_else_is_refused(
    tmp_path, monkeypatch, capfd, named, said
):
    """Red before: a config was written that `twinrun check` refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"functions{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(LOADERS))
    assert main(["init", *(f"{name}:{path}" for path in named)]) == (1 if said else 0)
    assert OWN.exists() == (not said)
    told = capfd.readouterr().err
    assert said in told
    assert ("audit-your-module.md#" in told) == bool(said)

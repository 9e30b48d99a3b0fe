"""The page on own modules: each workload that it shows is constructed, and takes a step."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from twinrun.__main__ import main
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.config.with_standard import with_standard
from twinrun.training.rehearsal_plan import parts_of
from twinrun.training.rehearse_workload import rehearse_part

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs/audit-your-module.md").read_text()
SECTIONS = [
    "Objects as hyperparameters",
    "A LightningCLI config",
    "Without a data module",
    "Callbacks and loggers",
]


@pytest.mark.parametrize("title", SECTIONS)
def test_a_workload_of_the_page_takes_a_step(monkeypatch, title):
    monkeypatch.chdir(ROOT)
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    own = yaml.safe_load(example)
    (name,) = own["workloads"]
    asked = {"studies": ["reproducibility"], "reproducibility": {"workloads": [name]}}
    config = with_standard({**own, **asked})
    (part,) = parts_of(resolve(config, SCHEMA, gpus=0), [str(HERE)])
    found = rehearse_part(part, lambda text: None)
    assert found["mistakes"] == []
    assert found["steps_per_epoch"]
    assert "train_loss" in found["logged"]


def test_a_default_that_a_run_replaces_or_leaves_is_said_of_a_command(monkeypatch):
    """Red before: the seed of the data was another than the command's, and nothing said so.

    Nor that what the command may link was trained with its default.
    """
    monkeypatch.chdir(ROOT)
    section = PAGE.partition("## A LightningCLI config\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    own = yaml.safe_load(example)
    replaced = (
        "command: a run gives spirals_data:SpiralPoints its `seed`, of which your command leaves "
        "the default 0; from_run: {seed: null} beside `cli` leaves it, too"
    )
    left = (
        "command: tests/own_module/train.yaml leaves the defaults of {}; what your command links "
        "(link_arguments) has to be written there"
    ).format
    module = left(
        "given_spirals:Classifier: optimizer (<class 'torch.optim.sgd.SGD'>), factors (null)"
    )
    data = "spirals_data:SpiralPoints: points (600), noise (0.05)"
    both = [replaced, module, left(data)]
    one = [module, left(f"{data}, seed (0), data_workers (0)")]
    for from_run, said in (({}, both), ({"seed": None, "data_workers": None}, one)):
        own["workloads"]["command"]["from_run"] = from_run
        asked = {"studies": ["reproducibility"], "reproducibility": {"workloads": ["command"]}}
        config = with_standard({**own, **asked})
        (part,) = parts_of(resolve(config, SCHEMA, gpus=0), [str(HERE)])
        found = rehearse_part(part, lambda text: None)
        assert (found["mistakes"], found["notes"]) == ([], said)


@pytest.mark.exhaustive
@pytest.mark.parametrize("data", ["loaders", "Loaders"])
def test_loaders_of_a_script_are_given_by_what_the_page_shows(tmp_path, monkeypatch, data):
    section = PAGE.partition("## Without a data module\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    model = PAGE.partition("```python\n")[2].partition("```")[0]
    for name, text in (("my_model", model), ("my_data", example)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert f"`my_data:{data}`" in section
    assert main(["init", "my_model:MyModule", f"my_data:{data}"]) == 0
    config = yaml.safe_load((tmp_path / "config/config.yaml").read_text())
    (part,) = parts_of(resolve(with_standard(config), SCHEMA, gpus=0), [str(tmp_path)])
    found = rehearse_part(part, lambda text: None)
    assert found["mistakes"] == []
    assert found["steps_per_epoch"] == 3

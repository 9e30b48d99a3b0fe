"""The page on own modules: each workload that it shows is constructed, and takes a step."""

import re
from pathlib import Path

import pytest
import yaml

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

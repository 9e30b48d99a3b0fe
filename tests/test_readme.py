"""What the README says is so: its thread, its commands, its example. Its tree: test_rooms."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from twinrun.__main__ import main
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.config.with_standard import with_standard
from twinrun.gate.gate import EXIT_CODES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONFIGURATION = ROOT / "config/README.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    CONFIGURATION,
    *sorted(ROOT.glob("docs/*.md")),
]


def test_the_thread_to_follow_leads_through_what_there_is():
    thread = README.partition("To follow one thread: ")[2].partition("\n\n")[0]
    paths = [path for path in re.findall(r"`([^`]+)`", thread) if "/" in path]
    assert len(paths) == 4
    assert [path for path in paths if not (ROOT / path).exists() and "results/" not in path] == []


def test_the_commands_are_targets():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets == {"run", "demo", "test", "check", "picture"}
    assert set(re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE)) <= targets


def test_the_example_is_a_config():
    (example,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    config = yaml.safe_load(example)
    own = yaml.safe_load((ROOT / "tests/own_module/config.yaml").read_text())
    assert config.keys() == own.keys()
    assert config["workloads"]["my-module"].keys() == own["workloads"]["mine"].keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    targets = set(re.findall(r"\]\(([^)#]+)", text)) - {"#"}
    local = {target for target in targets if "://" not in target}
    assert [target for target in local if not (page.parent / target).exists()] == []
    named = re.findall(r"`((?:src|tests|docs|workflow|profiles)/[\w./-]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_table_of_results_has_what_the_rules_write():
    page = (ROOT / "docs/method.md").read_text()
    table = page.partition("## What lands in results/")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([^`]+)`", table))
    written = set()
    for file in (ROOT / "workflow/rules").rglob("*.smk"):
        for output in re.findall(
            r"^    output:\n((?:        .*\n)+)", file.read_text(), re.MULTILINE
        ):
            written |= set(re.findall(r'"results/([^"]+)"', output))
    assert len(written) > 30
    for path in written:
        folder, _, name = path.rpartition("/")
        stem, _, suffix = name.partition(".")
        if path.startswith("figures/"):
            assert "figures/" in named
        elif path.startswith("runs/"):
            assert {f"{folder}/", name} <= named, path
        elif path not in named:  # a file beside one that is named, such as `.csv`
            assert any(entry.startswith(f"{folder}/{stem}.") for entry in named), path
            assert f".{suffix}" in named, path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_headings(page):
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    for target, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (page.parent / target).read_text(), re.MULTILINE)
        slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings]
        assert anchor in slugs, f"{target}#{anchor}"


def test_the_page_on_own_modules_quotes_the_example():
    page = (ROOT / "docs/audit-your-module.md").read_text()
    example, matrix, *others = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (told,) = [each for each in others if "max_steps" in each]
    assert example == (ROOT / "tests/own_module/config.yaml").read_text()
    workload = resolved(yaml.safe_load(example) | yaml.safe_load(told)).workloads["mine"]
    assert (workload.epochs, workload.trainer.max_steps) == (-1, 9)
    audited = resolved(yaml.safe_load(example) | yaml.safe_load(matrix))
    assert list(audited.cells) == [
        "repeat",
        "threads-2",
        "data_workers-2",
        "validation-false",
        "seed",
    ]


def test_the_page_on_configs_shows_what_init_writes(tmp_path, monkeypatch):
    """Its Snakefile is that of tests/workflow/test_layout.py."""
    page = CONFIGURATION.read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    workload = resolved(yaml.safe_load(example)).workloads["mine"]
    (module, data) = re.search(r"`twinrun init (\S+) (\S+)`", page).groups()
    assert (workload.module, workload.data) == (module, data)
    package = tmp_path / module.partition(".")[0]
    package.mkdir()
    shown = "from twinrun.workloads.peaks import Peaks as MyModule, PeaksGrid as MyData\n"
    for path in (module, data):
        (tmp_path / f"{path.partition(':')[0].replace('.', '/')}.py").write_text(shown)
    monkeypatch.chdir(tmp_path)
    assert main(["init", module, data]) == 0
    written = yaml.safe_load((tmp_path / "config/config.yaml").read_text())
    assert resolved(written).workloads["my-module"].module == module


def resolved(config):
    """Resolve a user's config as Snakemake merges it with the standard one."""
    return resolve(with_standard(config), SCHEMA, gpus=0)


def test_the_gates_example_requires_what_there_is():
    page = (ROOT / "docs/gate.md").read_text()
    require = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    del require["require"]["resume"]
    config = {"studies": ["reproducibility", "matrix", "contest"], **require}
    config["matrix"] = {"changes": [{"data_workers": 2}]}
    assert resolved(config).config["require"].keys() == require["require"].keys()
    codes = dict(re.findall(r"^\| ([a-z ]+) \| (\d) \|", page, re.MULTILINE))
    assert {name: int(code) for name, code in codes.items()} == EXIT_CODES
    (step,) = yaml.safe_load((ROOT / "docs/gate.github.yml").read_text())["jobs"].values()
    assert any("twinrun.gate results/gate.json" in s.get("run", "") for s in step["steps"])


@pytest.mark.parametrize("outcome", [0, 1, 3, 4, 5])
def test_the_gates_example_ends_its_job_as_the_gate_says(tmp_path, outcome):
    """Under GitHub's own shell of a step: `bash -e` by default, without pipefail."""
    (job,) = yaml.safe_load((ROOT / "docs/gate.github.yml").read_text())["jobs"].values()
    (judge,) = [step["run"] for step in job["steps"] if "twinrun.gate" in step.get("run", "")]
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho repeats: said\nexit {outcome}\n")
    python.chmod(0o755)
    summary = tmp_path / "summary.md"
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    for options in (["-e"], ["--noprofile", "--norc", "-eo", "pipefail"]):
        summary.unlink(missing_ok=True)
        shell = ["bash", *options, "-c", judge]
        done = subprocess.run(
            shell, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == (0 if outcome == EXIT_CODES["not comparable"] else outcome)
        assert summary.read_text() == "repeats: said\n"
        assert done.stdout.startswith("repeats: said\n")
        assert ("::warning::" in done.stdout) == (outcome == EXIT_CODES["not comparable"])

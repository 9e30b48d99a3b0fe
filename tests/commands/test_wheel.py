"""The wheel: everything the workflow needs, started from an empty folder with nothing beside it."""

import os
import posixpath
import re
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
# Mistakes name the first three, which link to the others.
DOCS = (
    *("docs/audit-your-module.md", "docs/config.md", "docs/gate.md", "docs/gate.github.yml"),
    *("docs/method.md", "docs/resuming.md", "docs/external.md", "docs/faithfulness.md"),
    "docs/measurements/h100.md",
    *("tests/own_module", "tests/workloads_contract.py"),
)
SHIPPED = ("config.yaml", "envs", "profiles", "workflow", "src/twinrun", *DOCS)

# The first example of the guide.
GUIDE = (ROOT / "docs/audit-your-module.md").read_text()
MODEL = GUIDE.partition("```python\n")[2].partition("```")[0]
COMMANDS = GUIDE.partition("```sh\n")[2].partition("```")[0].split("\n")[:2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """Install it beside what is there, before the package of this clone."""
    folder = tmp_path_factory.mktemp("site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    subprocess.run([*pip, wheel], check=True)
    return folder


def test_it_holds_every_file_that_the_workflow_needs(wheel):
    listed = ["git", "ls-files", "-co", "--exclude-standard", "--", *SHIPPED]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    files = {file for file in done.stdout.split() if not (ROOT / file).is_symlink()}
    inside = {
        "twinrun/" + file.removeprefix("src/twinrun/").replace("profiles/", "workflow/profiles/")
        for file in files
    }
    assert len(inside) > 200
    with zipfile.ZipFile(wheel) as archive:
        assert inside == {name for name in archive.namelist() if name.startswith("twinrun/")}


def test_what_its_pages_link_to_is_in_it(wheel):
    """Red before: of the pages that messages name, most links led nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        pages = {name: archive.read(name).decode() for name in files if name.endswith(".md")}
    there = {*files, *(str(folder) for name in files for folder in PurePosixPath(name).parents)}
    assert len(pages) > 5
    dead = {
        f"{page} -> {target}"
        for page, text in pages.items()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        if posixpath.normpath(f"{posixpath.dirname(page)}/{target}") not in there
    }
    assert dead == set()


def twinrun(site, *arguments, cwd):
    environment = {**os.environ, "PYTHONPATH": str(site)}
    # -P: an empty folder of ours must not be what makes it work.
    return subprocess.run(
        [sys.executable, "-P", "-m", "twinrun", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_workflow_is_its_own(site, tmp_path):
    done = twinrun(site, "path", cwd=tmp_path)
    assert done.stdout == f"{site}/twinrun/workflow/Snakefile\n", done.stderr
    done = twinrun(site, "run", "-n", "--workflow-profile", "slurm", cwd=tmp_path)
    assert "slurm" in done.stderr  # the profile was found: its plugin may be missing


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_first_report_takes_two_commands(site, tmp_path):
    (tmp_path / "my_model.py").write_text(MODEL)
    for command in COMMANDS:
        done = twinrun(site, *command.split()[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    last = done.stderr[done.stderr.index("Are all learnable parameters equal") :]
    assert "my-module  deterministic     equal" in last
    assert "Report: results/report.html" in last
    assert "Selected jobs" not in done.stderr  # Snakemake's own log is in a file
    assert (tmp_path / "results/report.html").exists()
    logs = list((tmp_path / "results/logs/train").rglob("*.log"))
    assert logs
    done = twinrun(site, "check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "my-module: 4 steps an epoch; logs nothing" in done.stdout
    done = twinrun(site, "gate", cwd=tmp_path)
    assert done.returncode == 1
    assert "require: the gate has nothing to judge" in done.stderr

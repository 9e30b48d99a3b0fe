"""What a result came from is found without torch where the Snakefile asks, and is told in full."""

import json
import os
import platform
import subprocess
import sys
from datetime import datetime
from importlib import metadata
from pathlib import Path

import pytest
import torch

from twinrun.process import environment

# Versions


def test_versions_are_those_that_are_imported():
    found = environment.versions()
    # The package index leaves out what is behind the plus: 2.13.0 of 2.13.0+cu130.
    assert found["torch"] in (torch.__version__, torch.__version__.partition("+")[0])
    assert found["cuda"] == (torch.version.cuda or "none")
    for package in environment.PACKAGES:
        assert found[package] == metadata.version(package)


@pytest.mark.parametrize(("line", "cuda"), [("'12.8'", "12.8"), ("None", "none")])
def test_the_cuda_version_is_read_from_torch(tmp_path, monkeypatch, line, cuda):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "version.py").write_text(f"__version__ = '2'\ncuda: Optional[str] = {line}\n")
    origin = str(package / "__init__.py")
    spec = type("Spec", (), {"origin": origin})
    monkeypatch.setattr(environment.util, "find_spec", lambda name: spec)
    assert environment.versions()["cuda"] == cuda


def test_packages_that_are_absent_are_left_out(monkeypatch):
    def version(package):
        if package == "numpy":
            return "2.0.0"
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(environment.metadata, "version", version)
    monkeypatch.setattr(environment.util, "find_spec", lambda name: None)
    assert environment.versions() == {"numpy": "2.0.0"}


def test_the_snakefile_asks_without_importing_torch():
    code = (
        "import sys\n"
        "from twinrun.process import environment, gpus\n"
        "environment.versions(), gpus.count_gpus()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The description of a run


def test_description_separates_identity_from_context():
    described = environment.describe()

    identity, context = described["identity"], described["context"]
    assert set(described) == {"identity", "context", "packages"}
    assert environment.versions().items() <= identity.items()
    assert identity["python"] == platform.python_version()
    assert identity["cpu"]
    assert identity["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert (identity["gpu"] == "none") == (torch.cuda.device_count() == 0)
    assert identity["cudnn"] == str(torch.backends.cudnn.version() or "none")
    assert context["gpus"] == torch.cuda.device_count()
    assert 1 <= context["cores"] <= os.cpu_count()
    assert context["memory_gib"] > 0
    assert datetime.fromisoformat(context["started"]).tzinfo is not None
    assert json.loads(json.dumps(described)) == described


def test_identity_is_the_same_in_another_process():
    code = (
        "import json; from twinrun.process import environment; "
        "print(json.dumps(environment.describe()['identity']))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert json.loads(printed.stdout) == environment.describe()["identity"]


def test_commit_is_that_of_the_sources():
    folder = Path(environment.__file__).parents[1]
    git = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the sources are in no git repository")
    assert environment.describe()["context"]["commit"].rstrip("+") == done.stdout.strip()


def test_commit_is_unknown_without_git(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.describe()["context"]["commit"] == "unknown"

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

LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-4b4c-8c2e-4c3a5f1d2e11)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0c1f2b8e-9d5a-4e8e-8a0b-7a4f1d0e6b22)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give a function that puts a machine in place of this one."""

    def pretend(*, listing, cuda="12.8", visible=None, system="Linux", processor="x86_64"):
        if listing is not None:
            tool = tmp_path / "nvidia-smi"
            tool.write_text(f"#!/bin/sh\n[ $1 = -L ] && cat <<'END'\n{listing}END\n")
            tool.chmod(0o755)
        (tmp_path / "cat").symlink_to("/bin/cat")
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(environment, "versions", lambda: {"cuda": cuda} if cuda else {})
        monkeypatch.setattr(platform, "system", lambda: system)
        monkeypatch.setattr(platform, "machine", lambda: processor)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return pretend


# Versions


def test_versions_are_those_that_are_imported():
    found = environment.versions()
    assert found["torch"] == torch.__version__
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
        "from twinrun.process import environment\n"
        "environment.versions(), environment.count_gpus()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# GPUs


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 2),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("1,0", 2),
        ("1, 0", 2),
        ("0,-1,1", 1),
        ("2", 0),
        ("0,7", 1),
        ("NoDevFiles", 0),
        ("GPU-0c1f2b8e-9d5a-4e8e-8a0b-7a4f1d0e6b22", 1),
        ("GPU-5d5b,GPU-0c1f", 2),
        ("GPU-ffff", 0),
        ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", 1),
    ],
)
def test_visible_devices_are_counted_as_cuda_reads_them(machine, visible, count):
    machine(listing=LISTING, visible=visible)
    assert environment.count_gpus() == count


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        pytest.param({"listing": None}, 0, id="no driver"),
        pytest.param({"listing": None, "visible": "0"}, 0, id="no driver, whatever is visible"),
        pytest.param({"listing": "No devices were found\n"}, 0, id="driver, no GPU"),
        pytest.param({"listing": LISTING, "cuda": "none"}, 0, id="torch without CUDA"),
        pytest.param({"listing": LISTING, "cuda": None}, 2, id="no torch here"),
        pytest.param(
            {"listing": None, "system": "Darwin", "processor": "arm64"}, 1, id="Apple's GPU"
        ),
        pytest.param({"listing": None, "system": "Darwin"}, 0, id="older Apple"),
    ],
)
def test_gpus_are_those_that_torch_would_see(machine, settings, count):
    machine(**settings)
    assert environment.count_gpus() == count


@pytest.mark.skipif(platform.system() == "Darwin", reason="counts CUDA devices")
def test_gpus_of_this_machine_are_those_that_torch_sees():
    assert environment.count_gpus() == torch.cuda.device_count()


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

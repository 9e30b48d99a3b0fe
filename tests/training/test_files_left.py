"""What a rehearsal leaves in the working directory is noticed."""

import json
import os
import subprocess
import sys

import pytest

from twinrun.training import files_left
from twinrun.training.files_left import left_behind, listing


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "kept.pt").write_bytes(b"12")
    (tmp_path / "sub/rewritten.pt").write_bytes(b"12")
    os.utime(tmp_path / "sub/rewritten.pt", ns=(1, 1))
    return tmp_path


def test_new_and_changed_files_are_named(folder):
    before = listing(folder)
    (folder / "sub/features.pt").write_bytes(b"1")
    (folder / "sub/rewritten.pt").write_bytes(b"34")
    (sentence,) = left_behind("mine", before, listing(folder))
    assert "sub/features.pt, sub/rewritten.pt changed in the working directory" in sentence


def test_what_others_write_is_no_file_of_the_module(folder):
    before = listing(folder)
    for name in ("results/runs", ".snakemake", "sub/__pycache__"):
        (folder / name).mkdir(parents=True)
        (folder / name / "x").write_text("x")
    assert left_behind("mine", before, listing(folder)) == []


@pytest.mark.parametrize(
    "command", ["{} > run.log", "{} 2> run.log", "sh -c '{}; true' > run.log", "{} | tee run.log"]
)
def test_the_log_of_a_shell_is_no_file_of_the_module(folder, command):
    """Red before: what Twinrun itself had said was taken for a cache of the module."""
    (folder / "code.py").write_text(
        "import json, pathlib, time\n"
        "from twinrun.training.files_left import listing\n"
        "while not pathlib.Path('run.log').exists():\n"  # tee may start later
        "    time.sleep(0.01)\n"
        "pathlib.Path('found.json').write_text(json.dumps(sorted(listing(pathlib.Path()))))\n"
    )
    line = command.format(f"{sys.executable} code.py")
    subprocess.run(["sh", "-c", line], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = json.loads((folder / "found.json").read_text())
    assert found == ["code.py", "kept.pt", "sub/rewritten.pt"]


def test_of_too_many_files_nothing_is_said(folder, monkeypatch):
    before = listing(folder)
    monkeypatch.setattr(files_left, "MOST_FILES", 1)
    assert listing(folder) is None
    assert left_behind("mine", before, None) == []


def test_what_a_module_writes_beside_the_workflows_results_is_its_own(tmp_path):
    """Red before: of `results/best.pt`, which every run found, not a word."""
    before = listing(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/best.pt").touch()
    assert "results/best.pt changed in" in left_behind("mine", before, listing(tmp_path))[0]

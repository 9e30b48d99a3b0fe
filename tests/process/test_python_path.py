"""An environment in which no job could be started is refused before the first one."""

import subprocess
import sys
from pathlib import Path

import pytest

from twinrun.errors import TwinrunError
from twinrun.process.python_path import check_python


@pytest.mark.parametrize("folder", ["plain", "Ümlaut-1.2_b", "a+b", "a[1]"])
def test_a_usual_path_is_left_alone(folder):
    check_python(f"/home/me/{folder}/bin/python")


@pytest.mark.parametrize("folder", ["My Documents", "it's", "a&b", "$HOME", "a(1)"])
def test_a_path_that_a_shell_reads_otherwise_is_refused(folder):
    with pytest.raises(TwinrunError, match="Snakemake could start no job; make the environment in"):
        check_python(f"/home/me/{folder}/bin/python")


@pytest.mark.exhaustive
def test_the_workflow_refuses_it_before_the_first_job(tmp_path):
    """Red before: each job failed by "/usr/bin/bash: line 1: /home/me/My: No such file"."""
    environment = tmp_path / "My Documents"
    environment.symlink_to(Path(sys.executable).parents[1])
    (tmp_path / "config").mkdir()
    config = "studies: [resume]\nresume: {workloads: [peaks]}\nrehearsal: false\n"
    (tmp_path / "config/config.yaml").write_text(config)
    command = [environment / "bin/python", "-m", "twinrun", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"the environment's Python, {environment}/bin/python" in done.stdout + done.stderr
    assert "No such file or directory" not in done.stdout + done.stderr

"""Snakemake for real: a copy of the project per session, run in working directories of its own."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import filelock
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "workflow", "src", "envs", "profiles", "tests/configs")


@dataclass(frozen=True)
class Project:
    """A copy of the project and a working directory for its results."""

    source: Path
    directory: Path

    def snakemake(
        self,
        *arguments,
        config=None,
        cores="2",
        check=None,
        snakefile="Snakefile",
        **environment,
    ):
        """Run Snakemake; the config is a mapping merged into the standard one.

        `check` is the exit code that the caller counts on.
        """
        done = subprocess.run(
            self._command(arguments, config, cores, snakefile),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env={**os.environ, **environment},
        )
        done.text = done.stdout + done.stderr
        if check is not None:
            assert done.returncode == check, done.text
        return done

    def start(self, *arguments, config=None, cores="2", **environment):
        """Start Snakemake in a process group of its own, its output in a file, and do not wait."""
        with (self.directory / "output").open("w") as output:
            return subprocess.Popen(
                self._command(arguments, config, cores),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **environment},
                process_group=0,
            )

    def _command(self, arguments, config, cores, snakefile="Snakefile"):
        command = [sys.executable, "-m", "snakemake", "-s", str(self.source / snakefile)]
        command += ["--directory", str(self.directory), "--cores", cores, *arguments]
        if config is not None:
            file = self.directory / "config-of-test.yaml"
            file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
            command += ["--configfile", str(file)]
        return command

    def jobs(self, *arguments, **options):
        """Count the jobs of each rule that a dry run would start."""
        done = self.snakemake("--dry-run", *arguments, check=0, **options)
        return jobs_of(done.text)


def jobs_of(text):
    """Return the jobs of each rule from what a dry run prints."""
    counts = {}
    table = text.partition("Job stats:")[2].split("\n\n")[0]
    for line in table.splitlines():
        match line.split():
            case [rule, count] if count.isdigit():
                counts[rule] = int(count)
    counts.pop("total", None)
    return counts


def copied(folder):
    for part in PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            # With Python's bytecode, but for what is just being written.
            ignored = shutil.ignore_patterns("*.pyc.*", ".*.json")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return folder


@pytest.fixture
def project(tmp_path):
    """A fresh clone that has never been run."""
    (tmp_path / "work").mkdir()
    return Project(copied(tmp_path / "clone"), tmp_path / "work")


@pytest.fixture(scope="session")
def demo_config():
    config = yaml.safe_load((ROOT / "tests/configs/demo.yaml").read_text())
    del config["variants"]  # two threads, as in the standard config: tests ask for a race
    return config


@pytest.fixture(scope="session")
def demo(tmp_path_factory, demo_config):
    """The demo, run once to its end; whoever changes it puts it back.

    Of pytest's processes the first runs it, and each has a copy of its own.
    """
    own = tmp_path_factory.mktemp("demo")
    processes = own.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else own.parent
    shared = processes / "finished-demo"
    with filelock.FileLock(f"{shared}.lock"):
        if not shared.exists():
            made = processes / "demo-being-made"
            shutil.rmtree(made, ignore_errors=True)
            (made / "work").mkdir(parents=True)
            project = Project(copied(made / "clone"), made / "work")
            project.snakemake(config=demo_config, check=0)
            made.rename(shared)
    # Links and times as they are: Snakemake goes by both.
    shutil.copytree(shared, own, symlinks=True, dirs_exist_ok=True)
    return Project(own / "clone", own / "work")

"""`twinrun run`: what is added to Snakemake's own arguments, and what is left to who gives them."""

import subprocess
import sys

import pytest

from twinrun import __main__
from twinrun.__main__ import main
from twinrun.commands import start_snakemake
from twinrun.commands.start_snakemake import PROFILE, SNAKEFILE, command
from twinrun.config.own_config import OWN, own_config

CORES = ["--cores", "all"]
QUIET = ["--quiet", "rules", "host", "reason"]


@pytest.mark.parametrize(
    ("arguments", "added"),
    [
        ([], [*QUIET, *CORES]),
        (["-n"], [*QUIET, *CORES]),
        (["matrix", "--configfile", "mine.yaml"], [*QUIET, *CORES]),
        (["--cores", "2"], QUIET),
        (["--cores=2"], QUIET),
        (["--core", "2"], QUIET),
        (["-c2"], QUIET),
        (["-j", "4"], QUIET),
        (["--executor", "slurm"], QUIET),
        (["--workflow-profile", "slurm"], QUIET),
        (["--configfile", "c-j.yaml"], [*QUIET, *CORES]),
        (["--verbose"], CORES),
        (["-q"], CORES),
        (["--quiet", "all", "-j1"], []),
    ],
)
def test_what_is_left_open_is_added_and_nothing_else(monkeypatch, arguments, added):
    """Red before of the profile: a folder `default` of the user's own was taken for it."""
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    profile = [] if "--workflow-profile" in arguments else ["--workflow-profile", str(PROFILE)]
    assert command(arguments) == [*added, *profile, "--snakefile", str(SNAKEFILE), *arguments]
    assert PROFILE.is_dir()


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["run", "--configfile", "gone.yaml"], ["gone.yaml: there is no such config file"]),
        (["gate", "-n", "--configf=gone.yaml"], ["gone.yaml: there is no such config file"]),
        (
            ["run", "-n", "all", "mine.yaml"],
            ["mine.yaml: a config is named by --configfile mine.yaml"],
        ),
        (
            ["run", "--config", "mine.yaml"],
            ["mine.yaml: --config takes KEY=VALUE; a config is named by --configfile mine.yaml"],
        ),
        (
            ["run", "-C", "studies=[]", "resume"],
            ["resume: --config takes KEY=VALUE; a target stands before it"],
        ),
        (
            ["run", "--configfile", "mine.yaml", "matrix", "folder"],
            [
                "matrix: there is no such config file; a target stands before --configfile, which "
                "takes every word after it",
                "folder: is a folder, where a config file is needed",
            ],
        ),
    ],
)
def test_a_config_that_is_no_file_is_said_in_a_sentence(
    tmp_path, monkeypatch, capsys, arguments, lines
):
    """Red before: Snakemake's traceback, up to FileNotFoundError."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: pytest.fail("was started"))
    assert main(arguments) == 1
    assert capsys.readouterr().err.splitlines() == lines


def test_a_profile_of_the_environment_says_what_may_be_used(monkeypatch):
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "cluster")
    assert "--cores" not in command([])


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["run", "-n", "matrix"], ["-n", "matrix"]),
        (["report", "--forceall"], ["results/report.html", "--forceall"]),
        (["gate", "-n"], ["gate", "-n"]),
    ],
)
def test_each_command_passes_its_target_and_the_rest_in_their_order(monkeypatch, given, passed):
    class ReplacedError(Exception):
        """In place of the process that becomes another."""

    def execv(file, arguments):
        raise ReplacedError(file, arguments)

    monkeypatch.setattr(start_snakemake.os, "execv", execv)
    with pytest.raises(ReplacedError) as ended:
        main(given)
    file, arguments = ended.value.args
    assert file == sys.executable
    assert arguments[:3] == [sys.executable, "-c", start_snakemake.SNAKEMAKE]
    assert arguments[3] == f"twinrun {given[0]}"  # the program of its help and of its mistakes
    assert arguments[-len(passed) :] == passed


@pytest.mark.exhaustive
def test_the_exit_code_is_snakemakes(tmp_path):
    """Red before of the name: `usage: __main__.py`, and mistakes of `__main__.py`."""

    def ended(*arguments, name="run"):
        command = [sys.executable, "-m", "twinrun", name, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = ended("no_such_target", "-n")
    assert done.returncode == 1
    assert "no_such_target" in done.stdout  # as Snakemake's dry runs
    done = ended("--no-such-option")
    assert done.returncode == 2  # argparse's
    assert "\ntwinrun run: error: unrecognized arguments: --no-such-option" in done.stderr
    assert ended("--help").stdout.startswith("usage: twinrun run [-h]")
    assert ended("--help", name="gate").stdout.startswith("usage: twinrun gate [-h]")
    done = ended("reproducibility", "-n")
    assert done.returncode == 0, done.stderr
    assert "compare_repeats" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("has_config", "arguments", "is_said"),
    [
        (False, ["reproducibility"], True),
        (True, ["reproducibility"], False),
        (False, ["--configfile", "mine.yaml"], False),
        (False, ["--configfile=mine.yaml"], False),
    ],
)
def test_that_the_built_in_studies_are_taken_is_said(
    tmp_path, monkeypatch, capsys, has_config, arguments, is_said
):
    """Twenty minutes of them, where somebody has mistaken the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: None)
    if has_config:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/config.yaml").write_text("studies: [matrix]")
    start_snakemake.start(arguments)
    assert ("these are the built-in studies" in capsys.readouterr().err) == is_said


@pytest.mark.parametrize("option", [["-d", "{}"], ["--directory", "{}"], ["--directory={}"]])
def test_it_is_said_of_the_directory_that_counts(tmp_path, monkeypatch, capsys, option):
    """Red before: of the one where the command was given, also where another one was named."""
    (tmp_path / "with/config").mkdir(parents=True)
    (tmp_path / "with/config/config.yaml").write_text("studies: [matrix]")
    (tmp_path / "without").mkdir()
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: None)
    for here, there in (("with", "without"), ("without", "with")):
        monkeypatch.chdir(tmp_path / here)
        start_snakemake.start([part.format(f"../{there}") for part in (*option, "-n")])
        said = f"There is no ../{there}/config/config.yaml here: these are the built-in studies"
        assert (said in capsys.readouterr().err) == (there != "with")


def test_a_folder_that_is_not_there_is_a_slip(tmp_path, monkeypatch, capsys):
    """Red before: it was made, and all built-in studies were run in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("studies: [matrix]")
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: pytest.fail("started"))
    assert main(["run", "-d", "nosuch", "-n"]) == 1
    assert capsys.readouterr().err == (
        "nosuch: there is no such folder, whose config/config.yaml would say what is trained; make "
        "it for the built-in studies, or name a config by --configfile\n"
    )
    assert not (tmp_path / "nosuch").exists()
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: None)
    start_snakemake.start(["-d", "nosuch", "--configfile", "mine.yaml"])


@pytest.mark.parametrize("arguments", [[], ["-n", "--configfile", "config/config.yaml"]])
def test_a_config_that_cannot_be_read_is_named_with_its_line(
    tmp_path, monkeypatch, capsys, arguments
):
    """Red before: "Config file is not valid JSON or YAML", whichever it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: pytest.fail("started"))
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("studies: [matrix]\nworkloads: {a: b: c}\n")
    assert main(["run", *arguments]) == 1
    assert capsys.readouterr().err.startswith("config/config.yaml: line 2 is no YAML (")


def test_one_of_which_nothing_can_be_said_is_left_to_snakemake(tmp_path, monkeypatch):
    """Red before: an empty sentence, and exit code 1."""
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: started.append(1))
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("studies: !!binary zz!")
    start_snakemake.start(["-n"])
    assert started


@pytest.mark.parametrize(
    "text",
    [
        "defaults: [_self_]\nmodel: {width: 3}\n",
        # Red before: the errors were those of a file that nobody had named.
        "model: resnet\nlr: 0.1\ntrainer: {max_epochs: 10}\naccelerator: gpu\ndevices: 1\n",
    ],
)
@pytest.mark.parametrize(("arguments", "is_alone"), [([], True), (["--configfile", "a"], False)])
def test_a_config_of_another_program_is_left_out_and_said_to_be(
    tmp_path, monkeypatch, capsys, arguments, is_alone, text
):
    """Red before: each of its keys was an unknown one, also where another file was named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    monkeypatch.setattr(start_snakemake.os, "execv", lambda *_: None)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(text)
    assert own_config() == []
    start_snakemake.start(arguments)
    said = capsys.readouterr().err
    assert "config/config.yaml is another program's, by its keys, and is left out" in said
    assert ("these are the built-in studies" in said) == is_alone


@pytest.mark.parametrize(
    "text", ["", "workloads: {}\nmodel: 1", "workloads: [", "[1, 2]", "matrx: {}\ndevices: {}"]
)
def test_a_config_with_a_key_of_ours_or_a_mistake_counts(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(text)
    assert own_config() == [OWN]


def test_the_path_is_that_of_a_snakefile(capsys):
    assert main(["path"]) == 0
    assert capsys.readouterr().out == f"{SNAKEFILE}\n"
    assert "rule all" in SNAKEFILE.read_text()


def test_no_command_that_becomes_snakemake_waits_for_torch():
    code = "import sys, twinrun.__main__, twinrun.commands.start_snakemake as s; "
    code += "s.command([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_command_is_in_the_help(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in (*__main__.STARTED, "init", "check", "path"))

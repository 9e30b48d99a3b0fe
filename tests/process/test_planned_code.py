"""Which code a job will depend on is found in a process, remembered, and found again in time."""

import os

import pytest
from users_code import of_user

from twinrun.process import planned_code, source_hash
from twinrun.process.planned_code import added_since, discover, hash_of_code, modules_beside


def test_a_sister_package_that_no_import_statement_names_is_hashed(project):
    memory = project / "imports.json"

    def found():
        return hash_of_code(["my_model"], ["mine"], memory)

    before = found()
    loss = project / "elsewhere/sister/loss.py"
    loss.write_text("# another comment\ndef scale(loss):\n    return loss\n")
    assert found() == before
    loss.write_text("def scale(loss):\n    '''Read by a library.'''\n    return loss\n")
    assert found() != before
    loss.write_text("import time\ndef scale(loss):\n    return loss * time.time()\n")
    assert found() != before


def test_what_was_found_is_remembered_until_a_file_changes(project, monkeypatch):
    memory = project / "imports.json"
    first = discover(["my_model"], ["mine"], memory)
    assert set(of_user(first)) == {"my_model", "sister", "sister.loss"}

    def no_process(*_, **__):
        raise AssertionError("a process was started")

    with monkeypatch.context() as patched:
        patched.setattr(planned_code.subprocess, "Popen", no_process)
        assert discover(["my_model"], ["mine"], memory) == first
        (project / "elsewhere/sister/loss.py").write_text("x = 1\n")
        with pytest.raises(AssertionError, match="a process was started"):
            discover(["my_model"], ["mine"], memory)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}'])
def test_a_damaged_memory_is_made_again(project, content):
    memory = project / "imports.json"
    memory.write_text(content)
    assert "sister.loss" in discover(["my_model"], ["mine"], memory)


def test_a_module_that_cannot_be_imported_is_left_to_who_says_so(project):
    (project / "mine/broken.py").write_text("import sys\nprint('noise')\nsys.exit(3)\n")
    found = discover(["broken"], ["mine"], project / "imports.json")
    assert set(of_user(found)) <= {"broken"}


def test_a_module_that_parses_the_command_line_gets_none(project):
    """Red before: argparse met Twinrun's own arguments, and ended the program."""
    (project / "mine/parsing.py").write_text(
        "import argparse\nargparse.ArgumentParser().parse_args()\n"
        "import importlib\nimportlib.import_module('sister.loss')\n"
    )
    assert "sister.loss" in discover(["parsing"], ["mine"], project / "imports.json")


def test_a_slow_import_is_said_once(project, monkeypatch, capfd):
    """Red before: said again after twice the time, and after four times."""
    (project / "mine/slow_model.py").write_text("import time\ntime.sleep(1)\n")
    monkeypatch.setattr(planned_code, "SILENT_SECONDS", 0.1)
    discover(["slow_model"], ["mine"], project / "imports.json")
    said = "Importing slow_model to see what code a job depends on ...\n"
    assert capfd.readouterr().err == said
    discover(["slow_model"], ["mine"], project / "imports.json")
    assert capfd.readouterr().err == ""


PLUGINS = """
import importlib, pkgutil
FOUND = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
"""


def added_plugin(project):
    (project / "mine/plugins/second.py").write_text("")


def added_sister(project):
    (project / "elsewhere/sister/fast.py").write_text("")


def added_package(project):
    (project / "elsewhere/extra").mkdir()
    (project / "elsewhere/extra/__init__.py").write_text("")


def added_shadow(project):
    # `mine` comes before `elsewhere`.
    (project / "mine/sister").mkdir()
    (project / "mine/sister/__init__.py").write_text("")
    (project / "mine/sister/loss.py").write_text("")


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (added_plugin, "plugins.second"),
        (added_sister, "sister.fast"),
        (added_package, "extra"),
        (added_shadow, "mine/sister/loss.py"),
    ],
)
def test_a_module_that_appears_later_and_is_imported_too_is_found(project, add, expected):
    memory = project / "imports.json"
    (project / "mine/plugins").mkdir()
    (project / "mine/plugins/__init__.py").write_text(PLUGINS)
    (project / "mine/plugins/first.py").write_text("")
    optional = "".join(
        f"try: importlib.import_module({name!r})\nexcept ImportError: pass\n"
        for name in ("sister.fast", "extra", "plugins")
    )
    model = project / "mine/my_model.py"
    model.write_text(model.read_text() + optional)

    def found():
        imported = discover(["my_model"], ["mine"], memory)
        return {*imported, *(entry["file"] for entry in imported.values())}

    before = hash_of_code(["my_model"], ["mine"], memory)
    beside = modules_beside([["my_model", "twinrun.workloads.peaks"]], ["mine"], memory)
    assert expected not in found()
    assert added_since(beside) == []
    add(project)
    assert expected in found()
    assert hash_of_code(["my_model"], ["mine"], memory) != before
    assert len(added_since(beside)) == 1


def test_what_lies_beside_and_is_no_module_starts_no_process(project, monkeypatch):
    memory = project / "imports.json"
    first = discover(["my_model"], ["mine"], memory)
    (project / "mine/notes.txt").write_text("")
    (project / "mine/images").mkdir()
    (project / "mine/images/one.png").write_text("")
    (project / "results").mkdir()

    def no_process(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(planned_code.subprocess, "Popen", no_process)
    assert discover(["my_model"], ["mine"], memory) == first


@pytest.mark.parametrize(
    "end", ["raise RuntimeError", "raise SystemExit", "import os; os._exit(3)"]
)
def test_an_import_that_breaks_off_is_not_remembered(project, end):
    # What is missing may come without a change of any file that was imported: a package is
    # installed, a GPU is there.
    memory = project / "imports.json"
    (project / "mine/unfinished.py").write_text(
        f"import importlib, os\nif not os.path.exists('here'): {end}\n"
        "importlib.import_module('sister.loss')\n"
    )
    assert "sister.loss" not in discover(["unfinished"], ["mine"], memory)
    (project / "here").write_text("")
    planned_code._BROKEN_OFF.clear()  # as in the next process
    assert "sister.loss" in discover(["unfinished"], ["mine"], memory)


def test_an_import_that_was_killed_is_done_again(project):
    """Red before: jobs were planned without the user's code, and done anew at the next start."""
    (project / "mine/killed.py").write_text(
        "import os, signal\nfrom pathlib import Path\n"
        "if not Path('here').exists():\n"
        "    Path('here').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert "killed" in discover(["killed"], ["mine"], project / "imports.json")


@pytest.mark.parametrize("end", ["raise RuntimeError", "import os; os._exit(3)"])
def test_an_import_that_breaks_off_is_waited_for_once_in_a_start(project, end):
    """Red before: each rule that asked imported it anew, before the rehearsal could say why."""
    (project / "mine/unfinished.py").write_text(
        f"with open('imports.log', 'a') as file: file.write('1')\n{end}\n"
    )
    for module in ("twinrun.errors", "twinrun.artifacts"):
        code = [module, "unfinished"]
        hash_of_code(code, [str(project / "mine")], project / "imports.json")
    assert (project / "imports.log").read_text() == "1"


def test_what_is_installed_decides_what_is_imported(project, monkeypatch):
    memory = project / "imports.json"
    discover(["my_model"], ["mine"], memory)
    monkeypatch.setattr(planned_code, "_installed", lambda _: "another")

    def no_process(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(planned_code.subprocess, "Popen", no_process)
    with pytest.raises(AssertionError, match="a process was started"):
        discover(["my_model"], ["mine"], memory)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_script_called_as_a_data_file_is_not_executed(project, is_there):
    """Of `csv: train.csv`."""
    (project / "mine/train.py").write_text(
        "import csv, pathlib\npathlib.Path('executed').touch()\n"
        "def main():\n    csv = 1\n\n\nif True:\n    data = 'x'\n"
    )
    if is_there:
        for name in ("train.csv", "train.data"):
            (project / name).write_text("")
    texts = ["train.csv", "train.data"] if is_there else ["train.csv"]
    alone = hash_of_code(["my_model"], ["mine"], project / "imports.json")
    assert hash_of_code(["my_model", *texts], ["mine"], project / "imports.json") == alone
    modules_beside([["my_model", *texts]], ["mine"], project / "imports.json")
    assert not (project / "executed").exists()


@pytest.mark.parametrize("file", ["__init__.py", "net.py"])
def test_a_package_of_the_working_directory_counts_as_code(project, file):
    """Its name is that of a folder that is there."""
    (project / "pack").mkdir()
    (project / "pack" / file).write_text("class Net: pass\n")
    name = "pack" if file == "__init__.py" else "pack.net"
    assert source_hash.may_name_code(name, ["."])
    assert source_hash.may_name_code(f"{name}.Net", ["."])
    before = hash_of_code([name], ["."], project / "imports.json")
    (project / "pack" / file).write_text("class Net: x = 1\n")
    assert hash_of_code([name], ["."], project / "imports.json") != before


@pytest.mark.parametrize(
    "definition",
    [
        "class Net: pass",
        "def Net(): pass",
        "Net = 1",
        "from torch.nn import Linear as Net",
        "from torch.nn import *",
        "if True:\n    class Net: pass",
        "try:\n    from a import Net\nexcept ImportError:\n    Net = None",
        "def __getattr__(name): return 1",
        "syntax error",
    ],
)
def test_whatever_may_be_a_class_counts_as_code(project, definition):
    (project / "mine/nets.py").write_text(f"{definition}\n")
    for name in ("nets.Net", "nets.Net.tiny", "nets", "nowhere.Net", "torch.nn.Linear"):
        assert source_hash.may_name_code(name, ["mine"])


def test_a_module_that_changes_the_working_directory_is_where_it_lies(project):
    (project / "mine/moves.py").write_text("import os\nos.chdir('/')\n")
    found = discover(["moves"], ["mine"], project / "imports.json")
    assert found["moves"]["file"] == os.path.join("mine", "moves.py")  # noqa: PTH118

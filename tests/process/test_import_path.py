"""What cannot be imported is said in a sentence that says what to write instead."""

import doctest
import json
import re
import sys

import pytest
import yaml

from twinrun.config.shipped import SCHEMA
from twinrun.errors import TwinrunError
from twinrun.process import import_path
from twinrun.process.import_path import import_object, user_line


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose package lies in `src`, as many do, and is not installed."""
    (tmp_path / "src/acme_layout/nets").mkdir(parents=True)
    (tmp_path / "src/acme_layout/nets/small.py").write_text("class Net: pass\n")
    (tmp_path / "src/single_layout.py").write_text("import absent_of_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_examples_in_the_docstrings_hold():
    found = doctest.testmod(import_path)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "acme.net.Net",
            "is not an import path like package.module:Class, did you mean acme.net:Net?",
        ),
        ("src/acme/net.py:Net", "did you mean acme.net:Net?"),
        ("./net.py:Net", "did you mean net:Net?"),
        ("Net", "is not an import path like package.module:Class"),
        ("acme:", "is not an import path like package.module:Class"),
        ("acme-net:Net", "no module of such a name: name the file acme_net.py, say acme_net:Net"),
        ("nets.ipynb", "; a notebook is no module: jupyter nbconvert --to script nets.ipynb"),
        (
            "a/nets.ipynb:Net",
            "; a notebook is no module: jupyter nbconvert --to script a/nets.ipynb",
        ),
        ("acme net:Net", "is not an import path like package.module:Class"),
    ],
)
def test_what_is_no_import_path_is_said_before_anything_is_imported(given, words):
    with pytest.raises(TwinrunError) as raised:
        import_object(given)
    assert str(raised.value).endswith(words) or words in str(raised.value)


@pytest.mark.parametrize(
    ("given", "is_near"),
    [
        ("acme_layout.nets.small:Net", True),
        ("single_layout:Net", True),
        ("nowhere_at_all:Net", False),
    ],
)
def test_a_package_one_folder_below_is_pointed_at(project, given, is_near):
    with pytest.raises(TwinrunError) as raised:
        import_object(given, ["."])
    hint = "it is in src: install its project (pip install -e .), or set PYTHONPATH=src"
    assert str(raised.value).endswith(hint) == is_near


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("get_ipython().run_line_magic('matplotlib', 'inline')", "only a notebook has it"),
        ("from .layers import Linear", "say package.scripted, from the folder above, or import"),
        (
            "if __name__ == '__main__':\n    class Net: pass",
            'move it out of `if __name__ == "__main__":`, where only a script gets to',
        ),
        ("class Nets: pass", "did you mean Nets?"),
        ("raise NameError('a name')", "NameError: a name"),
    ],
)
def test_what_a_script_or_a_notebook_has_is_said_how_to_mend(project, text, cure):
    """Red before: Python's own words alone."""
    sys.modules.pop("scripted", None)
    (project / "scripted.py").write_text(f"{text}\n")
    with pytest.raises(TwinrunError) as raised:
        import_object("scripted:Net", [str(project)])
    assert str(raised.value).startswith("scripted:Net: ")
    assert cure in str(raised.value)


@pytest.mark.parametrize("given", ["glob:Lit", "glob.nets:Lit", "sys:Lit"])
def test_a_module_that_another_one_hides_is_named_with_that_ones_file(project, given):
    """Red before: "glob has no Lit", and nothing of which glob."""
    name = given.partition(":")[0].partition(".")[0]
    own = project / f"{name}.py"
    own.write_text("class Lit: pass\n")
    with pytest.raises(TwinrunError) as raised:
        import_object(given, [str(project)])
    theirs = getattr(sys.modules[name], "__file__", None) or "Python itself"
    assert str(raised.value).endswith(
        f"; {theirs} was looked into, which has the name of {own}: give that another name"
    )


@pytest.mark.parametrize("given", ["single_layout.py:Net", "nowhere_at_all.py:Net"])
def test_a_files_name_with_its_ending_is_said_to_be_none(project, given):
    """Red before: `No module named 'm.py'; 'm' is not a package` alone."""
    with pytest.raises(TwinrunError) as raised:
        import_object(given, [str(project), str(project / "src")])
    assert str(raised.value).endswith(f"did you mean {given.replace('.py', '')}?")


@pytest.mark.parametrize("given", ["my_notebook:Net", "my_notebook.ipynb:Net"])
def test_a_notebook_is_said_to_be_none(project, given):
    """Red before: `No module named 'my_notebook'`, with the file in sight."""
    (project / "my_notebook.ipynb").write_text("{}")
    with pytest.raises(TwinrunError) as raised:
        import_object(given, [str(project)])
    file = project / "my_notebook.ipynb"
    cure = f"; a notebook is no module: jupyter nbconvert --to script {file}"
    assert str(raised.value).endswith(cure)


def test_a_folder_with_a_space_is_quoted_for_the_shell(project):
    (project / "a folder").mkdir()
    (project / "a folder/spaced_layout.py").write_text("")
    with pytest.raises(TwinrunError) as raised:
        import_object("spaced_layout:Net", ["."])
    assert str(raised.value).endswith("set PYTHONPATH='a folder'")


def test_a_package_that_a_module_misses_is_not_taken_for_the_module(project):
    with pytest.raises(TwinrunError) as raised:
        import_object("single_layout:Net", ["src"])
    assert "No module named 'absent_of_all'" in str(raised.value)
    assert "PYTHONPATH" not in str(raised.value)


def test_the_schema_takes_the_same_paths():
    schema = yaml.safe_load(SCHEMA.read_text())
    pattern = schema["$defs"]["import_path"]["pattern"]
    assert pattern == rf"^{import_path.IMPORT_PATH.pattern}\Z"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("numpy<1.0", "; shipper 2.1 wants numpy<1.0, where .* is installed"),
        ("absent-package>=3", "; shipper 2.1 wants absent-package>=3, which is not installed"),
        ("numpy>=1.0", ""),
        ("absent-package; extra == 'all'", ""),
    ],
)
def test_packages_that_do_not_fit_together_are_named(tmp_path, monkeypatch, asked, sentence):
    """Red before: the message of whatever failed, of several lines, and nothing of the reason."""
    (tmp_path / "shipper.py").write_text('raise AttributeError("no such name\\nand a page more")')
    installed = tmp_path / "shipper-2.1.dist-info"
    installed.mkdir()
    text = f"Metadata-Version: 2.1\nName: shipper\nVersion: 2.1\nRequires-Dist: {asked}\n"
    (installed / "METADATA").write_text(text)
    (installed / "top_level.txt").write_text("shipper")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TwinrunError) as found:
        import_object("shipper:Net")
    begun = "shipper:Net: importing shipper failed with AttributeError: no such name"
    assert re.fullmatch(begun + sentence, str(found.value))


def test_the_working_directory_is_named_where_it_is_looked_in(tmp_path, monkeypatch):
    """Red before: the folder beside the config alone was named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TwinrunError) as raised:
        import_object("nowhere_at_all:Net", ["beside"])
    assert f"(looked for in {tmp_path / 'beside'}, {tmp_path}, beside the config" in str(
        raised.value
    )


def test_a_failure_in_a_file_that_no_key_names_is_said_by_its_line(project, monkeypatch):
    """Red before: of a class that another file defines no line was named."""
    (project / "helpers_of_mine.py").write_text("def read(pool):\n    return pool.sample\n")
    (project / "mine_of_all.py").write_text("import helpers_of_mine\nread = helpers_of_mine.read\n")
    monkeypatch.syspath_prepend(str(project))
    read = import_object("mine_of_all:read")
    with pytest.raises(AttributeError) as raised:
        read(None)
    error = raised.value.with_traceback(raised.value.__traceback__.tb_next)
    assert user_line(error, ["mine_of_all"]) == "helpers_of_mine.py, line 2"
    assert user_line(error, ["helpers_of_mine"]) == "helpers_of_mine.py, line 2"
    with pytest.raises(TypeError) as raised:
        json.loads(3)
    error = raised.value.with_traceback(raised.value.__traceback__.tb_next)
    assert user_line(error, ["mine_of_all"]) == ""

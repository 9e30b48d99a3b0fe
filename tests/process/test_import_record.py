"""A file is hashed as it was executed, whatever becomes of it, its module or its name."""

import importlib.util
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from users_code import of_user

from twinrun import artifacts
from twinrun.process.imported_code import changed_since, hash_of_file
from twinrun.process.launching import launch

PROBE = """
import importlib, json, os, sys, types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from twinrun.process.imported_code import imported_files

HERE = Path(__file__).parent
OTHER = "x = 2222\\n"


def same_time(file, text):
    before = os.stat(file)
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def edited():
    importlib.import_module("mine")
    (HERE / "mine.py").write_text(OTHER)


def edited_and_imported_again():
    edited()
    importlib.reload(sys.modules["mine"])


def cached_bytecode():
    # Of the same time and size, so that Python takes the bytecode for that of the source.
    import py_compile
    py_compile.compile(str(HERE / "mine.py"))
    same_time(HERE / "mine.py", OTHER)
    assert importlib.import_module("mine").x == 2222


def replaced():
    importlib.import_module("mine")
    sys.modules["mine"] = types.SimpleNamespace(x=1)


def forgotten():
    importlib.import_module("mine")
    del sys.modules["mine"]


def from_a_path():
    spec = spec_from_file_location("mine", HERE / "mine.py")
    spec.loader.exec_module(module_from_spec(spec))


def in_another_folder():
    importlib.import_module("mine")
    os.makedirs(HERE / "deeper/still")
    os.chdir(HERE / "deeper/still")


def zipped():
    sys.path.insert(0, str(HERE / "archive.zip"))
    importlib.import_module("packed")


def in_a_namespace():
    importlib.import_module("space.inner")


def without_source():
    importlib.import_module("bare")


def extension():
    os.replace(HERE / "other", importlib.import_module("_xxhash").__file__)


def probe(kind, output):
    globals()[kind]()
    Path(output).write_text(json.dumps(imported_files()))
"""


@pytest.fixture
def probed(tmp_path, monkeypatch):
    """Do something to modules in a fresh process; return what it says of its code."""
    (tmp_path / "probing.py").write_text(PROBE)
    (tmp_path / "mine.py").write_text("x = 1111\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)

    def probe(kind):
        output = tmp_path / "found.json"
        launch("probing:probe", {"kind": kind, "output": str(output)}, {})
        found = of_user(artifacts.read_json(output))
        found.pop("probing")
        return found

    return probe


@pytest.mark.parametrize(
    "kind", ["edited", "replaced", "forgotten", "from_a_path", "in_another_folder"]
)
def test_a_module_is_hashed_as_it_was_executed(probed, kind):
    before = hash_of_file("mine.py")
    assert probed(kind) == {"mine": {"file": "mine.py", "sha256": before}}


def test_what_was_executed_twice_counts_twice(probed):
    before = hash_of_file("mine.py")
    found = probed("edited_and_imported_again")
    assert [entry["sha256"] for entry in found.values()] == [before, hash_of_file("mine.py")]


def test_the_source_is_executed_and_not_a_cache_that_looks_like_it(probed):
    assert probed("cached_bytecode")["mine"]["sha256"] == hash_of_file("mine.py")


def test_a_module_in_an_archive_counts_by_the_archive(probed, tmp_path):
    with zipfile.ZipFile("archive.zip", "w") as archive:
        archive.writestr("packed.py", "x = 1\n")
    found = probed("zipped")
    assert found == {"packed": {"file": "archive.zip", "sha256": hash_of_file("archive.zip")}}
    assert changed_since(found) == []
    Path("archive.zip").write_bytes(b"another")
    assert changed_since(found) == ["archive.zip"]


def test_a_module_in_a_namespace_counts(probed, tmp_path):
    (tmp_path / "space").mkdir()
    (tmp_path / "space/inner.py").write_text("x = 1\n")
    assert set(probed("in_a_namespace")) == {"space.inner"}


def test_bytecode_without_source_counts(probed, tmp_path):
    import py_compile

    py_compile.compile("mine.py", cfile="bare.pyc")
    before = hash_of_file("bare.pyc")
    assert probed("without_source") == {"bare": {"file": "bare.pyc", "sha256": before}}


def test_a_compiled_library_is_hashed_as_it_was_loaded(probed, tmp_path):
    origin = Path(importlib.util.find_spec("xxhash._xxhash").origin)
    shutil.copy(origin, tmp_path / origin.name)
    (tmp_path / "other").write_bytes(b"something else")
    before = hash_of_file(origin)
    found = probed("extension")
    assert found == {"_xxhash": {"file": origin.name, "sha256": before}}
    assert changed_since(found) == [origin.name]

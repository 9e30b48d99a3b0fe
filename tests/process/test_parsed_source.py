"""What is remembered of parsed files."""

import ast

import pytest

from twinrun.process import parsed_source

CODE = 'import os\nfrom a.b import c\n\n\ndef f():\n    """Return one."""\n    return 1\n'


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one file, and a memory of its own."""
    (tmp_path / "one.py").write_text(CODE)
    monkeypatch.setattr(parsed_source, "PACKAGE", tmp_path)
    monkeypatch.setattr(parsed_source, "MEMORY", tmp_path / "__pycache__/memory.json")
    forget()
    yield tmp_path
    forget()


@pytest.fixture
def parsings(monkeypatch):
    """What was parsed, in order."""
    sources, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda source: (sources.append(source), parse(source))[1])
    return sources


def forget():
    """Be a new process."""
    parsed_source._memory.cache_clear()
    parsed_source._parse.cache_clear()


def test_a_file_is_parsed_once_by_all_processes(package, parsings):
    first = parsed_source.parsed(package / "one.py")
    assert first.imports == ((0, "os", ()), (0, "a.b", ("c",)))
    parsed_source._keep()
    forget()
    assert parsed_source.parsed(package / "one.py") == first
    assert len(parsings) == 1


def test_a_changed_file_is_parsed_anew(package, parsings):
    first = parsed_source.parsed(package / "one.py")
    parsed_source._keep()
    forget()
    (package / "one.py").write_text(CODE.replace("return 1", "return 2"))
    assert parsed_source.parsed(package / "one.py").sha256 != first.sha256
    (package / "one.py").write_text(CODE.replace("Return one", "Return it"))
    assert parsed_source.parsed(package / "one.py") == first, "a docstring does not count"
    assert len(parsings) == 3


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"code": "another", "files": {}}', b'{"code": 1}', b"\xff"]
)
def test_a_damaged_memory_is_none(package, parsings, damage):
    first = parsed_source.parsed(package / "one.py")
    parsed_source.MEMORY.parent.mkdir()
    parsed_source.MEMORY.write_bytes(damage)
    forget()
    assert parsed_source.parsed(package / "one.py") == first
    assert len(parsings) == 2


def test_where_none_can_be_kept_files_are_parsed(package, monkeypatch):
    (package / "file").touch()
    monkeypatch.setattr(parsed_source, "MEMORY", package / "file/memory.json")
    assert parsed_source.parsed(package / "one.py").imports
    parsed_source._keep()
    assert sorted(path.name for path in package.iterdir()) == ["file", "one.py"]


def test_a_users_file_is_not_remembered(package, tmp_path_factory):
    other = tmp_path_factory.mktemp("theirs") / "two.py"
    other.write_text(CODE)
    assert parsed_source.parsed(other).imports
    assert parsed_source._memory().files == {}

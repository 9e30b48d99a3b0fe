"""What a user's classes really import is found in a process, hashed, and looked at again."""

import hashlib
import json
import os
import subprocess
import sys
import types

import pytest
from users_code import of_user

from twinrun.process import imported_code
from twinrun.process.imported_code import (
    changed_since,
    distributions,
    distributions_hash,
    imported_files,
    is_outside,
)
from twinrun.process.planned_code import discover


def test_what_changed_or_went_is_named(project):
    recorded = discover(["my_model"], ["mine"], project / "imports.json")
    assert changed_since(recorded) == []
    (project / "elsewhere/sister/loss.py").write_text("x = 2\n")
    (project / "mine/my_model.py").unlink()
    assert sorted(changed_since(recorded)) == ["elsewhere/sister/loss.py", "mine/my_model.py"]


def test_what_a_function_imports_when_it_is_called_is_seen_by_the_process(project):
    (project / "mine/lazy.py").write_text("def train():\n    import sister.loss\n")
    code = (
        "import sys, json; sys.path.insert(0, 'mine'); import lazy; lazy.train()\n"
        "from twinrun.process.imported_code import imported_files\n"
        "print(json.dumps(imported_files()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [*of_user(json.loads(done.stdout))] == ["lazy", "sister", "sister.loss"]


def test_packages_python_and_twinrun_are_no_users_code():
    assert not is_outside(json.__file__)
    assert not is_outside(pytest.__file__)
    assert not is_outside(imported_code.__file__)
    assert is_outside(__file__)
    assert "json" not in imported_files()


def test_every_distribution_counts():
    found = distributions()
    assert {"torch", "numpy", "pytest"} <= {name.lower() for name in found}
    changed = {**found, "pytest": "0.0"}
    assert distributions_hash(changed) != distributions_hash(found) == distributions_hash()


def installed(folder, *, code, url=True, script="/one/bin/python"):
    """Leave what an installer leaves of a distribution; give the folder of packages."""
    packages = folder / "site-packages"
    notes = packages / "helper-1.0.dist-info"
    notes.mkdir(parents=True)
    (packages / "helper.py").write_text(code)
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: helper\nVersion: 1.0\n")
    hashes = {
        "helper.py": hash_of_text(code),
        "../../bin/helper": hash_of_text(script),
        "helper-1.0.dist-info/direct_url.json": hash_of_text(str(folder)),
    }
    (notes / "RECORD").write_text("".join(f"{n},sha256={h},1\n" for n, h in hashes.items()))
    if url:
        (notes / "direct_url.json").write_text('{"url": "file:///home/me/helper", "dir_info": {}}')
    return str(packages)


def hash_of_text(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_helper_installed_from_a_folder_changes_under_one_version(tmp_path, monkeypatch):
    def found(name, **options):
        monkeypatch.setattr(sys, "path", [installed(tmp_path / name, **options)])
        return distributions()

    one = found("one", code="SCALE = 1")
    assert found("elsewhere", code="SCALE = 1", script="/two/bin/python") == one
    assert found("two", code="SCALE = 2") != one
    assert one["helper"].startswith("1.0 (files ")
    assert found("indexed", code="SCALE = 1", url=False) == {"helper": "1.0"}


@pytest.mark.parametrize("first", ["one", "two"])
def test_of_two_folders_the_first_ones_version_counts(tmp_path, monkeypatch, first):
    """Red before: the last one's was recorded, where Python imports the first one's."""
    folders = {"one": ("ruamel.Yaml", "1.0"), "two": ("ruamel-yaml", "2.0")}
    for folder, (name, version) in folders.items():
        notes = tmp_path / folder / "site-packages" / f"ruamel_yaml-{version}.dist-info"
        notes.mkdir(parents=True)
        (notes / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    order = sorted(folders, key=lambda folder: folder != first)
    monkeypatch.setattr(sys, "path", [str(tmp_path / f / "site-packages") for f in order])
    assert distributions() == {"ruamel-yaml": folders[first][1]}


def test_distributions_do_not_depend_on_what_is_imported(tmp_path, monkeypatch):
    """setuptools adds a folder with distributions of its own to sys.path when it is imported."""
    before = distributions()
    vendored = tmp_path / "_vendor/extra-9.9.dist-info"
    vendored.mkdir(parents=True)
    (vendored / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path / "_vendor"))
    assert distributions() == before


def test_two_files_of_one_name_are_both_found(tmp_path):
    modules = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(f"x = '{folder}'\n")
        module = types.ModuleType("model")
        module.__file__ = str(tmp_path / folder / "model.py")
        modules.append(module)
    found = imported_files(modules)
    assert len({entry["sha256"] for entry in found.values()}) == 2


@pytest.mark.exhaustive
def test_what_a_compiler_generates_is_no_code_of_the_users(tmp_path):
    """Red before: a compiled run's code was gone with its cache, and the gate called it changed."""
    code = (
        "import json, torch\n"
        "from twinrun.process.imported_code import imported_files\n"
        "torch.compile(lambda tensor: (tensor + 1).sin())(torch.ones(8))\n"
        "print('imported', json.dumps(imported_files()))\n"
    )
    (tmp_path / "own.py").write_text(code)
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    for further in ({}, variables):
        found = subprocess.run(
            [sys.executable, str(tmp_path / "own.py")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **further},
        )
        _, _, imported = found.stdout.partition("imported ")
        assert [*of_user(json.loads(imported))] == ["__main__"]
    assert list((tmp_path / "cache").rglob("*.py"))


def test_a_cache_that_lies_around_the_users_code_hides_none_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    name = "cqbpjerfofaazip5b5e66ksxazn2bdhggsmbsd5cnqenpbyhfxee"
    assert is_outside(str(tmp_path / "project/model.py"))
    assert not is_outside(str(tmp_path / f"qb/{name}.py"))
    assert not is_outside(str(tmp_path / f"qb/{name}.main.so"))
    assert not is_outside(str(tmp_path / f"triton/0/{name.upper()}/launcher.so"))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    assert is_outside(str(tmp_path / f"qb/{name}.py"))


def test_a_user_without_a_home_is_asked_for_none(tmp_path, monkeypatch):
    """As in a container that runs under any number. Red before: RuntimeError."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("TRITON_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert is_outside(str(tmp_path / "own.py"))


@pytest.mark.parametrize("variable", ["TRITON_HOME", "HOME"])
def test_what_triton_builds_in_its_own_folder_is_no_code_of_the_users(
    tmp_path, monkeypatch, variable
):
    """Red before: what it asks a GPU by was taken for the user's, and changed with its cache."""
    monkeypatch.delenv("TRITON_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    folder = tmp_path / ".triton/cache/XU5DT2AO5BD5AEHEYGLPP5LRDFHHCUEJT4LGDVLB4STXUGVGHFPA"
    assert not is_outside(str(folder / "cuda_utils.cpython-312-x86_64-linux-gnu.so"))
    assert is_outside(str(tmp_path / ".triton/own.py"))
    assert is_outside(str(tmp_path / "own.py"))

"""Each run compiles for itself, and says so; where it does not, that is said."""

import json
import os
from pathlib import Path

import pytest
import torch

from twinrun.process.compiler_cache import FOLDERS, OWN, cache_used, own_cache, sharing
from twinrun.process.launching import launch


@pytest.fixture(autouse=True)
def _importable(monkeypatch, request):
    """The functions that fresh processes call are here."""
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=os.pathsep)


def report_cache(path, *, is_compiling):
    """Write which cache this process has used."""
    if is_compiling:
        # As a module does that compiles its network by itself; traced only, which takes a second.
        torch.compile(lambda tensor: tensor + 1, backend="aot_eager")(torch.ones(3))
    Path(path).write_text(json.dumps(cache_used()))


def used(tmp_path, *, is_compiling=True, **further):
    with own_cache() as variables:
        launch(
            "test_compiler_cache:report_cache",
            {"path": str(tmp_path / "used.json"), "is_compiling": is_compiling},
            {**variables, **further},
        )
    return json.loads((tmp_path / "used.json").read_text())


def test_processes_get_an_empty_folder_which_is_deleted():
    with own_cache() as first, own_cache() as second:
        assert set(first) == {*FOLDERS, OWN}
        assert not {*first.values()} & {*second.values()}
        assert list(Path(first[OWN]).iterdir()) == []
        Path(first[FOLDERS[1]]).mkdir()
    assert not Path(first[OWN]).exists()


@pytest.mark.exhaustive
def test_two_processes_that_compile_say_that_they_did_so_apart(tmp_path):
    first, second = used(tmp_path), used(tmp_path)
    assert first["is_own"]
    assert first["folder"] != second["folder"]
    assert sharing([first, second]) == "own"


def test_a_process_that_compiles_nothing_has_used_no_cache(tmp_path):
    assert used(tmp_path, is_compiling=False) is None


# Launched processes import this file, and find nothing else of the tests.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    [
        FOLDERS[0],
        pytest.param(FOLDERS[1], marks=pytest.mark.exhaustive),
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE",
    ],
)
def test_a_cache_that_others_may_write_to_is_no_own_one(name, tmp_path, monkeypatch):
    value = "1" if "REMOTE" in name else str(tmp_path / "shared")
    found = used(tmp_path, **{name: value})
    assert not found["is_own"]
    assert sharing([found, found]) == "shared"


def test_without_a_folder_of_the_runs_own_the_cache_is_the_machines(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compile(lambda tensor: tensor - 1, backend="aot_eager")(torch.ones(3))
    assert cache_used() == {"folder": str(tmp_path), "is_own": False}
    assert os.environ.get(OWN) is None

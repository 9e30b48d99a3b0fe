"""A dataset is made, hashed and recorded, the same again and again."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.training.prepare_dataset import prepare

RATINGS = {"users": 30, "items": 20, "ratings": 200, "rank": 2, "noise": 0.1, "seed": 1}


def prepared(folder, make="twinrun.data.ratings:make", parameters=RATINGS, search_path=()):
    prepare(
        name="mine",
        make=make,
        parameters=parameters,
        search_path=search_path,
        arrays=folder / "mine.npz",
        manifest=folder / "mine.json",
    )
    return (folder / "mine.npz").read_bytes(), (folder / "mine.json").read_bytes()


def test_the_same_parameters_give_the_same_bytes(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert prepared(first) == prepared(second)
    assert prepared(first, parameters={**RATINGS, "seed": 2}) != prepared(second)


def test_the_manifest_names_the_hash_and_how_it_was_made(tmp_path):
    prepared(tmp_path)
    manifest = artifacts.read_json(tmp_path / "mine.json")
    assert manifest["sha256"] == artifacts.sha256(tmp_path / "mine.npz")
    assert manifest["parameters"] == RATINGS
    assert manifest["libraries"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("make", "parameters", "message"),
    [
        ("absent:make", {}, "importing absent failed"),
        ("twinrun.data.ratings:mak", {}, "has no mak, did you mean make?"),
        (
            "twinrun.data.ratings:make",
            {**RATINGS, "user": 3},
            "parameters.user: .*make does not take it, did you mean users",
        ),
        ("twinrun.data.ratings:make", {"users": 3}, "make needs items, ratings, .* too"),
        (
            "twinrun.data.ratings:make",
            {**RATINGS, "rank": "8"},
            "datasets.mine: twinrun.data.ratings:make with .* failed with",
        ),
        ("builtins:dict", {"a": 1}, "returned no dictionary of NumPy arrays, but a dict"),
        ("builtins:dict", {}, "returned nothing: no array holds a value"),
        ("twinrun.data.ratings:np", {}, "make: twinrun.data.ratings:np is no function"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path, make, parameters, message):
    with pytest.raises(TwinrunError, match=message):
        prepared(tmp_path, make=make, parameters=parameters)
    assert list(tmp_path.iterdir()) == []


def test_users_own_functions_are_found_beside_the_config(tmp_path):
    (tmp_path / "own_maker.py").write_text(
        "import numpy as np\ndef make(n): return {'x': np.arange(n)}\n"
    )
    prepared(tmp_path / "out", "own_maker:make", {"n": 3}, search_path=[str(tmp_path)])
    np.testing.assert_array_equal(artifacts.read_arrays(tmp_path / "out/mine.npz")["x"], range(3))


def test_a_maker_that_changes_the_working_directory_leaves_its_dataset_where_it_belongs(
    tmp_path, monkeypatch
):
    (tmp_path / "maker_that_moves.py").write_text(
        "import os, numpy\nos.chdir('/')\ndef make():\n    return {'x': numpy.ones(1)}\n"
    )
    monkeypatch.chdir(tmp_path)
    prepared(Path(), "maker_that_moves:make", {}, [str(tmp_path)])
    assert (tmp_path / "mine.npz").exists()


DOWNLOADS = """
import pathlib, time
import numpy as np

def make(kind, seconds):
    np.save("download.npy", np.full(3, kind))
    pathlib.Path(f"loaded{kind}").touch()
    until = time.monotonic() + seconds
    while time.monotonic() < until and len([*pathlib.Path().glob("loaded*")]) < 2:
        time.sleep(0.05)
    return {"kind": np.load("download.npy")}
"""
BESIDE = """
import sys
from twinrun.training.prepare_beside import prepare_beside
kind = int(sys.argv[1])
arguments = {"name": f"of{kind}", "make": "downloads:make", "search_path": ["."]}
files = {"arrays": f"results/data/{kind}.npz", "manifest": f"results/data/{kind}.json"}
prepare_beside({**arguments, **files, "parameters": {"kind": kind, "seconds": 60}}, {})
"""


def test_two_that_go_through_one_file_are_made_one_after_the_other(tmp_path):
    """Red at 9ab27237: one of both had the other's data, in silence."""
    (tmp_path / "downloads.py").write_text(DOWNLOADS)
    (tmp_path / "results/data").mkdir(parents=True)
    making = [
        subprocess.Popen([sys.executable, "-c", BESIDE, str(kind)], cwd=tmp_path) for kind in (1, 2)
    ]
    assert [process.wait() for process in making] == [0, 0]
    for kind in (1, 2):
        with np.load(tmp_path / f"results/data/{kind}.npz") as arrays:
            assert arrays["kind"].tolist() == [kind] * 3

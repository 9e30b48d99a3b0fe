"""A user's own dataset is known by its bytes, which are not read more often than needed."""

import os
import shutil

import pytest

from twinrun import artifacts, dataset_files
from twinrun.errors import TwinrunError
from twinrun.training.write_run import watched


def test_a_file_is_hashed_once_until_another_comes_to_its_place(tmp_path, monkeypatch):
    file, memory = tmp_path / "data.csv", tmp_path / "memory/hashes.json"
    hashed = []
    once = artifacts.sha256
    monkeypatch.setattr(artifacts, "sha256", lambda path: hashed.append(path) or once(path))
    file.write_text("1,2")
    first = dataset_files.remembered_sha256(file, memory)
    assert dataset_files.remembered_sha256(file, memory) == first == once(file)
    assert len(hashed) == 1
    # As large, and with the same time of writing.
    other = tmp_path / "other.csv"
    other.write_text("1,3")
    found = file.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.rename(file)
    assert dataset_files.remembered_sha256(file, memory) == once(file) != first
    memory.write_text("{")
    assert dataset_files.remembered_sha256(file, memory) == once(file)


def _made(folder):
    for name, content in {"a/1.txt": "x", "a/2.txt": "y", "b/1.txt": "x"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


CHANGES = {
    "changed": lambda folder: (folder / "a/2.txt").write_text("z"),
    "added": lambda folder: (folder / "b/3.txt").write_text(""),
    "removed": lambda folder: (folder / "b/1.txt").unlink(),
    "renamed": lambda folder: (folder / "a/2.txt").rename(folder / "a/3.txt"),
    "moved": lambda folder: (folder / "a/2.txt").rename(folder / "b/2.txt"),
    "a folder added": lambda folder: (folder / "c").mkdir(),
    "behind a link": lambda folder: (folder / "../far.txt").write_text("another"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_is_its_tree(tmp_path, monkeypatch, change):
    """Red before: a folder was refused."""
    (tmp_path / "far.txt").write_text("far")
    folder, memory = _made(tmp_path / "data"), tmp_path / "hashes.json"
    (folder / "link.txt").symlink_to(tmp_path / "far.txt")
    first = dataset_files.remembered_sha256(folder, memory)
    other = _made(tmp_path / "other")
    (other / "link.txt").write_text("far")
    assert dataset_files.sha256(other) == first == dataset_files.sha256(folder)
    with monkeypatch.context() as patched:
        patched.setattr(artifacts, "sha256", None)  # no file is read again
        assert dataset_files.remembered_sha256(folder, memory) == first
    CHANGES[change](folder)
    assert dataset_files.remembered_sha256(folder, memory) != first


@pytest.mark.parametrize(("target", "message"), [("nowhere", "leads nowhere"), (".", "holds it")])
def test_a_link_that_cannot_be_followed_is_named(tmp_path, target, message):
    folder = _made(tmp_path / "data")
    (folder / "b/link").symlink_to(target)
    for look in (dataset_files.sha256, dataset_files.state_of):
        with pytest.raises(TwinrunError, match=f"link is a link .*{message}"):
            look(folder)


def test_a_folder_where_the_workflow_writes_is_named(tmp_path, monkeypatch):
    """Red before: its hash changed with every result."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/data").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    written = dataset_files.written_by_the_workflow
    assert [written(folder) for folder in (".", "..", tmp_path)] == ["results/"] * 3
    assert written("data") is None is written(tmp_path / "scratch")
    (tmp_path / "work/.snakemake/metadata").mkdir(parents=True)
    assert written(".snakemake/metadata") == ".snakemake/"
    (tmp_path / "work/results").symlink_to(tmp_path / "scratch")
    assert written(tmp_path / "scratch") == "results/"
    (tmp_path / "scratch/data").mkdir()
    (tmp_path / "work/data/earlier").symlink_to(tmp_path / "scratch/data")
    assert written("data") == "results/"


@pytest.mark.parametrize(
    ("change", "is_changed"),
    [
        (lambda folder: (folder / "rows.csv").write_text("2"), True),
        (lambda folder: (folder / "more.csv").write_text("1"), True),
        (lambda folder: (folder / "rows.csv").unlink(), True),
        (lambda folder: shutil.rmtree(folder), True),
        (lambda folder: (folder / "rows.csv").write_text("1"), False),
        (lambda folder: None, False),
    ],
)
@pytest.mark.parametrize("is_folder", [True, False])
def test_data_that_are_written_to_while_a_run_trains_are_noted(
    tmp_path, change, is_changed, is_folder
):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows.csv").write_text("1")
    path = str(folder if is_folder else folder / "rows.csv")
    since = watched(path)
    origin = {"data": {"path": path, "sha256": dataset_files.sha256(path)}}
    change(folder)
    if not is_folder and (folder / "more.csv").exists():
        is_changed = False
    assert since(origin)["data"].get("is_changed", False) is is_changed


def test_a_run_without_a_dataset_is_noted_nothing():
    assert watched(None)({"data": None}) == {"data": None}

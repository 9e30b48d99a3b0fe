"""What a rehearsal leaves in the working directory is noticed."""

import os

import pytest

from twinrun.training import files_left
from twinrun.training.files_left import left_behind, listing


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "kept.pt").write_bytes(b"12")
    (tmp_path / "sub/rewritten.pt").write_bytes(b"12")
    os.utime(tmp_path / "sub/rewritten.pt", ns=(1, 1))
    return tmp_path


def test_new_and_changed_files_are_named(folder):
    before = listing(folder)
    (folder / "sub/features.pt").write_bytes(b"1")
    (folder / "sub/rewritten.pt").write_bytes(b"34")
    (sentence,) = left_behind(before, listing(folder))
    assert "it wrote sub/features.pt, sub/rewritten.pt in the working directory" in sentence


def test_what_others_write_is_no_file_of_the_module(folder):
    before = listing(folder)
    for name in ("results", ".snakemake", "sub/__pycache__"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("x")
    assert left_behind(before, listing(folder)) == []


def test_of_too_many_files_nothing_is_said(folder, monkeypatch):
    before = listing(folder)
    monkeypatch.setattr(files_left, "MOST_FILES", 1)
    assert listing(folder) is None
    assert left_behind(before, None) == []

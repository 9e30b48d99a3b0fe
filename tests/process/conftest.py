"""What the tests of imported and of planned code share."""

import os

import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A module that imports a sister package by its name, which no import statement shows."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/my_model.py").write_text(
        "import importlib\nsister = importlib.import_module('sister.loss')\n"
    )
    (tmp_path / "elsewhere/sister").mkdir(parents=True)
    (tmp_path / "elsewhere/sister/__init__.py").write_text("")
    (tmp_path / "elsewhere/sister/loss.py").write_text("def scale(loss):\n    return loss\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path

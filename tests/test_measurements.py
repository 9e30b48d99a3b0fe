"""The scripts behind measured numbers in the documentation: they can still be run."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "docs/measurements").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_measurement_imports_is_there(script, monkeypatch):
    """Imported and not run: each takes minutes."""
    for folder in ("tests", "tests/comparison"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    spec = importlib.util.spec_from_file_location(f"measurement_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(module.main)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_measurement_is_called_as_the_documentation_says(script):
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    (command,) = {
        line.strip()
        for line in script.read_text().splitlines()
        if f"measurements/{script.name}" in line
    }
    assert f"`{command}`" in text

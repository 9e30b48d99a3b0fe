"""Records that cross a border between files or processes: the type checker knows their fields."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = {
    "twinrun.run_records": ["RunManifest"],
    "twinrun.comparison.pair_records": ["Comparison", "FirstDifference", "Location"],
    "twinrun.comparison.study_records": ["MatrixCell", "Ranking", "ResumeTable"],
    "twinrun.timing.summary": ["TimingSummary"],
    "twinrun.verdicts.rows": ["Verdict"],
    "twinrun.gate.outcome": ["GateOutcome"],
}


def errors_in(file):
    """Return what pyrefly finds in a file, as the project configures it: line and kind."""
    pyrefly = Path(sys.executable).with_name("pyrefly")
    command = [pyrefly, "check", file, "--config", ROOT / "pyproject.toml"]
    command += ["--search-path", ROOT / "src", "--output-format", "min-text"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^ERROR \S+?:(\d+):\S+ .* \[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert done.returncode == bool(found), done.stdout + done.stderr
    return [(int(line), kind) for line, kind in found]


def test_a_planted_wrong_field_name_fails_the_type_checker(tmp_path):
    """Of each record its first field is read, then one that it has not."""
    lines, wrong = [], []
    for module, names in RECORDS.items():
        for name in names:
            field = next(iter(getattr(import_module(module), name).__annotations__))
            lines += [f"from {module} import {name}", f"def of_{name}(record: {name}) -> None:"]
            lines += [f'    print(record["{field}"])', f'    print(record["{field}_"])']
            wrong.append(len(lines))
    planted = tmp_path / "planted.py"
    planted.write_text("\n".join(lines))
    assert errors_in(planted) == [(line, "bad-typed-dict-key") for line in wrong]


def test_nothing_is_ignored_wholesale():
    """Each error that is let pass is named where it is, and none in the project's settings."""
    settings = (ROOT / "pyproject.toml").read_text().partition("[tool.pyrefly]\n")[2]
    assert settings.partition("\n[")[0].strip().splitlines() == [
        'project-includes = ["src/twinrun", "workflow/scripts/*.py"]',
        'project-excludes = ["workflow/scripts/twinrun"] # a link to src/twinrun',
    ]
    for file in (ROOT / "src").rglob("*.py"):
        for ignored in re.findall(r"#\s*(?:pyrefly|type):\s*ignore.*", file.read_text()):
            assert re.match(r"# pyrefly: ignore\[[\w-]+\]", ignored), f"{file}: {ignored}"

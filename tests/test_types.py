"""Records that cross a border between files or processes: the type checker knows their fields."""

import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECORDS = {
    "twinrun.run_records": ["RunManifest"],
    "twinrun.comparison.pair_records": ["Comparison", "FirstDifference", "Location"],
    "twinrun.comparison.study_records": ["MatrixCell", "Ranking", "ResumeTable"],
    "twinrun.timing.summary": ["TimingSummary"],
    "twinrun.verdicts.rows": ["Verdict"],
    "twinrun.gate.outcome": ["GateOutcome"],
    "twinrun.dataset_files": ["DatasetManifest", "ArrayEntry"],
    "twinrun.checkpoint.folder": ["CheckpointEntry"],
    "twinrun.config.rule_records": ["StopPair", "ListedCell"],
}
OBJECTS = {
    "twinrun.config.definitions": ["Workload", "Variant", "Timing", "Training", "Replay", "Run"],
    "twinrun.config.matrix_cells": ["Cell"],
    "twinrun.process.messages": ["FailureMessage", "ProgressMessage"],
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
    for records, form, error in (
        (RECORDS, '["{}"]', "bad-typed-dict-key"),
        (OBJECTS, ".{}", "missing-attribute"),
    ):
        for module, names in records.items():
            for name in names:
                field = next(iter(getattr(import_module(module), name).__annotations__))
                lines += [f"from {module} import {name}", f"def of_{name}(record: {name}) -> None:"]
                lines += [f"    print(record{form.format(field)})"]
                lines += [f"    print(record{form.format(field + '_')})"]
                wrong.append((len(lines), error))
    planted = tmp_path / "planted.py"
    planted.write_text("\n".join(lines))
    assert errors_in(planted) == wrong


# A module, what stands in it, and what is planted there: each is a name that does not exist.
PLANTED = [
    ("gate/expected_fingerprints.py", "variant_of(manifest).threads", "variant_of(manifest).tread"),
    ("timing/epoch_times.py", "variant_of(manifest).devices", "variant_of(manifest).device"),
    ("verdicts/speed.py", '["settings"]["timing"].size', '["settings"]["timing"].sizing'),
    ("figures/devices.py", '["settings"]["timing"].size', '["settings"]["timings"].size'),
    ("comparison/ranking.py", "(manifest).hyperparameters", "(manifest).hyperparameter"),
    ("report/runs.py", "workload_of(run).dataset", "workload_of(run).data_set"),
    ("comparison/matrix.py", 'cell["label"]', 'cell["lable"]'),
    ("comparison/resume_loss.py", 'pair["resume"]', 'pair["resumed"]'),
    ("process/fresh_process.py", "error=error,", "reason=error,"),
    ("training/prepare_dataset.py", "libraries={", "library={"),
    ("checkpoint/folder.py", '"sha256": artifacts', '"sha_256": artifacts'),
    ("config/variant_consistency.py", "variant.persistent_workers", "variant.persistent_worker"),
    ("config/settings.py", 'size=asked.get("size")', 'sized=asked.get("size")'),
]


@pytest.mark.exhaustive
def test_a_wrong_name_in_the_package_fails_the_type_checker(tmp_path):
    """Where records, params and settings are read, not only in a file made for the purpose."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    for module, right, wrong in PLANTED:
        file = tmp_path / "src/twinrun" / module
        text = file.read_text()
        assert right in text, (module, right)
        file.write_text(text.replace(right, wrong))
    (tmp_path / "pyproject.toml").write_text('[tool.pyrefly]\nproject-includes = ["src/twinrun"]\n')
    command = [Path(sys.executable).with_name("pyrefly"), "check", "--output-format", "min-text"]
    command += ["--python-interpreter-path", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = set(re.findall(r"^ERROR \S*?src/twinrun/(\S+?\.py):", done.stdout, re.MULTILINE))
    assert found == {module for module, _, _ in PLANTED}, done.stdout


def test_fields_that_may_be_absent_are_not_read_by_get():
    """Of `record.get("field_")` no type checker says that there is no such field."""
    files = {file: file.read_text() for file in (ROOT / "src").rglob("*.py")}
    absent = {name for text in files.values() for name in re.findall(r"(\w+): NotRequired\[", text)}
    assert len(absent) > 5
    by_get = re.compile(rf"""\.get\(["'](?:{"|".join(absent)})["']""")
    assert [str(file) for file, text in files.items() if by_get.search(text)] == []


def test_settings_and_params_are_rebuilt_where_they_come_in():
    """As plain mappings no type checker knows their keys."""
    by_text = re.compile(r"""\["(?:workload|variant|timing)"\]\[["']|params\.\w+\[["']""")
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "workflow/scripts").glob("*.py")]:
        assert not by_text.search(file.read_text()), file


def test_nothing_is_ignored_wholesale():
    """Each error that is let pass is named where it is, and none in the project's settings."""
    settings = (ROOT / "pyproject.toml").read_text().partition("[tool.pyrefly]\n")[2]
    assert settings.partition("\n[")[0].strip().splitlines() == [
        'project-includes = ["src/twinrun", "workflow/scripts/*.py"]'
    ]
    for file in (ROOT / "src").rglob("*.py"):
        for ignored in re.findall(r"#\s*(?:pyrefly|type):\s*ignore.*", file.read_text()):
            assert re.match(r"# pyrefly: ignore\[[\w-]+\]", ignored), f"{file}: {ignored}"

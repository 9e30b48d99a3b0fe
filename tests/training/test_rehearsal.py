"""One step of everything, before any job: mistakes in words, sizes, nothing left."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from twinrun import artifacts
from twinrun.config.config_files import SCHEMA, merged, mistakes_of
from twinrun.config.settings import resolve
from twinrun.process.launching import launch
from twinrun.training.rehearsal_parts import Rehearsed, parts_of

ROOT = Path(__file__).parents[2]
BAD = sorted((ROOT / "tests/configs/bad/rehearsed").glob("*.yaml"))


def words_of(file):
    """The first line of each file is a comment with the words that the message must have."""
    return file.read_text().partition("\n")[0].removeprefix("# ").split(" | ")


def rehearsed(settings_by_name, folder, search_path):
    """Rehearse the parts of several configs in one process; return what came of each."""
    parts, datasets = [], {}
    for name, settings in settings_by_name.items():
        for part in parts_of(settings, [str(search_path)]):
            dataset = part.dataset and f"{name}-{part.dataset}"
            if dataset:
                datasets[dataset] = settings.datasets[part.dataset]
            parts.append(replace(part, label=f"{name}/{part.label}", dataset=dataset))
    arguments = {"parts": parts, "datasets": datasets, "search_path": [str(search_path)]}
    report = folder / "report.json"
    launch("twinrun.training.rehearsal:rehearse", {**arguments, "report": str(report)}, {})
    found = artifacts.read_record(report, list[Rehearsed])
    return {
        name: [part for part in found if part["label"].startswith(f"{name}/")]
        for name in settings_by_name
    }


@pytest.fixture(scope="module")
def bad_ones(tmp_path_factory):
    """All of them in one process, each in a few hundredths of a second, from an empty folder."""
    folder, before = tmp_path_factory.mktemp("bad"), Path.cwd()
    os.chdir(ROOT)
    try:
        settings = {file.stem: resolve(merged([file]), SCHEMA, gpus=0) for file in BAD}
        return rehearsed(settings, folder, BAD[0].parent)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_mistake_is_a_sentence_before_any_job(bad_ones, file):
    assert not mistakes_of(file)
    mistakes = [mistake for part in bad_ones[file.stem] for mistake in part["mistakes"]]
    text = "\n".join(mistakes).replace(f"{file.stem}/", "").replace(f"{file.stem}-", "")
    for word in words_of(file):
        assert word in text
    assert all(len(mistake) < 500 for mistake in mistakes)
    assert all("\n" not in mistake for mistake in mistakes)
    expected = 2 if file.stem in ("two_things_are_wrong", "module_and_data_are_absent") else 1
    assert len(set(mistakes)) == expected, text

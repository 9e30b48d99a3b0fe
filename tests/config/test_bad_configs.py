"""Every config of tests/configs/bad is refused in a sentence that names key, value and cure.

What only a rehearsal can know is in the folder `rehearsed` (tests/training/test_rehearsal.py).
"""

from itertools import combinations
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config

from twinrun.config.schema_check import MOST_MISTAKES
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA
from twinrun.config.with_standard import merged
from twinrun.errors import TwinrunError

BAD = sorted((Path(__file__).parents[1] / "configs/bad").glob("*.yaml"))


def refusal(file):
    """Read, unite and resolve a config as the Snakefile does, without Snakemake."""
    try:
        config, mistakes = merged([file])
    except TwinrunError as error:
        return str(error)
    with pytest.raises(TwinrunError) as raised:
        resolve(config, SCHEMA, gpus=0, mistakes=mistakes)
    return str(raised.value)


def words_of(file):
    """The first line of each file is a comment with the words that the message must have."""
    first = file.read_bytes().partition(b"\n")[0].decode()
    return first.removeprefix("# ").split(" | ")


def test_there_are_many_bad_configs():
    assert len(BAD) >= 110


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_config_is_refused_in_words(file):
    text = refusal(file)
    for word in words_of(file):
        assert word in text
    assert len(text) < 6000, "a list of thousands is shortened"
    assert len(text.splitlines()) <= MOST_MISTAKES + 3
    for sign in ("^[", r"\Z", "None", "<object", "Traceback"):  # of Python and regular expressions
        assert sign not in text.replace("None is a text", "")


def test_a_file_that_is_not_there_and_one_that_is_a_folder(tmp_path):
    assert "there is no such config file" in refusal(tmp_path / "absent.yaml")
    assert "is a folder, where a config file is needed" in refusal(tmp_path)
    assert "cannot be read" in refusal("a\0b.yaml")


def subschemas(schema):
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            yield from subschemas(inner)


def test_what_a_pattern_allows_is_said_in_words():
    rules = yaml.safe_load(SCHEMA.read_text())
    checked = [
        s for s in subschemas(rules) if isinstance(s, dict) and {"pattern", "anyOf"} & set(s)
    ]
    # The one that is part of an anyOf is described there.
    assert [s for s in checked if "description" not in s] == [rules["$defs"]["value"]]
    assert len(checked) >= 7


# What the schema finds, what names something that is not there, what contradicts itself, what has
# no effect, what is required of nothing: one mistake of each, in parts of a config that have
# nothing to do with each other.
KINDS = {
    "an unknown key": (
        {"variants": {"mine": {"treads": 2}}},
        "variants.mine.treads: unknown key, did you mean threads?",
    ),
    "a wrong type": (
        {"checkpoint_minutes": "often"},
        "checkpoint_minutes: 'often' is of the wrong type, expected a whole number",
    ),
    "an unknown name": (
        {
            "workloads": {
                "own": {"module": "m:M", "data": "m:D", "epochs": 2, "dataset": "digts"},
            }
        },
        "workloads.own.dataset: no dataset is called 'digts', did you mean digits?",
    ),
    "a contradiction": (
        {"variants": {"kept": {"persistent_workers": True}}},
        "variants.kept.persistent_workers: true needs data_workers of 1 or more",
    ),
    "no effect": (
        {"variants": {"resumed": {"resume": "twinrun"}}},
        "variants.resumed.resume: twinrun has no effect without a stop, such as stop: mid_epoch",
    ),
    "first steps of a trace of all": (
        {"variants": {"own": {"trace": {"first": 5}}}},
        "variants.own.trace.first: 5 has no effect with every: 1, which traces all steps",
    ),
    "an unknown variant of a study": (
        {"parallel": {"variants": ["serial", "two-wrokers"]}},
        "parallel.variants.1: no variant is called 'two-wrokers', did you mean two-workers?",
    ),
    "a trial given twice": (
        {"sweep": {"trials": [{"learning_rate": [0.1, 0.1]}]}},
        "sweep.trials: the trial 'digits~learning_rate~0.1' is there twice",
    ),
    "a change that changes nothing": (
        {"matrix": {"changes": [{"data_workers": 0}]}},
        "matrix.changes.0: data_workers=0 is what the baseline has, leave it out",
    ),
    "a requirement of nothing": (
        {"require": {"absent_pair": "equal"}},
        "require.absent_pair: reproducibility.variants has no absent; known: nondeterministic",
    ),
}


def mistakes_in(*sections):
    """Read a config with these sections beside the standard ones; return its lines."""
    config = merged([])[0]
    for section in sections:
        update_config(config, section)
    with pytest.raises(TwinrunError) as raised:
        resolve(config, SCHEMA, gpus=0)
    lines = str(raised.value).splitlines()
    return [line.strip() for line in lines if line.startswith("  ")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_of_a_kind_is_one_sentence(kind):
    section, sentence = KINDS[kind]
    (line,) = mistakes_in(section)
    assert line.startswith(sentence)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pair", map(list, combinations(KINDS, 2)), ids=" and ".join)
def test_a_mistake_hides_none_of_another_kind(pair):
    sections, sentences = zip(*(KINDS[kind] for kind in pair), strict=True)
    lines = mistakes_in(*sections)
    assert len(lines) == 2
    assert all(any(line.startswith(sentence) for line in lines) for sentence in sentences)


def test_what_the_file_itself_gets_wrong_hides_nothing_else(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("checkpoint_minutes: 1\ncheckpoint_minutes: 2\nvariants: {v: {treads: 1}}\n")
    _, twice, unknown, _ = refusal(file).splitlines()
    assert "checkpoint_minutes: given twice" in twice
    assert "variants.v.treads: unknown key" in unknown


def test_all_kinds_of_mistakes_are_told_together():
    """Red before: what the schema finds hid all else, and a wrong name what builds on names."""
    lines = mistakes_in(*(section for section, _ in KINDS.values()))
    assert len(lines) == len(KINDS)

"""Every config of tests/configs/bad is refused in a sentence that names key, value and cure.

What only a rehearsal can know is in the folder `rehearsed` (tests/training/test_rehearsal.py).
"""

from pathlib import Path

import pytest
import yaml

from twinrun.config.config_files import merged, mistakes_of
from twinrun.config.schema_check import MOST_MISTAKES
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA
from twinrun.errors import TwinrunError

BAD = sorted((Path(__file__).parents[1] / "configs/bad").glob("*.yaml"))


def refusal(file):
    """Read, unite and resolve a config as the Snakefile does, without Snakemake."""
    mistakes = mistakes_of(file)
    if mistakes:
        return "\n".join(mistakes)
    with pytest.raises(TwinrunError) as raised:
        resolve(merged([file]), SCHEMA, gpus=0)
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
    assert len(text.splitlines()) <= MOST_MISTAKES + 2
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

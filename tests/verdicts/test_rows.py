"""The table of verdicts: what is written comes back, and nothing else is read."""

import csv
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrun.errors import TwinrunError
from twinrun.verdicts.rows import COLUMNS, KEYS, Answer, VerdictRow, not_run, read_rows, write_rows

ROW = {
    "study": "reproducibility",
    "key": "repeats",
    "workload": "denoiser",
    "variant": "deterministic",
    "question": "Are all learnable parameters equal, bit for bit?",
    "answer": "equal",
    "measured": '0 of 12 differ, "bit for bit"',
    "evidence": "comparisons/x.json",
}


def test_the_columns_are_the_fields():
    assert set(COLUMNS) == set(VerdictRow.__annotations__)
    assert COLUMNS[:2] == ("study", "key")


def test_every_key_is_documented():
    text = (Path(__file__).parents[2] / "docs/method.md").read_text(encoding="utf-8")
    section = text.partition("## The keys of verdicts")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(KEYS)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"))


@given(
    st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(COLUMNS, TEXT)
            | {"key": st.sampled_from(KEYS), "answer": st.sampled_from(get_args(Answer))}
        )
    )
)
def test_what_is_written_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "verdicts.csv"
    write_rows(path, rows)
    assert read_rows(path) == rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "perhaps"}, "Invalid enum value 'perhaps' - at `$[0].answer`"),
        ({"key": "Are they equal?"}, "Invalid enum value 'Are they equal?' - at `$[0].key`"),
    ],
)
def test_a_key_or_an_answer_that_no_verdict_has_is_refused(tmp_path, changes, message):
    path = tmp_path / "verdicts.csv"
    with path.open("w") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerow(ROW | changes)
    with pytest.raises(TwinrunError) as raised:
        read_rows(path)
    assert f"{path} is no table of verdicts" in str(raised.value)
    assert message in str(raised.value)
    with pytest.raises(msgspec.ValidationError):
        write_rows(path, [ROW | changes])


@pytest.mark.parametrize("header", ["", "study,workload,answer", ",".join([*COLUMNS, "figure"])])
def test_other_columns_are_refused(tmp_path, header):
    path = tmp_path / "verdicts.csv"
    path.write_text(f"{header}\n")
    with pytest.raises(TwinrunError, match="its columns are "):
        read_rows(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "its columns are none"),
        (b"\xff\xfe", "can't decode byte 0xff"),
        (",".join(COLUMNS).encode() + b"\ncaf\xe9\n", "can't decode byte 0xe9"),
        (",".join(COLUMNS).encode() + b"\n" + b"x" * 200_000, "field larger than field limit"),
    ],
    ids=["empty", "no text", "no UTF-8", "one long cell"],
)
def test_a_file_that_is_no_table_is_named_with_its_cure(tmp_path, content, why):
    path = tmp_path / "verdicts.csv"
    path.write_bytes(content)
    with pytest.raises(TwinrunError) as raised:
        read_rows(path)
    assert str(raised.value).startswith(f"{path} is no table of verdicts (")
    assert why in str(raised.value)
    assert str(raised.value).endswith("delete it and it is made again")


def test_a_row_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "verdicts.csv"
    write_rows(path, [ROW])
    path.write_text(path.read_text()[:-30])
    with pytest.raises(TwinrunError, match="no table of verdicts"):
        read_rows(path)


def test_a_variant_that_cannot_run_here_has_a_row_that_says_why():
    missing = {"workload": "peaks", "variant": "gpu", "reason": "no GPU on this machine"}
    (row,) = not_run([missing], "speed", "Does it train faster?")
    found = row["key"], row["answer"], row["measured"]
    assert found == ("speed", "not run", "no GPU on this machine")

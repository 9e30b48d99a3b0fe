"""What one process writes down of a step for the other one to be compared with."""

import json

import msgspec
import pytest

from twinrun.comparison.replay_record import (
    read_marks,
    read_operations,
    write_marks,
    write_operations,
)
from twinrun.errors import JobError

ROW = {
    "phase": "forward",
    "module": "layers.0",
    "op": "aten::addmm",
    "source": "model.py:12",
    "call": 1,
    "parameter": "layers.0.weight",
    "draws": False,
    "numbers": ["1.0"],
    "reads": ["a"],
    "writes": ["b"],
    "inputs": "a",
    "outputs": "b",
}


def test_operations_and_marks_are_read_as_they_were_written(tmp_path):
    write_operations(tmp_path, [ROW])
    write_marks(tmp_path, {"loss\n\n1": "a"})
    assert read_operations(tmp_path) == [ROW]
    assert read_marks(tmp_path) == {"loss\n\n1": "a"}


@pytest.mark.parametrize("changed", [{"call": "first"}, {"phase": "validation"}, {"outputs": None}])
def test_what_is_no_operation_is_neither_written_nor_read(tmp_path, changed):
    with pytest.raises(msgspec.ValidationError):
        write_operations(tmp_path, [ROW | changed])
    (tmp_path / "ops.json").write_text(json.dumps([ROW | changed]))
    with pytest.raises(JobError, match=r"ops\.json is corrupt"):
        read_operations(tmp_path)


def test_what_is_no_mark_is_neither_written_nor_read(tmp_path):
    with pytest.raises(msgspec.ValidationError):
        write_marks(tmp_path, {"loss": 1})
    (tmp_path / "marks.json").write_text('{"loss": 1}')
    with pytest.raises(JobError, match=r"marks\.json is corrupt"):
        read_marks(tmp_path)

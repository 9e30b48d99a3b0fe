"""What one process writes down of a step for the other one to be compared with."""

import json

import msgspec
import numpy as np
import pytest
import torch

from twinrun.comparison.replay_files import (
    BLOCK,
    Samples,
    read_marks,
    read_operations,
    read_sample,
    sample_of,
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


def test_the_samples_of_all_operations_have_a_bound(tmp_path):
    """Red before: 1 MiB of each output of the first repeat, however many there were."""
    room, samples = 2**20, Samples(2**20)
    tensor = torch.arange(2.0**15)
    for call in range(400):
        samples.write(tmp_path, ROW | {"call": call}, 0, tensor)
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert room / 2 < sum(max(size, BLOCK) for size in sizes) <= room + 128 * len(sizes)
    kept = read_sample(tmp_path, ROW, 0, tensor)
    assert 0 < len(kept) * 4 <= room / 256
    np.testing.assert_array_equal(sample_of(tensor, len(kept)), kept)
    assert read_sample(tmp_path, ROW, 0, tensor[1:]) is None


@pytest.mark.parametrize("most", range(1, 40))
def test_asked_for_as_many_elements_as_it_has_a_sample_is_the_same(most):
    for size in range(1, 200):
        tensor = torch.arange(size)
        sample = sample_of(tensor, most)
        assert len(sample) <= most
        np.testing.assert_array_equal(sample_of(tensor, len(sample)), sample)

"""Weights are compared in parts: the numbers are those of whole tensors, the memory is bounded."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from stored import write_tensors

from twinrun import artifacts
from twinrun.comparison.distances import Distance, differences, relative, squares
from twinrun.comparison.tensors import compare_tensors
from twinrun.comparison.ulps import ulps

SPECIAL = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38])
VALUES = arrays(np.float32, 23, elements=st.one_of(st.floats(width=32), SPECIAL))


@given(VALUES, VALUES, st.lists(st.booleans(), min_size=23, max_size=23), st.integers(1, 30))
def test_parts_show_what_the_whole_shows(first, other, is_equal, size):
    second = np.where(is_equal, first, other)
    found = Distance("float32")
    for start in range(0, 23, size):
        found.add(first[start : start + size], second[start : start + size])
    distances = found.distances()
    assert distances["max_abs"] == differences(first, second, "float32").max()
    assert distances["max_ulp"] == ulps(first, second, "float32").max()
    assert distances["elements_differing"] == (first.view("u4") != second.view("u4")).sum()
    assert found.non_finite == [int((~np.isfinite(each)).sum()) for each in (first, second)]
    whole = squares(first, second, "float32")
    np.testing.assert_allclose(found.squares, whole, rtol=1e-14)
    np.testing.assert_allclose(distances["relative_l2"], np.sqrt(relative(*whole)), rtol=1e-14)


@pytest.mark.parametrize("size", [1, 5, 42, 100])
def test_tensors_of_every_type_and_shape_are_read_in_parts(tmp_path, size):
    tensors = {
        "matrix": torch.arange(42, dtype=torch.float32).reshape(6, 7),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "empty": torch.empty(0, 4),
        "half": torch.arange(11, dtype=torch.bfloat16),
        "bits": torch.tensor([True, False]),
    }
    path = tmp_path / "weights.safetensors"
    write_tensors(path, tensors)
    stored, whole = artifacts.StoredTensors(path), artifacts.read_tensors(path)
    for name, tensor in tensors.items():
        parts = list(stored.parts(name, size))
        assert max(map(len, parts), default=0) <= size
        joined = np.concatenate([*parts, np.empty(0, whole[name].dtype)])
        assert joined.tobytes() == whole[name].tobytes()
        assert whole[name].shape == tuple(tensor.shape)
        plain = tensor.view(torch.uint16) if name == "half" else tensor
        assert whole[name].tolist() == plain.tolist()


MEASURE = """
import resource, sys
from twinrun.artifacts import StoredTensors
from twinrun.comparison.tensors import compare_tensors
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tensor = {"name": "weight", "kind": "parameter", "shape": [SIZE], "dtype": "float32"}
found = compare_tensors([tensor], *map(StoredTensors, sys.argv[1:]))
print(found.rows[0]["elements_differing"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("differing", [0, 2**25])
def test_a_comparison_takes_no_more_memory_than_a_part(tmp_path, differing):
    """128 MiB of weights each; whole tensors took 47 bytes an element, 1.5 GiB."""
    size, header = 2**25, b'{"weight":{"dtype":"F32","shape":[SIZE],"data_offsets":[0,BYTES]}}'
    header = header.replace(b"SIZE", b"%d" % size).replace(b"BYTES", b"%d" % (4 * size))
    paths = [tmp_path / "first.safetensors", tmp_path / "second.safetensors"]
    for number, path in enumerate(paths):
        values = np.full(size, 1 + number * bool(differing), dtype=np.float32)
        with path.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            values.tofile(file)
    code = MEASURE.replace("SIZE", str(size))
    out = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(out[0]) == differing
    assert int(out[1]) < 150 * 1024  # KiB


def test_non_finite_elements_are_those_of_parameters(tmp_path):
    values = torch.tensor([1.0, float("nan"), float("inf")])
    write_tensors(tmp_path / "a.safetensors", {"w": values, "b": values})
    stored = artifacts.StoredTensors(tmp_path / "a.safetensors")
    entry = {"name": "w", "kind": "parameter", "shape": [3], "dtype": "float32"}
    buffer = {**entry, "name": "b", "kind": "buffer"}
    found = compare_tensors([entry, buffer], stored, stored)
    assert found.non_finite == (2, 2)
    assert [row["equal"] for row in found.rows] == [True, True]

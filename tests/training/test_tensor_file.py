"""Tensors are written in parts as the library of safetensors writes them whole."""

import pytest
import torch
from safetensors.torch import save_file

from twinrun.training.tensor_file import Parts, write_parts
from twinrun.training.unsupported import DTYPES

NAMES = ["z", "a.b", "a.b (2)", 'é"\\\n\x01\x7f\u2028/', "", "{}", "x" * 999, "b", "c", "d", "e"]


def in_parts(tensor):
    """Cut a tensor along its first dimension; one that cannot be is one part."""
    cut = [tensor[:2], tensor[2:2], tensor[2:]] if tensor.ndim else [tensor]
    return Parts(tensor.dtype, tuple(tensor.shape), lambda: iter(cut))


@pytest.mark.parametrize(
    "shape",
    [(5,), (5, 3), (0,), (3, 0), (), (2, 3, 4)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_the_bytes_are_those_of_the_library(tmp_path, shape):
    kinds = sorted(DTYPES, key=str)
    tensors = {
        name: torch.randint(0, 2, shape).to(kind).T
        if len(shape) == 2
        else torch.ones(shape).to(kind)
        for name, kind in zip(
            NAMES, kinds + [torch.float32] * (len(NAMES) - len(kinds)), strict=True
        )
    }
    save_file({n: t.contiguous() for n, t in tensors.items()}, tmp_path / "whole")
    write_parts(tmp_path / "parts", {name: in_parts(tensor) for name, tensor in tensors.items()})
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_no_tensors_are_a_file_too(tmp_path):
    save_file({}, tmp_path / "whole")
    write_parts(tmp_path / "parts", {})
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_nothing_is_left_of_parts_that_end_early(tmp_path):
    def broken():
        yield torch.ones(2)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/file'"):
        write_parts(tmp_path / "file", {"a": Parts(torch.float32, (4,), broken)})
    assert not list(tmp_path.iterdir())


def test_parts_of_another_size_are_an_error_of_ours(tmp_path):
    with pytest.raises(ValueError, match="a has 8 bytes instead of 16"):
        write_parts(
            tmp_path / "file", {"a": Parts(torch.float32, (4,), lambda: iter([torch.ones(2)]))}
        )
    assert not list(tmp_path.iterdir())

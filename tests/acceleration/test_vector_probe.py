"""The trial of vector instructions is trusted only where all of them passed it."""

import functools
import sys
from types import SimpleNamespace

import pytest
from torch._inductor import config

from twinrun.acceleration import vector_probe


def tried(of_cpu, passed, *, is_asked=True):
    """Stand for torch's own module: what a CPU knows, and what its compiler managed."""

    @functools.cache
    def valid_vec_isa_list():
        return passed

    if is_asked:
        valid_vec_isa_list()
    return SimpleNamespace(
        supported_vec_isa_list=["amx", "avx512", "avx2"],
        x86_isa_checker=lambda: of_cpu,
        valid_vec_isa_list=valid_vec_isa_list,
    )


@pytest.fixture
def marker(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_probe, "_marker", lambda: tmp_path / "cache" / "passed")
    with config.patch({"cpp.vec_isa_ok": None}):
        yield tmp_path / "cache" / "passed"


@pytest.mark.parametrize(
    ("trial", "is_noted"),
    [
        (tried(["avx512", "avx2"], ["avx512", "avx2"]), True),
        (tried(["avx512", "avx2"], ["avx2"]), False),
        (tried([], []), False),
        (tried(["avx2"], ["avx2"], is_asked=False), False),
    ],
)
def test_it_is_noted_where_all_that_the_cpu_knows_have_passed(marker, monkeypatch, trial, is_noted):
    monkeypatch.setitem(sys.modules, "torch._inductor.cpu_vec_isa", trial)
    vector_probe.remember()
    assert marker.exists() is is_noted
    vector_probe.trust_earlier()
    assert config.cpp.vec_isa_ok is (True if is_noted else None)


def test_what_a_user_has_set_is_left_and_proves_nothing(marker, monkeypatch):
    trial = tried(["avx2"], ["avx2"])
    monkeypatch.setitem(sys.modules, "torch._inductor.cpu_vec_isa", trial)
    config.cpp.vec_isa_ok = False
    vector_probe.remember()
    assert not marker.exists()
    marker.parent.mkdir()
    marker.touch()
    vector_probe.trust_earlier()
    assert config.cpp.vec_isa_ok is False

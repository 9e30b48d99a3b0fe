"""States read from memory are those that the official calls give."""

import random
import struct

import numpy as np
import pytest

from twinrun.trace import rng_states


def official():
    """Give what the official calls give, as bytes."""
    _, words, gauss = random.getstate()
    state = np.random.get_state(legacy=False)
    rest = f"{state['state']['pos']}{state['has_gauss']}{state['gauss']}"
    return (
        struct.pack(f"={len(words)}I", *words) + repr(gauss).encode(),
        state["state"]["key"].tobytes() + rest.encode(),
    )


def found():
    return rng_states.python_state(), rng_states.numpy_state()


def test_states_are_those_of_the_official_calls_after_draws_of_all_kinds():
    assert rng_states._reads_python()
    assert rng_states._offset_of_gauss() is not None  # else the test below tests nothing
    random.seed(1)
    np.random.seed(1)
    draws = (random.random, lambda: random.gauss(0, 1), np.random.rand, np.random.randn)
    for step in range(40):
        draws[step % len(draws)]()
        assert found() == official()
    np.random.rand(700)
    random.randbytes(4000)
    assert found() == official()


def test_a_number_kept_for_later_is_seen_where_the_words_are_the_same():
    np.random.seed(3)
    np.random.randn()
    first, kept = rng_states.numpy_state(), np.random.get_state()
    np.random.randn()  # takes the one that was kept: no word is drawn
    second = rng_states.numpy_state()
    assert first != second
    np.random.set_state(kept)
    assert rng_states.numpy_state() == first


def test_states_are_asked_for_where_memory_is_not_as_assumed(monkeypatch):
    for name, value in (("_reads_python", False), ("_offset_of_gauss", None)):
        monkeypatch.setattr(rng_states, name, lambda value=value: value)
    assert found() == official()


@pytest.fixture
def other_bit_generator():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    yield
    np.random.set_bit_generator(before)


def test_another_kind_of_generator_is_asked(monkeypatch, other_bit_generator):
    asked = {"state": {"key": np.arange(3), "pos": 1}, "has_gauss": 0, "gauss": 0.0}
    monkeypatch.setattr(np.random, "get_state", lambda legacy: asked)
    assert rng_states.numpy_state() == np.arange(3).tobytes() + b"100.0"

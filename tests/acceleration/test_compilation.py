"""What a user is told of compiled steps: what compiles again, and what random numbers do."""

from collections import deque

import pytest
import torch
from torch._dynamo.utils import counters

import twinrun.acceleration.features_first  # noqa: F401  Lightning sets variables when imported
from twinrun.acceleration.compilation import (
    CannotCompile,
    Compiled,
    compiler_switches,
    empty_cache,
    traced_only,
)


class Settings:
    scale, count = 1.0, 0


SETTINGS = Settings()


def scaled(batch, index):
    return batch * SETTINGS.scale


def counted(batch, index):
    return batch * SETTINGS.count


def noisy(batch, index):
    return batch + torch.rand(8) - torch.rand(8)  # two alike, which no compiler may merge


@pytest.fixture(autouse=True)
def switches():
    with compiler_switches():
        yield


def compilations(function, name, values):
    """Call with a Python number that changes; give how often that compiled, and why."""
    compiled = Compiled(function)
    for value in values:
        setattr(SETTINGS, name, value)
        assert compiled(torch.ones(2), 0)[0] == torch.tensor(value, dtype=torch.float32)
    assert compiled.calls == len(values)
    return compiled.compilations, compiled.reasons


@pytest.mark.exhaustive
def test_a_float_that_changes_compiles_every_time():
    number, reasons = compilations(scaled, "scale", [0.5, 0.25, 0.125, 0.3])
    assert number == 4
    assert "SETTINGS" in reasons[0]
    assert "0.5" in reasons[0]


@pytest.mark.exhaustive
def test_a_hook_of_all_modules_that_comes_late_is_called():
    """Red before: torch looks for one when it compiles, and never again."""
    layer = torch.nn.Linear(2, 2)
    compiled = Compiled(lambda batch, index: layer(batch))
    before = compiled(torch.ones(1, 2), 0)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *given: given[2] * 2)
    try:
        assert torch.equal(compiled(torch.ones(1, 2), 0), 2 * before)
    finally:
        hook.remove()
    assert torch.equal(compiled(torch.ones(1, 2), 0), before)


@pytest.mark.parametrize("append", ["append", "appendleft"])
@pytest.mark.parametrize("most", [2, 7, 12])
def test_a_window_of_so_many_values_drops_what_falls_out(append, most):
    """Red at 2638ad3c: torch's tracer keeps it, once for each window that is full."""
    plain, traced = deque(maxlen=most), deque(maxlen=most)

    def mean_of(window):
        def step(batch, index):
            getattr(window, append)(batch.mean())
            return batch * torch.stack(list(window)).mean()

        return step

    compiled = Compiled(mean_of(traced))
    for number in range(2 * most):
        batch = torch.full((2,), number, dtype=torch.float64)
        torch.testing.assert_close(compiled(batch, 0), mean_of(plain)(batch, 0))
    assert list(traced) == list(plain)


def test_a_window_that_is_written_to_is_in_no_graph_of_a_whole_step():
    window = deque([torch.ones(2)], maxlen=1)
    compiled = Compiled(lambda batch, index: window.append(batch), fullgraph=True)
    with pytest.raises(CannotCompile, match="maxlen"):
        compiled(torch.ones(2), 0)
    assert torch.equal(window[0], torch.ones(2))


@pytest.mark.exhaustive
def test_an_integer_that_changes_compiles_every_time():
    number, reasons = compilations(counted, "count", [3, 4, 5, 6])
    assert (number, len(reasons)) == (4, 3)


@pytest.mark.exhaustive  # 20 s; a dropout under `compile: step` is among the faithful cells
@pytest.mark.parametrize("features_first", [False, True])
def test_random_numbers_are_those_of_the_eager_step(features_first):
    compiled, batch = Compiled(noisy, features_first=features_first), torch.zeros(8)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first, second = compiled(batch, 0), compiled(batch, 1)
        torch.manual_seed(1)
        again = compiled(batch, 0)
        torch.manual_seed(1)
        eager = noisy(batch, 0)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert torch.equal(first, eager)


def test_graphs_of_two_compilations_of_one_function_are_counted_apart():
    one, other = Compiled(noisy), Compiled(noisy)
    one(torch.zeros(8), 0)
    other(torch.zeros(8), 0)
    assert one.counts() == other.counts() == {"calls": 1, "compilations": 1, "reasons": []}


def shifted(batch):
    return batch + 1


def test_in_an_empty_cache_everything_is_compiled_again():
    def compiled_anew():
        torch.compiler.reset()
        counters["inductor"].clear()
        Compiled(shifted)(torch.ones(10))
        return counters["inductor"]["fxgraph_cache_miss"]

    compiled_anew()
    assert compiled_anew() == 0  # it is in the machine's cache
    with empty_cache():
        assert compiled_anew() == 1
    assert compiled_anew() == 0


def kept(batch):
    SETTINGS.total += 1
    return batch * SETTINGS.scale


def test_a_float64_tensor_without_dimensions_is_changed_in_place():
    SETTINGS.total, SETTINGS.scale = torch.zeros((), dtype=torch.float64), 0.5
    compiled = Compiled(kept)
    for scale in (0.5, 0.25, 0.125):
        SETTINGS.scale = scale
        assert compiled(torch.ones(2))[0] == scale
    assert SETTINGS.total == 3


def test_graphs_of_shapes_do_not_depend_on_those_before(monkeypatch):
    monkeypatch.setattr("twinrun.acceleration.compilation.MOST_SHAPES", 2)
    with traced_only():
        compiled, resumed = Compiled(shifted), Compiled(shifted)
        for count in (10, 7, 10, 5, 7, 6):
            compiled(torch.ones(count))
            assert compiled.depends_on_history == (count in (5, 6) or compiled.calls > 3)
        assert compiled.shapes == [(((10,), (1,)),), (((7,), (1,)),)]
        # 10 and 7 a graph each; 5, 6 and others share one, made anew where torch opens the size.
        assert compiled.compilations == 4
        resumed.expect(compiled.shapes)
        resumed(torch.ones(5))
        assert resumed.depends_on_history
        assert resumed.shapes == compiled.shapes

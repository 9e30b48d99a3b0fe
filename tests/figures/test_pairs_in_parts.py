"""Figures of pairs read weights a part at a time, and draw what whole tensors show."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from drawing import Drawing
from example_results import VARIANTS, write_run

from twinrun.figures import pairs
from twinrun.figures.pairs import BINS, first_layer, layers

MEASURE = """
import resource, sys
from twinrun.figures import pairs
draw, of = getattr(pairs, sys.argv[1]), {"variants": ["nondeterministic"], "output": sys.argv[3]}
draw(sys.argv[4:], **of)  # what is loaded once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
draw(sys.argv[2].split(","), **of)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def written(folder, *, size, differing):
    """Write two runs of one tensor, of which the first elements differ; give their run.json."""
    runs = []
    for repeat in (1, 2):
        weights = np.ones(size, np.float32)
        weights[:differing] = repeat
        of = {"workload": "w", "variant": "nondeterministic", "repeat": repeat}
        runs.append(write_run(folder, {"weight": weights}, **of))
    return runs


@pytest.mark.exhaustive
@pytest.mark.parametrize("figure", ["first_layer", "layers"])
@pytest.mark.parametrize("differing", [0, 2**24])
def test_a_figure_takes_no_more_memory_than_a_part(tmp_path, figure, differing):
    """64 MiB of weights each; whole tensors took 400 to 520 MiB."""
    small = written(tmp_path / "small", size=2000, differing=min(differing, 2000))
    large = written(tmp_path / "large", size=2**24, differing=differing)
    output = tmp_path / "figure.svg"
    told = [figure, ",".join(map(str, large)), str(output), *map(str, small)]
    command = [sys.executable, "-c", MEASURE, *told]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(out) < 180 * 1024  # KiB


def test_each_line_spans_the_extremes_of_its_elements_across_parts():
    random = np.random.default_rng(3)
    values = random.normal(size=10_007)
    edges = np.linspace(0, values.size, BINS + 1).astype(np.int64)
    low, high = pairs._extremes(np.array_split(values, 7), edges)
    bins = [values[start:end] for start, end in itertools.pairwise(edges)]
    assert low.tolist() == [part.min() for part in bins]
    assert high.tolist() == [part.max() for part in bins]


def test_quartiles_of_many_sizes_are_those_of_all(monkeypatch):
    """Of 200,000 sizes half and fewer are kept.

    Of a sample of n >= 5,000 a quartile's rank is off by at most 4.5 * 0.5 / sqrt(n), which is
    0.032, but for 1 case in 100,000.
    """
    monkeypatch.setattr(pairs, "MOST_SIZES", 10_000)
    sizes = np.random.default_rng(1).permutation(np.arange(1, 200_001)).astype(float)
    kept = pairs._sizes(np.array_split(sizes * np.where(np.arange(200_000) % 2, 1, -1), 50))
    assert kept.size <= 10_002
    assert (kept.min(), kept.max()) == (1, 200_000)
    for share in (0.25, 0.5, 0.75):
        assert np.quantile(kept, share) / 200_000 == pytest.approx(share, abs=0.032)


def test_few_sizes_are_kept_whole(monkeypatch):
    monkeypatch.setattr(pairs, "MOST_SIZES", 10)
    values = np.array([0.0, -3, 2, 0, 5])
    assert sorted(pairs._sizes([values, -values])) == [2, 2, 3, 3, 5, 5]


@pytest.mark.parametrize("figure", [first_layer, layers])
def test_a_difference_in_the_last_part_is_seen(tmp_path, figure):
    runs = written(tmp_path, size=2**20 + 5, differing=0)
    second = np.ones(2**20 + 5, np.float32)
    second[-1] = 1.5
    of = {"workload": "w", "variant": "nondeterministic", "repeat": 2}
    runs[1] = write_run(tmp_path, {"weight": second}, **of)
    figure(runs, variants=VARIANTS, output=tmp_path / "figure.svg")
    assert "equal" not in Drawing(tmp_path / "figure.svg").text

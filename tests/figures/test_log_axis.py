"""The limits of logarithmic axes."""

import pytest
from matplotlib import pyplot as plt

from twinrun.figures.style import log_axis


@pytest.mark.parametrize("sizes", [[100, 40_000], [150, 100_000], [0.1, 1e4], [1e-3, 1e-3]])
def test_no_mark_is_cut_by_the_end_of_it(sizes):
    """Red before: a point at 100 lay on the limit, and half of it was not drawn."""
    figure, axes = plt.subplots(figsize=(4, 3), dpi=100)
    axes.plot(sizes, [1] * len(sizes), "o", markersize=6)
    log_axis(axes.xaxis)
    left, right = axes.transAxes.transform([(0, 0), (1, 0)])[:, 0]
    marks = axes.transData.transform([(each, 1) for each in sizes])[:, 0]
    half = 3 * figure.dpi / 72
    plt.close(figure)
    assert left <= marks.min() - half
    assert marks.max() + half <= right

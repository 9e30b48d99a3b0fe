"""The axis of what is counted: epochs, steps, parameters, workers."""

from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator, StrMethodFormatter


def whole_numbers(axis: Axis, *, most: int = 7) -> None:
    """Number an axis of things that are counted: no tick stands between two of them.

    Args:
        axis: of epochs, steps, workers, ...
        most: intervals between ticks.
    """
    # Of an interval with fewer whole numbers than `min_n_ticks`, it would take fractions.
    axis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

"""Where the runs of a pair differ: in the weights of the first layer, and in each tensor.

Differences are the higher repeat minus the lower one, in float64. Whether tensors are equal is
asked of their bytes and not of their differences: -0.0 and 0.0 differ by nothing and are not equal.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from twinrun.comparison.distances import values
from twinrun.figures.read_pairs import Pair, largest_of, read_pairs
from twinrun.figures.style import (
    INK,
    MUTED,
    canvas,
    colour_of,
    empty,
    log_axis,
    note,
    shorten,
)
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import count, measure, percent, plural, power_of_ten, verb

MOST_BARS = 512  # beyond it a bar is thinner than a pixel of a phone
BINS = 256
MOST_TENSORS = 24
MOST_SIZES = 1_000_000  # of which quartiles are taken; of more, of a random part


def first_layer(runs: Sequence[str | Path], *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the difference of the first parameter tensor, one panel a variant, on one scale.

    Args:
        runs: run.json of the repeats of each variant, panels in their order; the weights lie
            beside it. The two lowest repeats of the lowest seed are drawn.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    pairs, reasons = read_pairs(runs)
    if not pairs or not pairs[0].parameters:
        reason = next(iter(reasons.values()), "The module has no parameters.")
        empty(output, title="First layer", reason=reason)
        return
    # ASSUME that the first tensor of the first variant is that of all: they train one module.
    name, tensor = next(iter(pairs[0].parameters.items()))
    shape = tensor["shape"]
    title = f"First layer: {shorten(name, 40)} ({'×'.join(map(str, shape)) or 'scalar'})"
    weights = (values(part, tensor["dtype"]) for part in pairs[0].first.parts(name))
    size = math.prod(shape)
    rows = len(pairs) + len(reasons)
    height = 0.9 + 1.4 * rows
    with canvas(output, title=title, height=height, rows=rows, share_x=True, share_y=True) as (
        figure,
        grid,
    ):
        for axes, pair in zip(grid[:, 0], pairs, strict=False):
            _draw_differences(axes, pair, name, colour_of(pair.variant, variants))
        for axes, (variant, reason) in zip(grid[len(pairs) :, 0], reasons.items(), strict=True):
            axes.set_title(f"{shorten(variant)}: {shorten(reason, 60)}")
        # Where all are equal the scale is the step between neighbouring numbers at the largest
        # weight: a smaller difference is none.
        smallest = np.spacing(np.float32(largest_of(weights)))
        limit = 1.15 * max([pair.largest(name) for pair in pairs] + [float(smallest)])
        exponent = int(np.floor(np.log10(limit)))
        # Both signs on one scale: a difference is no size, and 0 stays in the middle.
        grid[0, 0].set(xlim=(1 - size / 50, size * 1.02), ylim=(-limit, limit))
        # Shared axes share their formatter, so this one call is for all panels. The power of ten
        # stands in the label once; matplotlib would write it above each panel.
        grid[0, 0].yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / 10.0**exponent:.3g}".replace("-", "−"))
        )
        # ASSUME that the other variants have these repeats too: a study repeats all alike.
        earlier, later = pairs[0].repeats
        label = f"repeat {later} − {earlier}, in {power_of_ten(exponent)}"
        figure.supylabel(label, fontsize="medium")
        grid[-1, 0].set_xlabel(_number_label(size))
        whole_numbers(grid[-1, 0].xaxis)


def _draw_differences(axes: Axes, pair: Pair, name: str, colour: str) -> None:
    found = pair.distances(name)
    differing, size = found["elements_differing"], found["elements"]
    text = f"{pair.variant}: {count(differing)} of {count(size)} {verb('differ', differing, size)}"
    axes.set_title(f"{text}, at most {measure(found['max_abs'])}" if differing else text)
    axes.xaxis.grid(visible=False)
    if not differing:
        axes.axhline(0, color=colour, linewidth=2.5, gid=f"zero-{pair.variant}")
        note(axes, "equal, bit for bit" if pair.is_equal() else "this tensor: equal, bit for bit")
        return
    axes.axhline(0, color=MUTED, linewidth=0.8)
    if size <= MOST_BARS:
        heights = np.concatenate([*pair.differences(name)])
        axes.bar(np.arange(1, size + 1), heights, color=colour, linewidth=0)
        return
    edges = np.linspace(0, size, BINS + 1).astype(np.int64)
    axes.vlines(
        (edges[:-1] + 1 + edges[1:]) / 2,
        *_extremes(pair.differences(name), edges),
        color=colour,
        linewidth=1,
        gid=f"extremes-{pair.variant}",
    )


def _extremes(parts: Iterable[np.ndarray], edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest element between each two edges.

    Extremes, not means: in a mean, differences of both signs cancel.
    """
    low, high, start = np.full(BINS, np.inf), np.full(BINS, -np.inf), 0
    for part in parts:
        numbers = np.arange(start, start + part.size)
        bins = np.searchsorted(edges, numbers, side="right") - 1
        np.minimum.at(low, bins, part)
        np.maximum.at(high, bins, part)
        start += part.size
    return low, high


def _number_label(size: int) -> str:
    if size <= MOST_BARS:
        return "number of the parameter"
    return f"number of the parameter\n(a line spans the extremes of {count(-(-size // BINS))})"


def layers(runs: Sequence[str | Path], *, variants: Sequence[str], output: str | Path) -> None:
    """Draw how large the differences are in each parameter tensor.

    Per tensor and variant: the extremes (thin), the middle half (thick) and the median (tick) of
    the elements that differ, and their share.

    Args:
        runs: run.json of the repeats of each variant; the weights lie beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    pairs, reasons = read_pairs(runs)
    title = "Size of the differences in each parameter tensor"
    if not pairs:
        empty(output, title=title, reason=next(iter(reasons.values())))
        return
    differing = [pair for pair in pairs if not pair.is_equal()]
    names = _most_different(differing) if differing else []
    height = 1.5 + 0.2 * (len(pairs) + len(reasons)) + (0.13 + 0.13 * len(differing)) * len(names)
    with canvas(output, title=title, height=height) as (figure, grid):
        axes = grid[0, 0]
        axes.set_xlabel("|difference|")
        if differing:
            _draw_boxes(axes, differing, names, variants)
        else:
            axes.axvline(0, color=MUTED)
            axes.set(xticks=[0], xticklabels=["0"], yticks=[])
            axes.set_title(f"equal, bit for bit, in {plural(len(pairs[0].parameters), 'tensor')}")
        for pair in pairs:
            end = "" if pair in differing else ": equal, bit for bit"
            # Equal pairs have no box, but the legend has to name them.
            axes.plot([], color=colour_of(pair.variant, variants), lw=5, label=pair.variant + end)
        for variant, reason in reasons.items():
            label = f"{variant}: {shorten(reason, 50)}"
            axes.plot([], color=colour_of(variant, variants), lw=5, label=label)
        figure.legend(loc="outside lower left", ncols=1)


def _draw_boxes(
    axes: Axes, pairs: Sequence[Pair], names: Sequence[str], variants: Sequence[str]
) -> None:
    """Draw a row for each tensor and in it a box for each pair."""
    boxes = [
        (row + (index + 1) / (len(pairs) + 1) - 0.5, name, pair)
        for row, name in enumerate(names)
        for index, pair in enumerate(pairs)
    ]
    shares = [_draw_box(axes, *box, variants) for box in boxes]
    # Upside down: the module's first tensor on top.
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [shorten(name) for name in names])
    _label_right(axes, [y for y, _, _ in boxes], shares)
    if axes.has_data():  # signed zeros differ by nothing
        log_axis(axes.xaxis)
    left_out = len(pairs[0].parameters) - len(names)
    if left_out:
        more = f"({plural(left_out, 'tensor')} with smaller differences left out)"
        axes.set_xlabel(f"|difference|\n{more}")


def _most_different(pairs: Sequence[Pair]) -> list[str]:
    """Name the tensors to draw, in the module's order; of many, those that differ most."""
    names = list(pairs[0].parameters)
    # By the largest difference of any variant, so that no variant's worst tensor is hidden.
    worst = sorted(names, key=lambda name: -max(pair.largest(name) for pair in pairs))
    return [name for name in names if name in worst[:MOST_TENSORS]]


def _draw_box(axes: Axes, y: float, name: str, pair: Pair, variants: Sequence[str]) -> str:
    """Draw one box at height `y`; return the share of differing elements in words."""
    # A logarithmic axis has no 0. Signed zeros and NaN count in the percentage alone.
    sizes = _sizes(pair.differences(name))
    colour = colour_of(pair.variant, variants)
    if sizes.size:
        low, lower, median, upper, high = np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1])
        axes.hlines(y, low, high, color=colour, linewidth=1)
        axes.hlines(y, lower, upper, color=colour, linewidth=5)
        axes.plot(median, y, marker="|", color=INK, markersize=9)
    found = pair.distances(name)
    return "equal" if found["equal"] else percent(found["share"])


def _sizes(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sizes that are not 0: all, or of more than MOST_SIZES a random part.

    The smallest and the largest are always among them.
    """
    kept, share, random = np.empty(0), 1.0, np.random.default_rng(0)
    ends = np.array([np.inf, 0.0])
    for part in parts:
        sizes = np.abs(part[part != 0])
        if not sizes.size:
            continue
        ends = np.array([min(ends[0], sizes.min()), max(ends[1], sizes.max())])
        kept = np.concatenate([kept, sizes[random.random(sizes.size) < share]])
        while kept.size > MOST_SIZES:
            kept, share = kept[random.random(kept.size) < 0.5], share / 2
    return kept if share == 1 else np.concatenate([ends, kept])


def _label_right(axes: Axes, heights: Sequence[float], shares: Sequence[str]) -> None:
    """Write the share of differing elements at the end of each box."""
    right = axes.twinx()
    right.grid(visible=False)
    # Only x is common to twins; y would be scaled anew.
    right.set_ylim(axes.get_ylim())
    right.set_yticks(heights, shares)
    right.tick_params(length=0)
    axes.text(1.01, 1.01, "differ", transform=axes.transAxes, fontsize="small")

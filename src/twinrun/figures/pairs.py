"""Where the runs of a pair differ: in the weights of the first layer, and in each tensor.

Differences are the higher repeat minus the lower one, in float64. Whether tensors are equal is
asked of their bytes and not of their differences: -0.0 and 0.0 differ by nothing and are not equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from twinrun.artifacts import read_tensors
from twinrun.comparison.distances import differences, differing_elements, values
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
from twinrun.run_files import failure_of, read_ended, read_run, verified

MOST_BARS = 512  # beyond it a bar is thinner than a pixel of a phone
BINS = 256
MOST_TENSORS = 24


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two runs of one variant, parameter by parameter."""

    variant: str
    """Name of the variant."""
    repeats: tuple[int, int]
    """Their two repeats, the lower one first."""
    shapes: dict[str, list[int]]
    """Shapes of the parameters by name, in the module's order."""
    dtypes: dict[str, str]
    """torch's names of their types."""
    first: dict[str, np.ndarray]
    """Tensors of the lower repeat."""
    second: dict[str, np.ndarray]
    """Tensors of the higher repeat."""

    def difference(self, name: str) -> np.ndarray:
        """Second minus first, flat, float64; 0 where it is no number in either run."""
        first, second = (values(run[name], self.dtypes[name]) for run in (self.first, self.second))
        with np.errstate(invalid="ignore", over="ignore"):
            # ASSUME that a NaN has no size: drawn as 0, but counted among the elements that differ.
            return np.nan_to_num(second - first, nan=0, posinf=0, neginf=0)

    def differing(self, name: str) -> np.ndarray:
        """Tell for each element whether its bytes differ; flat, bool."""
        return differing_elements(self.first[name], self.second[name])

    def largest(self, name: str) -> float:
        """Return the largest |difference|."""
        # A tensor may have no element, and `max` of nothing raises without `initial`.
        return float(np.abs(self.difference(name)).max(initial=0))

    def is_equal(self) -> bool:
        """Tell whether all parameters are equal, bit for bit."""
        return not any(self.differing(name).any() for name in self.shapes)


def first_layer(runs: Sequence[str | Path], *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the difference of the first parameter tensor, one panel a variant, on one scale.

    Args:
        runs: run.json of the repeats of each variant, panels in their order; the weights lie
            beside it. The two lowest repeats of the lowest seed are drawn.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    pairs, reasons = read_pairs(runs)
    if not pairs or not pairs[0].shapes:
        reason = next(iter(reasons.values()), "The module has no parameters.")
        empty(output, title="First layer", reason=reason)
        return
    # ASSUME that the first tensor of the first variant is that of all: they train one module.
    name, shape = next(iter(pairs[0].shapes.items()))
    title = f"First layer: {shorten(name, 40)} ({'×'.join(map(str, shape)) or 'scalar'})"
    weights = values(pairs[0].first[name], pairs[0].dtypes[name])
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
        smallest = np.spacing(np.float32(np.abs(weights).max(initial=0)))
        limit = 1.15 * max([pair.largest(name) for pair in pairs] + [float(smallest)])
        exponent = int(np.floor(np.log10(limit)))
        # Both signs on one scale: a difference is no size, and 0 stays in the middle.
        grid[0, 0].set(xlim=(1 - weights.size / 50, weights.size * 1.02), ylim=(-limit, limit))
        # Shared axes share their formatter, so this one call is for all panels. The power of ten
        # stands in the label once; matplotlib would write it above each panel.
        grid[0, 0].yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / 10.0**exponent:.3g}".replace("-", "−"))
        )
        # ASSUME that the other variants have these repeats too: a study repeats all alike.
        earlier, later = pairs[0].repeats
        label = f"repeat {later} − {earlier}, in {power_of_ten(exponent)}"
        figure.supylabel(label, fontsize="medium")
        grid[-1, 0].set_xlabel(_number_label(weights.size))
        whole_numbers(grid[-1, 0].xaxis)


def _draw_differences(axes: Axes, pair: Pair, name: str, colour: str) -> None:
    difference, differing = pair.difference(name), pair.differing(name)
    largest = differences(pair.first[name], pair.second[name], pair.dtypes[name]).max(initial=0)
    axes.set_title(_finding(pair.variant, differing, float(largest)))
    axes.xaxis.grid(visible=False)
    if not differing.any():
        axes.axhline(0, color=colour, linewidth=2.5, gid=f"zero-{pair.variant}")
        note(axes, "equal, bit for bit" if pair.is_equal() else "this tensor: equal, bit for bit")
        return
    axes.axhline(0, color=MUTED, linewidth=0.8)
    numbers = np.arange(1, difference.size + 1)
    if difference.size <= MOST_BARS:
        axes.bar(numbers, difference, color=colour, linewidth=0)
        return
    # Extremes, not means: in a mean, differences of both signs cancel.
    bins = np.array_split(difference, BINS)
    axes.vlines(
        [part.mean() for part in np.array_split(numbers, BINS)],
        [part.min() for part in bins],
        [part.max() for part in bins],
        color=colour,
        linewidth=1,
        gid=f"extremes-{pair.variant}",
    )


def _finding(variant: str, differing: np.ndarray, largest: float) -> str:
    number, whole = int(differing.sum()), differing.size
    text = f"{variant}: {count(number)} of {count(whole)} {verb('differ', number, whole)}"
    return f"{text}, at most {measure(largest)}" if differing.any() else text


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
            axes.set_title(f"equal, bit for bit, in {plural(len(pairs[0].shapes), 'tensor')}")
        for pair in pairs:
            end = ": equal, bit for bit" if pair.is_equal() else ""
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
    left_out = len(pairs[0].shapes) - len(names)
    if left_out:
        more = f"({plural(left_out, 'tensor')} with smaller differences left out)"
        axes.set_xlabel(f"|difference|\n{more}")


def _most_different(pairs: Sequence[Pair]) -> list[str]:
    """Name the tensors to draw, in the module's order; of many, those that differ most."""
    names = list(pairs[0].shapes)
    # By the largest difference of any variant, so that no variant's worst tensor is hidden.
    worst = sorted(names, key=lambda name: -max(pair.largest(name) for pair in pairs))
    return [name for name in names if name in worst[:MOST_TENSORS]]


def _draw_box(axes: Axes, y: float, name: str, pair: Pair, variants: Sequence[str]) -> str:
    """Draw one box at height `y`; return the share of differing elements in words."""
    differing = pair.differing(name)
    sizes = np.abs(pair.difference(name)[differing])
    # A logarithmic axis has no 0. Signed zeros and NaN count in the percentage alone.
    sizes = sizes[sizes > 0]
    colour = colour_of(pair.variant, variants)
    if sizes.size:
        low, lower, median, upper, high = np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1])
        axes.hlines(y, low, high, color=colour, linewidth=1)
        axes.hlines(y, lower, upper, color=colour, linewidth=5)
        axes.plot(median, y, marker="|", color=INK, markersize=9)
    return percent(differing.mean()) if differing.any() else "equal"


def _label_right(axes: Axes, heights: Sequence[float], shares: Sequence[str]) -> None:
    """Write the share of differing elements at the end of each box."""
    right = axes.twinx()
    right.grid(visible=False)
    # Only x is common to twins; y would be scaled anew.
    right.set_ylim(axes.get_ylim())
    right.set_yticks(heights, shares)
    right.tick_params(length=0)
    axes.text(1.01, 1.01, "differ", transform=axes.transAxes, fontsize="small")


def read_pairs(runs: Sequence[str | Path]) -> tuple[list[Pair], dict[str, str]]:
    """Read the two lowest repeats of the lowest seed of each variant, variants in given order.

    Returns:
        The pairs, and by variant why it has none.

    Raises:
        JobError: if a file of a run is corrupt.
    """
    pairs, reasons = [], {}
    by_variant: dict[str, list[tuple[int, int, Path]]] = {}
    for path in map(Path, runs):
        run = read_ended(path)
        by_variant.setdefault(run["variant"], []).append((run["seed"], run["repeat"], path))
    for variant, found in by_variant.items():
        # By seed, then by repeat. ASSUME at least two repeats of a seed, as the schema demands.
        chosen = [path for *_, path in sorted(found)[:2]]
        failure = next(filter(None, map(failure_of, chosen)), None)
        if failure is not None:
            reasons[variant] = f"not run: {failure}"
        elif (pair := _pair(variant, chosen)) is None:
            reasons[variant] = "not comparable: its runs are not two of the same parameters"
        else:
            pairs.append(pair)
    return pairs, reasons


def _pair(variant: str, runs: Sequence[Path]) -> Pair | None:
    """Read two runs; None if there are not two, or they hold different parameters."""
    manifests = [read_run(run) for run in runs]
    # Of other names or shapes no element has a counterpart.
    if len(runs) < 2 or manifests[0]["tensors"] != manifests[1]["tensors"]:
        return None
    parameters = [t for t in manifests[0]["tensors"] if t["kind"] == "parameter"]
    first, second = (read_tensors(verified(run, "weights.safetensors")) for run in runs)
    return Pair(
        variant=variant,
        repeats=(manifests[0]["repeat"], manifests[1]["repeat"]),
        shapes={tensor["name"]: tensor["shape"] for tensor in parameters},
        dtypes={tensor["name"]: tensor["dtype"] for tensor in parameters},
        first=first,
        second=second,
    )

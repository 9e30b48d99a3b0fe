"""What an accelerated variant buys: the time of training and of prediction as bars."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from twinrun.figures.style import INK, PAPER, canvas, colour_of, empty, note_alone
from twinrun.figures.timings import quartiles, read_timing, why_nothing_measured
from twinrun.formatting import measure
from twinrun.timing.summary import Ratio

PHASES = {"train": "Training step", "predict": "Prediction of a batch"}


def speeds(timing: str | Path, *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the milliseconds of a step for each variant, a panel a phase, with the speed-up.

    Args:
        timing: JSON of the timing; the table of rounds lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    summary, rounds = read_timing(timing)
    title = "Time of a step, and the speed-up"
    if rounds[rounds["phase"].isin(PHASES)].empty:
        empty(output, title=title, reason=why_nothing_measured(summary))
        return
    with canvas(output, title=title, height=3.3, columns=len(PHASES)) as (_, grid):
        for axes, (phase, name) in zip(grid[0], PHASES.items(), strict=True):
            axes.set_title(name)
            ratios = [ratio for ratio in summary["ratios"] if ratio["phase"] == phase]
            _draw(axes, rounds[rounds["phase"] == phase], ratios, variants)
        grid[0, 0].set_ylabel("milliseconds")


def _draw(
    axes: Axes, rounds: pd.DataFrame, ratios: Sequence[Ratio], variants: Sequence[str]
) -> None:
    if rounds.empty:
        note_alone(axes, "no variant could be measured")
        return
    measured = list(rounds["variant"].unique())
    spread = quartiles(rounds, "variant")
    middle = spread["middle"]
    axes.bar(measured, middle, color=[colour_of(v, variants) for v in measured], width=0.62)
    # (2, V): errorbar takes distances from the bar's end, not positions.
    errors = np.stack([middle - spread["low"], spread["high"] - middle])
    axes.errorbar(measured, middle, yerr=errors, fmt="none", ecolor=INK, capsize=5)
    axes.grid(visible=False, axis="x")
    # From 0, since a bar says its value by its length; above it room for two lines of text.
    axes.set_ylim(0, 1.28 * spread["high"].max())
    # The median of the rounds' ratios: it may differ from the ratio of the two bars.
    # ASSUME one size, as the study has it: a variant has one ratio in a phase.
    speedups = {ratio["variant"]: 1 / ratio["time_ratio"] for ratio in ratios}
    # Bars over words stand at 0, 1, 2, ... on matplotlib's axis of categories.
    for position, variant in enumerate(measured):
        label = f"\n{measure(speedups[variant])} times" if variant in speedups else ""
        axes.annotate(
            f"{measure(middle[variant])} ms{label}",
            (position, spread.loc[variant, "high"]),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
        )

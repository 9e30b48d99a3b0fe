"""The trials of a sweep: how each went, epoch by epoch, from the best to the one that failed."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from twinrun import artifacts
from twinrun.comparison.study_records import Trial, read_ranking
from twinrun.figures.style import MUTED, band, canvas, drawable, note_alone, shorten
from twinrun.figures.thinned import summed_up
from twinrun.figures.training import LONGEST, panels
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import measure
from twinrun.run_files import verified

MOST_PANELS = 3  # our choice, as the next; the page says it
MOST_NAMED = 8


def trials(sweep: str | Path, *, output: str | Path) -> None:
    """Draw what each trial logged by epoch, dark the best; name the best ones and the failed.

    Args:
        sweep: JSON of the ranking; it names the runs, whose tables of epochs lie beside them.
        output: path of the SVG.
    """
    summary = read_ranking(sweep)
    drawn = [trial for trial in summary["trials"] if trial["ended"] == "finished"]
    others = [trial for trial in summary["trials"] if trial["ended"] != "finished"]
    tables = [
        artifacts.read_csv(verified(trial["run"], "epochs.csv"), ["epoch"]) for trial in drawn
    ]
    # Of any of them, the best one's first: what a module logs may depend on what is varied.
    logged = dict.fromkeys(str(name) for table in tables for name in table if name != "epoch")
    names, more = panels(list(logged) or [""], MOST_PANELS)
    # Not up to 1: the yellow end is too pale on white. Colours are ranks, not variants.
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, max(len(drawn), 1)))
    named = min(len(drawn), MOST_NAMED) + min(len(others), MOST_NAMED)
    title = f"The trials by epoch, ranked by {summary['metric']}"
    height = 0.7 + 1.75 * len(names) + 0.2 * (named + more.count("\n"))
    with canvas(output, title=title, height=height, rows=len(names), share_x=True) as (
        figure,
        grid,
    ):
        for axes, name in zip(grid[:, 0], names, strict=True):
            axes.set_ylabel(shorten(name, LONGEST))
            # The best is drawn last, on top.
            for table, colour in reversed(list(zip(tables, colours, strict=False))):
                if name in table:
                    values = drawable(pd.to_numeric(table[name], errors="coerce"))
                    line = pd.DataFrame({"epoch": table["epoch"], "value": values})
                    line = line.dropna()
                    summed = summed_up(line, x="epoch", y="value")
                    band(
                        axes,
                        summed,
                        x="epoch",
                        y="value",
                        colour=mpl.colors.to_hex(colour),
                        dashes="solid",
                        marker="o" if summed is line else None,
                    )
        if not logged:
            note_alone(grid[0, 0], "the trials log nothing" if drawn else "no trial has finished")
        for trial, colour in list(zip(drawn, colours, strict=False))[:MOST_NAMED]:
            grid[0, 0].plot([], color=colour, linewidth=2.5, label=_label(trial))
        for trial in others[:MOST_NAMED]:
            # What failed has no curve, but a place in the legend: it was tried.
            grid[0, 0].plot([], "x", color=MUTED, label=_label(trial))
        grid[-1, 0].set_xlabel(f"epoch{more}")
        whole_numbers(grid[-1, 0].xaxis)
        figure.legend(loc="outside lower left", ncols=1)


def _label(trial: Trial) -> str:
    """Return what stands beside the line of a trial."""
    if trial["ended"] != "finished":
        return f"{trial['ended'].partition(':')[0]}: {trial['label']}"
    rank = "–" if trial["rank"] is None else trial["rank"]
    return f"{rank}. {trial['label']}: {measure(trial['value'])}"

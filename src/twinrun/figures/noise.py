"""The scale of noise: how far rounding, changes and seeds are from one run, and how that grows."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from twinrun import artifacts
from twinrun.comparison.noise_records import Measure, NoiseRun, NoiseTable, read_noise
from twinrun.comparison.noise_steps import STEP_COLUMNS
from twinrun.figures.style import (
    INK,
    MUTED,
    band,
    canvas,
    log_axis,
    note,
    note_alone,
    shorten,
)
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import plural, power_of_ten
from twinrun.luck.scale import Scale, scale_of
from twinrun.luck.worth import Worth, weigh

ROUNDING, SEED = "#0173b2", "#d55e00"  # the blue and the vermilion of all figures
COLOURS: Mapping[Worth, str] = {
    "no more than rounding": ROUNDING,
    "no more than another seed": "#029e73",
    "more than another seed": SEED,
    "undecided": MUTED,
}
MARKERS: Mapping[Worth, str] = {
    "no more than rounding": "o",
    "no more than another seed": "s",
    "more than another seed": "D",
    "undecided": "x",
}
ROW_INCHES = 0.21
PLAIN = 20  # so many times as far as the nearest may the farthest be
FAR = 1.5
SHARES = ("rows", "values")
LONGEST_LABEL = 30  # letters
WHAT = {
    "rows": "rows of {} whose largest number changes place",
    "values": "values of {} that change",
    "numbers": "relative L2 distance of {}",
    "parameters": "relative L2 distance of the {}",
}


def ladder(noise: str | Path, *, output: str | Path) -> None:
    """Draw how far each run is from the reference: a row for rounding, each change, the seeds.

    Args:
        noise: JSON of the scale.
        output: path of the SVG.
    """
    table = read_noise(noise)
    scale = scale_of(table)
    drawn = _drawn(table, scale)
    rows = [] if drawn is None else _rows(table, drawn)
    title = "How far from the reference run: rounding, changes, seeds"
    with canvas(output, title=title, height=1.9 + ROW_INCHES * len(rows)) as (figure, grid):
        axes = grid[0, 0]
        if drawn is None or not rows:
            note_alone(axes, table["reason"] or "there is nothing to compare")
            return
        far = [run["values"][drawn["name"]] for _, runs in rows for run in runs]
        seen = [value for value in far if value > 0] or [1.0]
        # Distances of one size are read on a plain axis; a logarithmic one has its 0 below them.
        is_plain = max(seen) < PLAIN * min(seen)
        least = 0.0 if is_plain else min(seen) / 3
        for position, (_, runs) in enumerate(rows):
            for run in runs:
                value = max(run["values"][drawn["name"]], least)
                colour, marker = _look(run, scale)
                axes.plot(
                    value, position, marker, color=colour, markersize=6, markerfacecolor="none"
                )
        bounds = scale.interval(drawn) if drawn["name"] in scale.rounding else {}
        for kind, colour in (("perturbation", ROUNDING), ("seed", SEED)):
            bound = bounds.get(kind)
            # A bound from few runs may lie far beyond what is drawn.
            if bound is not None and bound < FAR * max(seen):
                axes.axvline(max(bound, least), color=colour, linestyle=(0, (4, 2)), linewidth=1)
        _frame(axes, [label for label, _ in rows], least, is_share=drawn["kind"] in SHARES)
        axes.set_xlabel(WHAT[drawn["kind"]].format(shorten(drawn["name"], 20)), fontsize=8.5)
        for worth, colour in COLOURS.items():
            axes.plot([], MARKERS[worth], color=colour, label=worth, markerfacecolor="none")
        axes.plot([], color=ROUNDING, linestyle=(0, (4, 2)), label="95 % of roundings are below")
        axes.plot([], color=SEED, linestyle=(0, (4, 2)), label="95 % of seeds are below")
        figure.legend(loc="outside lower left", ncols=2, fontsize=8)


def _drawn(table: NoiseTable, scale: Scale) -> Measure | None:
    """Return the measure that is drawn: of predictions, or else of the parameters.

    One that shows rounding, if any does: where a class hardly changes, scores do.
    """
    known = [*scale.measures, *table["measures"]]
    in_order = [m for kind in WHAT for m in known if m["kind"] == kind]
    perturbed = [run["values"] for run in table["runs"] if run["kind"] == "perturbation"]
    judged = [
        m
        for m in in_order
        if m in scale.measures and any(of.get(m["name"], 0.0) > m["floor"] for of in perturbed)
    ]
    return next(iter([*judged, *in_order]), None)


def _rows(table: NoiseTable, drawn: Measure) -> list[tuple[str, list[NoiseRun]]]:
    """Return what stands in each row, the repeat at the top; all equal changes are one row."""
    known = [run for run in table["runs"] if drawn["name"] in run["values"]]
    of_kind = {kind: [r for r in known if r["kind"] == kind] for kind in _KINDS}
    equal = [run for run in of_kind["change"] if run["answer"] == "equal"]
    rows = [
        ("repeat", of_kind["repeat"]),
        (f"equal: {plural(len(equal), 'change')}", equal),
        ("one ULP of one weight", of_kind["perturbation"]),
        *(
            (shorten(run["label"], LONGEST_LABEL), [run])
            for run in of_kind["change"]
            if run["answer"] != "equal"
        ),
        ("another seed", of_kind["seed"]),
    ]
    return [(label, runs) for label, runs in rows if runs]


_KINDS = ("repeat", "perturbation", "change", "seed")


def _look(run: NoiseRun, scale: Scale) -> tuple[str, str]:
    if run["kind"] == "change" and run["answer"] == "differs":
        worth = weigh(scale, run).answer
        return COLOURS.get(worth, MUTED), MARKERS.get(worth, "x")
    return {"perturbation": ROUNDING, "seed": SEED}.get(run["kind"], INK), "o"


def _frame(axes: Axes, labels: list[str], least: float, *, is_share: bool) -> None:
    if least:
        log_axis(axes.xaxis)
        axes.set_xlim(least / 1.5, axes.get_xlim()[1])
        # Left of the smallest distance stands none.
        ticks = [tick for tick in axes.get_xticks() if least * 1.5 < tick <= axes.get_xlim()[1]]
        written = [power_of_ten(round(np.log10(tick))) for tick in ticks]
        axes.set_xticks([least, *ticks], ["0", *written])
        axes.set_xticks([], minor=True)
    else:
        axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
        if is_share:
            axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_yticks(np.arange(len(labels)), labels, color=INK, fontsize=8)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(length=0)


def divergence(noise: str | Path, *, output: str | Path) -> None:
    """Draw how far the parameters are from the reference's after each step.

    Args:
        noise: JSON of the scale; the table of steps lies beside it.
        output: path of the SVG.
    """
    table = read_noise(noise)
    steps = artifacts.read_csv(Path(noise).with_suffix(".steps.csv"), STEP_COLUMNS)
    # A table without a row has a type of its own.
    distances = steps["relative_l2"].astype("float64")
    apart = steps[np.isfinite(distances) & (distances > 0)]
    title = "How rounding and seeds grow, step by step"
    with canvas(output, title=title, height=3.4) as (figure, grid):
        axes = grid[0, 0]
        axes.set(xlabel="step", ylabel="relative L2 distance")
        for _, of in apart[apart["kind"] == "change"].groupby("label", sort=False):
            axes.plot(of["step"], of["relative_l2"], color=MUTED, linewidth=0.7, alpha=0.6)
        for kind, colour, label in (
            ("perturbation", ROUNDING, "one ULP of one weight: median and range"),
            ("seed", SEED, "another seed: median and range"),
        ):
            of = apart[apart["kind"] == kind]
            if len(of):
                band(axes, of, x="step", y="relative_l2", colour=colour, dashes="solid", width=2)
            axes.plot([], color=colour, label=label)
        axes.plot([], color=MUTED, linewidth=0.7, label="changes of a setting")
        if not len(apart):
            note(axes, table["reason"] or _without_distance(table, has_steps=bool(len(steps))))
        else:
            log_axis(axes.yaxis)
        if table["half_a_seed"] is not None:
            axes.axvline(table["half_a_seed"], color=INK, linestyle=(0, (1.5, 1)), linewidth=1)
            axes.plot([], color=INK, linestyle=(0, (1.5, 1)), label="rounding is half a seed")
            if "half_since" in table:  # nobody has looked between
                unseen = (table["half_since"], table["half_a_seed"])
                axes.axvspan(*unseen, color=INK, alpha=0.08, linewidth=0, label="it may be, before")
        whole_numbers(axes.xaxis)
        figure.legend(loc="outside lower left", ncols=1)


def _without_distance(table: NoiseTable, *, has_steps: bool) -> str:
    """Say what is known of runs of which no step shows a distance: not every step is kept."""
    others = [run["answer"] for run in table["runs"] if run["kind"] != "reference"]
    compared = [answer for answer in others if answer in ("equal", "differs")]
    if not compared:
        return "no run was compared"
    if "differs" in compared:
        return "no step that was kept shows a distance"
    when = "after every step kept" if has_steps else "at the end"
    return f"every run is equal to the reference, {when}"

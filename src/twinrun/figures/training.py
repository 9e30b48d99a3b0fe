"""What a run learned: its metrics per epoch, and examples of what its network makes of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from twinrun.artifacts import read_tensors
from twinrun.figures.style import Dashes, band, canvas, colour_of, show_mosaic
from twinrun.formatting import measure
from twinrun.run_files import read_run

MOST_PANELS = 6
PHASES: dict[str, Dashes] = {"train": "solid", "val": (0, (3, 1.5))}


def curves(runs: Sequence[str | Path], *, variants: Sequence[str], output: str | Path) -> None:
    """Draw every metric per epoch, training and validation; band: range over the runs.

    Lines grow thinner from variant to variant, so that those that coincide stay visible.

    Args:
        runs: run.json of any number of runs a variant; the table of epochs lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    metrics = pd.concat([_metrics(Path(path)) for path in runs], ignore_index=True)
    names = list(metrics["metric"].unique())[:MOST_PANELS]
    drawn = list(metrics["variant"].unique())
    title = "Training (solid) and validation (dashed) per epoch"
    height = 0.8 + 0.2 * len(drawn) + 1.75 * len(names)
    with canvas(output, title=title, height=height, rows=len(names), share_x=True) as (
        figure,
        grid,
    ):
        for axes, name in zip(grid[:, 0], names, strict=True):
            _draw_metric(axes, metrics[metrics["metric"] == name], drawn, variants)
            axes.set(ylabel=name, xlabel="")
        for variant in drawn:
            grid[0, 0].plot([], color=colour_of(variant, variants), linewidth=2.5, label=variant)
        grid[-1, 0].set_xlabel("epoch")
        grid[-1, 0].xaxis.set_major_locator(MaxNLocator(7, integer=True))
        figure.legend(loc="outside lower left", ncols=1 if len(drawn) > 2 else 2)


def _draw_metric(
    axes: Axes, metric: pd.DataFrame, drawn: Sequence[str], variants: Sequence[str]
) -> None:
    for (variant, phase), rows in metric.groupby(["variant", "phase"], sort=False):
        width = 4.5 / (1 + drawn.index(variant)) ** 0.8
        band(
            axes,
            rows,
            x="epoch",
            y="value",
            colour=colour_of(variant, variants),
            dashes=PHASES.get(phase, "solid"),
            width=width,
            marker="o" if rows["epoch"].nunique() == 1 else None,
        )


def _metrics(run: Path) -> pd.DataFrame:
    """Return a run's metrics in long form: variant, epoch, phase, metric, value."""
    variant = read_run(run, "epochs.csv")["variant"]
    table = pd.read_csv(run.with_name("epochs.csv")).melt(id_vars="epoch", var_name="name")
    parts = table["name"].str.extract(r"^(?:(?P<phase>train|val)_)?(?P<metric>.+)$")
    return table.join(parts).dropna(subset="value").assign(variant=variant)


def strip(run: str | Path, *, output: str | Path, examples: int = 8) -> None:
    """Draw examples of the denoiser's test images: noisy, denoised, clean.

    Args:
        run: run.json; the predictions lie beside it, each (N, 1, height, width) in [0, 1].
        output: path of the SVG.
        examples: how many, evenly spaced over the test images.
    """
    read_run(run, "predictions.safetensors")
    predictions = read_tensors(Path(run).with_name("predictions.safetensors"))
    chosen = np.linspace(0, len(predictions["clean"]) - 1, examples).round().astype(int)
    kinds = ["noisy", "denoised", "clean"]
    images = np.stack([predictions[kind][chosen, 0] for kind in kinds])
    title = "Test images: noisy, denoised, clean"
    with canvas(output, title=title, height=0.5 + 12.9 / examples) as (_, grid):
        show_mosaic(grid[0, 0], images, highest=1, rows=[_row_label(predictions, k) for k in kinds])


def _row_label(predictions: dict[str, np.ndarray], kind: str) -> str:
    if kind == "clean":
        return kind
    errors = predictions[kind].astype(np.float64) - predictions["clean"]
    psnr = -10 * np.log10(np.mean(errors**2, axis=(1, 2, 3)))
    return f"{kind}\n{measure(float(psnr.mean()))} dB"

"""What networks predict beside what they should: as images, and as a surface over a grid.

Which predictions are drawn, and as what, says the workload's key `shows`. Where they cannot be
drawn as that, the figure says why: the run stays valid.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import Normalize

from twinrun.artifacts import StoredTensors
from twinrun.comparison.distances import unit_of
from twinrun.figures.style import canvas, empty, shorten, show_mosaic
from twinrun.formatting import count, measure
from twinrun.run_files import failure_of, read_run, verified

EXAMPLES = 8
NOTHING = "nothing was predicted"
COLOURS = 3  # channels of an image that has colours


def strip(run: str | Path, *, names: Sequence[str], output: str | Path) -> None:
    """Draw examples of predicted images, a row each name; all in the range of the last ones.

    Args:
        run: run.json; the predictions lie beside it, each (N, height, width) or
            (N, channels, height, width) with 1 or 3 channels.
        names: of what is drawn; the last is what the others should be.
        output: path of the SVG.
    """
    title = f"Predicted images: {shorten(', '.join(names), 60)}"
    failure = failure_of(run)
    if failure is not None:
        empty(output, title=title, reason=f"not run: {failure}")
        return
    predictions, problem = read_shown(run, names)
    problem = problem or _no_images(predictions, names)
    if problem:
        empty(output, title=title, reason=problem)
        return
    images = [_channels_last(predictions[name]) for name in names]
    low, high = _range(images[-1])
    number = min(EXAMPLES, len(images[-1]))
    # Evenly spaced: the denoiser's test images come class by class, the first are all of one.
    chosen = np.linspace(0, len(images[-1]) - 1, number).round().astype(int)
    shown = np.stack([(rows[chosen].astype(np.float64) - low) / (high - low) for rows in images])
    labels = [shorten(name, 16) for name in names]
    # The decibels are of all images, not only of those that are shown.
    labels[:-1] = [
        f"{label}\n{_decibels(rows, images[-1], peak=high - low)}"
        for label, rows in zip(labels[:-1], images[:-1], strict=True)
    ]
    # In inches: what the labels leave of 5.
    width = 4.3 / number
    height = 0.5 + len(names) * width * shown.shape[2] / shown.shape[3]
    with canvas(output, title=title, height=height) as (_, grid):
        show_mosaic(grid[0, 0], shown, highest=1, rows=labels)


def _no_images(predictions: Mapping[str, np.ndarray], names: Sequence[str]) -> str | None:
    shapes = [predictions[name].shape for name in names]
    if len({*shapes}) > 1:
        return f"not of one shape: {' and '.join(map(str, dict.fromkeys(shapes)))}"
    shape = shapes[0]
    is_image = len(shape) == 3 or (len(shape) == 4 and shape[1] in (1, COLOURS))
    return None if is_image and 0 not in shape else f"no images: {shape}"


def _channels_last(images: np.ndarray) -> np.ndarray:
    """Return images (N, height, width), or (N, height, width, 3) in colour."""
    if images.ndim == 3:
        return images
    return np.moveaxis(images, 1, -1) if images.shape[1] == COLOURS else images[:, 0]


def _range(images: np.ndarray) -> tuple[float, float]:
    """Return what is black and what is white: 0 and 1 where all lies between, else the extremes."""
    low, high = float(images.min()), float(images.max())
    # ASSUME that values between 0 and 1 are meant as grey: a dark picture is not stretched.
    return (0.0, 1.0) if (low >= 0 and 0 < high <= 1) or low == high else (low, high)


def mean_psnr(images: np.ndarray, target: np.ndarray, *, peak: float) -> float:
    """Return the mean over images of the peak signal-to-noise ratio, 10 log10(peak^2 / error^2).

    In decibels; infinite where an image has no error.
    """
    errors = np.square((images.astype(np.float64) - target) / peak).reshape(len(images), -1).mean(1)
    with np.errstate(divide="ignore"):
        return float(np.mean(10 * np.log10(1 / errors)))


def _decibels(images: np.ndarray, target: np.ndarray, *, peak: float) -> str:
    is_equal = np.array_equal(images.astype(np.float64), target)
    return "equal" if is_equal else f"{measure(mean_psnr(images, target, peak=peak))} dB"


def worse_than_first(run: str | Path, *, names: Sequence[str]) -> list[str]:
    """Name the images that are farther from the last ones than the first ones are.

    With `[noisy, denoised, clean]`, a network that makes noise worse. Farther by the numbers that
    `strip` prints; nothing where no images can be drawn.

    Args:
        run: as for `strip`.
        names: as for `strip`.
    """
    if len(names) < 3:
        return []
    predictions, problem = read_shown(run, names)
    if problem or _no_images(predictions, names):
        return []
    low, high = _range(predictions[names[-1]])
    first, *others = (
        # Three significant digits, as printed: a difference that no reader sees is no verdict.
        float(f"{mean_psnr(predictions[name], predictions[names[-1]], peak=high - low):.2e}")
        for name in names[:-1]
    )
    return [name for name, psnr in zip(names[1:-1], others, strict=True) if psnr < first]


def surfaces(runs: Sequence[str | Path], *, names: Sequence[str], output: str | Path) -> None:
    """Draw the target and what each run's network makes of it, on one colour scale.

    Args:
        runs: run.json of runs of one workload and seed; the predictions lie beside each: values at
            the points of a square grid, (N,) or (N, 1), x1 varying fastest, or (rows, columns).
        names: of what is predicted, and of what it should be.
        output: path of the SVG.
    """
    predicted, wanted = names
    pictures, problem = [], "no network was trained to the end"
    for run in runs:
        failure = failure_of(run)
        if failure is not None:
            problem = f"not run: {failure}"
            continue
        variant = read_run(run)["variant"]
        found, reason = read_shown(run, names)
        if not found and reason and reason.endswith(NOTHING):  # a run that was broken off
            continue
        reason = reason or _no_grid(found, names)
        if reason:
            problem = reason
            continue
        surface, target = _square(found[predicted]), _square(found[wanted])
        # ASSUME that all runs have the target of the first: one data module, one seed.
        pictures = pictures or [(wanted, target)]
        pictures.append((f"{variant}\nRMSE {measure(rmse(surface, target))}", surface))
    title = "The surface to fit, and the networks"
    if not pictures:
        empty(output, title=title, reason=problem)
        return
    target = pictures[0][1]
    # The target's range: a network that runs away must not flatten the others. What lies beyond
    # has the end's colour, hence `extend` below.
    scale = Normalize(target.min(), target.max())
    height = 0.95 + 4.4 / len(pictures)
    columns = len(pictures)
    with canvas(output, title=title, height=height, columns=columns) as (figure, grid):
        for axes, (label, surface) in zip(grid[0], pictures, strict=True):
            # Rows are x2, growing upwards; without `origin` the surface would stand on its head.
            shown = axes.imshow(surface, origin="lower", cmap="viridis", norm=scale)
            axes.set_title(label)
            axes.set(xticks=[], yticks=[], xlabel="x1")
            axes.grid(visible=False)
        grid[0, 0].set_ylabel("x2")
        bar = figure.colorbar(shown, ax=grid[0], label=predicted, extend="both", shrink=0.8)
        bar.outline.set_visible(False)


def _no_grid(predictions: Mapping[str, np.ndarray], names: Sequence[str]) -> str | None:
    sizes = [predictions[name].size for name in names]
    if sizes[0] != sizes[1]:
        return f"not as many values: {count(sizes[0])} and {count(sizes[1])}"
    for name in names:
        shape = predictions[name].shape
        is_line = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
        if not sizes[0] or not (len(shape) == 2 or is_line):
            return f"{name} is no surface: {shape}"
        if is_line and round(shape[0] ** 0.5) ** 2 != shape[0]:
            return f"{name}: {count(shape[0])} points are no square grid"
    return None


def _square(values: np.ndarray) -> np.ndarray:
    """Return values as (rows, columns)."""
    if values.ndim == 2 and values.shape[1] > 1:
        return values
    # Row by row, since x1 varies fastest: (x2, x1).
    return values.reshape(round(values.size**0.5), -1)


def read_shown(run: str | Path, names: Sequence[str]) -> tuple[dict[str, np.ndarray], str | None]:
    """Read what is shown of a run's predictions, and nothing else: all of them may be gigabytes.

    Args:
        run: run.json; the predictions lie beside it.
        names: of what is shown.

    Returns:
        Those that there are, by name, and why these cannot be drawn: one is missing, or holds a
        value that is no number.
    """
    stored = StoredTensors(verified(run, "predictions.safetensors"))
    predictions = {name: stored.read(name) for name in names if name in stored.names()}
    missing = [name for name in names if name not in predictions]
    if missing:
        known = ", ".join(stored.names())
        there = f"predicted were {known}" if known else NOTHING
        return predictions, f"no {' and no '.join(missing)}: {there}"
    broken = [name for name, found in predictions.items() if not np.isfinite(found).all()]
    return predictions, f"not finite: {' and '.join(broken)}" if broken else None


def rmse(values: np.ndarray, others: np.ndarray) -> float:
    """Return the root mean squared difference of as many values, in float64.

    >>> rmse(np.array([[1.0], [1.0]]), np.array([4.0, 4.0]))
    3.0
    """
    apart = values.astype(np.float64).ravel() - others.ravel()  # (N, 1) - (N,) would be (N, N)
    unit = unit_of([np.abs(apart).max()]) if apart.size else 1.0
    return unit * float(np.sqrt(np.mean((apart / unit) ** 2)))

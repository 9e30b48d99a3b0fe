"""Predictions as images and as surfaces, and the contact sheet: by name and shape, whose-ever."""

import doctest

import numpy as np
import pytest
from drawing import SVG, Drawing
from example_results import BY_ANGLE, IMAGES, write_digits, write_run
from example_runs import seal
from safetensors.numpy import load_file, save_file

from twinrun import artifacts
from twinrun.figures import predictions
from twinrun.figures.datasets import contact_sheet
from twinrun.figures.predictions import mean_psnr, rmse, strip, surfaces, worse_than_first

RANDOM = np.random.default_rng(0)


@pytest.fixture
def output(tmp_path):
    return tmp_path / "figure.svg"


@pytest.fixture
def predicted(tmp_path):
    """Write runs that predicted these arrays, a variant each."""

    def write(**variants):
        runs = []
        for variant, arrays in variants.items():
            run = write_run(tmp_path, {}, workload="w", variant=variant)
            arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            save_file(arrays, run.with_name("predictions.safetensors"))
            seal(run.parent)
            runs.append(run)
        return runs

    return write


def images_in(drawing):
    return len(list(drawing.root.iter(f"{SVG}image")))


def test_a_strip_states_the_measured_psnr(tmp_path, output):
    run = write_run(tmp_path, {}, workload="w", variant="v", images=True)
    strip(run, names=IMAGES, output=output)
    drawing = Drawing(output)
    found = load_file(run.with_name("predictions.safetensors"))
    errors = (found["noisy"].astype(float) - found["clean"]) ** 2
    psnr = np.mean(10 * np.log10(1 / errors.mean(axis=(1, 2, 3))))
    assert f"{psnr:.1f} dB" in drawing.texts
    assert images_in(drawing) == 1


@pytest.mark.parametrize(
    ("noise", "error", "worse"), [(0.2, 0.1, []), (0.1, 0.2, ["denoised"]), (0.1, 0.1, [])]
)
def test_images_that_are_worse_than_the_first_are_named(predicted, noise, error, worse):
    """Nothing named them at b8e0cc1."""
    clean = np.zeros((4, 8, 8), np.float32)
    clean[:, ::2] = 1
    images = {"noisy": clean + np.float32(noise), "denoised": clean + np.float32(error)}
    (run,) = predicted(v=images | {"clean": clean})
    assert worse_than_first(run, names=IMAGES) == worse
    assert worse_than_first(run, names=["denoised", "clean"]) == []
    assert worse_than_first(run, names=["noisy", "denoised", "absent"]) == []


def test_one_image_without_error_does_not_make_all_of_them_equal(predicted, output):
    clean = np.full((2, 4, 4), 0.5, np.float32)
    close = clean.copy()
    close[1] += np.float32(0.1)
    (run,) = predicted(v={"close": close, "clean": clean})
    strip(run, names=["close", "clean"], output=output)
    assert "∞ dB" in Drawing(output).texts


@pytest.mark.parametrize(
    ("shape", "lowest", "highest"),
    [((5, 8, 8), 0, 1), ((20, 1, 6, 12), 0, 1), ((9, 3, 8, 8), -1, 1), ((1, 3, 8, 8), 0, 255)],
    ids=["grey", "a channel", "colour", "bytes"],
)
def test_images_of_any_layout_and_range_are_drawn(predicted, output, shape, lowest, highest):
    wanted = RANDOM.uniform(lowest, highest, shape).astype(np.float32)
    wanted.flat[:2] = lowest, highest
    restored = wanted + np.float32(0.01 * (highest - lowest))
    (run,) = predicted(mine={"restored": restored, "wanted": wanted})
    strip(run, names=["restored", "wanted"], output=output)
    drawing = Drawing(output)
    assert images_in(drawing) == 1
    assert "40.0 dB" in drawing.texts  # an error of 1 % of the range
    assert "wanted" in drawing.texts


@pytest.mark.parametrize("factor", [1e-200, 1, 1e200])
def test_errors_too_large_or_small_to_be_squared_are_measured_alike(factor):
    """Red before: OverflowError."""
    wanted = factor * np.linspace(0, 1, 16).reshape(1, 4, 4)
    restored = wanted + 0.01 * factor
    assert mean_psnr(restored, wanted, peak=factor) == pytest.approx(40)
    assert rmse(restored, wanted) == pytest.approx(0.01 * factor)


def test_images_that_are_equal_have_no_decibels(predicted, output):
    same = np.ones((4, 8, 8), np.float32)
    (run,) = predicted(mine={"restored": same, "wanted": same})
    strip(run, names=["restored", "wanted"], output=output)
    assert "equal" in Drawing(output).texts


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "nothing was predicted"),
        ({"prediction": np.ones((4, 8, 8))}, "predicted were prediction"),
        ({"a": np.ones((4, 10)), "b": np.ones((4, 10))}, "no images"),
        ({"a": np.ones((4, 5, 8, 8)), "b": np.ones((4, 5, 8, 8))}, "no images"),
        ({"a": np.ones((4, 8, 8)), "b": np.ones((4, 8, 9))}, "not of one shape"),
        ({"a": np.ones((0, 8, 8)), "b": np.ones((0, 8, 8))}, "no images"),
        ({"a": np.full((4, 8, 8), np.nan), "b": np.ones((4, 8, 8))}, "not finite"),
    ],
)
def test_a_strip_says_why_there_are_no_images(predicted, output, found, words):
    (run,) = predicted(mine=found)
    strip(run, names=["a", "b"], output=output)
    drawing = Drawing(output)
    assert words in drawing.text
    assert images_in(drawing) == 0


@pytest.mark.parametrize("shape", [(1600,), (1600, 1), (40, 40), (32, 50)])
def test_surfaces_carry_their_error(predicted, output, shape):
    target = np.linspace(-6, 8, 1600).astype(np.float32)
    runs = predicted(
        cpu={"height": (target + 0.5).reshape(shape), "truth": target.reshape(shape)},
        gpu={"height": (target + 2).reshape(shape), "truth": target.reshape(shape)},
        failed={},
    )
    surfaces(runs, names=["height", "truth"], output=output)
    drawing = Drawing(output)
    for words in ("truth", "cpu", "RMSE 0.500", "gpu", "RMSE 2.00", "height"):
        assert words in drawing.text
    assert "failed" not in drawing.text
    assert images_in(drawing) >= 3


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "no network was trained to the end"),
        ({"prediction": np.ones(9)}, "no height and no truth"),
        ({"height": np.ones(10), "truth": np.ones(10)}, "10 points are no square grid"),
        ({"height": np.ones(9), "truth": np.ones(16)}, "not as many values"),
        ({"height": np.ones((2, 2, 2)), "truth": np.ones((2, 2, 2))}, "height is no surface"),
        ({"height": np.full(9, np.inf), "truth": np.ones(9)}, "not finite"),
    ],
)
def test_surfaces_say_why_there_are_none(predicted, output, found, words):
    surfaces(predicted(mine=found), names=["height", "truth"], output=output)
    drawing = Drawing(output)
    assert words in drawing.text
    assert images_in(drawing) == 0


def test_a_contact_sheet_has_a_row_a_class_and_a_column_a_value(tmp_path, output):
    contact_sheet(write_digits(tmp_path), **BY_ANGLE, output=output)
    drawing = Drawing(output)
    assert {*map(str, range(10)), "−45", "45"} <= set(drawing.texts)
    (image,) = drawing.root.iter(f"{SVG}image")
    assert int(image.get("width")) == int(image.get("height")) == 10 * 30


def test_a_contact_sheet_of_anybodys_arrays(tmp_path, output):
    """In colour, from 0 to 1, with words for classes, of which one has four images only."""
    arrays = {"photos": RANDOM.random((14, 6, 8, 3)), "names": np.array(["cat"] * 4 + ["dog"] * 10)}
    artifacts.write_arrays(tmp_path / "mine.npz", arrays)
    contact_sheet(tmp_path / "mine.npz", images="photos", rows="names", output=output)
    drawing = Drawing(output)
    assert {"cat", "dog", "photos by names"} <= set(drawing.texts)
    (image,) = drawing.root.iter(f"{SVG}image")
    assert (int(image.get("width")), int(image.get("height"))) == (4 * 10, 2 * 8)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"images": "photos", "rows": "kinds"}, "no array is called photos or kinds"),
        ({"images": "train_labels", "rows": "train_labels"}, "train_labels holds no images"),
        ({"images": "train_images", "rows": "train_images"}, "train_images is no number for each"),
    ],
)
def test_a_contact_sheet_says_why_there_is_none(tmp_path, output, names, words):
    contact_sheet(write_digits(tmp_path), **names, output=output)
    drawing = Drawing(output)
    assert words in drawing.text
    assert images_in(drawing) == 0


def test_examples_in_the_docstrings_hold():
    tested = doctest.testmod(predictions)
    assert tested.attempted > tested.failed == 0


def test_only_what_is_shown_is_read(predicted, output, monkeypatch):
    """Red before: all predictions were read, of whatever size."""
    read, plain = [], artifacts.StoredTensors.parts
    monkeypatch.setattr(
        artifacts.StoredTensors,
        "parts",
        lambda self, name, *told: read.append(name) or plain(self, name, *told),
    )
    shown = {"noisy": np.zeros((2, 4, 4)), "clean": np.ones((2, 4, 4))}
    (run,) = predicted(v=shown | {"features": np.ones((2, 1000))})
    strip(run, names=["noisy", "clean"], output=output)
    assert sorted(read) == ["clean", "noisy"]

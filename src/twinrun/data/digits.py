"""Synthetic digits: drawn in the text fonts that matplotlib ships, sheared, blurred and rotated.

Each image is one digit in a random font with a random scale, shift, shear and blur, rotated by a
whole number of degrees, which is the target of the regression. The same seed gives the same bytes
with the same versions of NumPy, Pillow (with its FreeType) and matplotlib (with its fonts).
"""

from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZE = 28
LARGEST_ANGLE = 45
# ASSUME that 20 text fonts are variety enough. Their order matters: the generator draws an index.
FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmss10", "cmtt10"),
)

_GLYPH_SIZE = 96  # side in pixels of the canvas on which a digit is drawn before the transformation
_OVERSAMPLING = 2  # images are made this many times larger and then averaged: smoother edges


def make(*, images_per_class: int, seed: int) -> dict[str, np.ndarray]:
    """Make digits, half for training and half for testing, with equal class counts in each.

    Args:
        images_per_class: images of each digit, an even number.
        seed: of this dataset only; a run's seed does not change it.

    Returns:
        For each prefix of train_ and test_: images (N, 28, 28) uint8, white on black; labels (N,)
        int64; angles (N,) float32 in degrees, -45 to 45, positive leaning right.

    Raises:
        ValueError: if images_per_class is odd or not positive.
    """
    if images_per_class < 2 or images_per_class % 2:
        raise ValueError(f"images_per_class: {images_per_class} is not a positive even number")
    generator = np.random.default_rng(seed)
    arrays = {}
    for split in ("train", "test"):
        # Shuffled below: a loader that keeps the order still mixes the classes.
        labels = np.repeat(np.arange(10), images_per_class // 2)
        generator.shuffle(labels)
        angles = generator.integers(-LARGEST_ANGLE, LARGEST_ANGLE, labels.size, endpoint=True)
        images = [
            _image(generator, *pair) for pair in zip(labels.tolist(), angles.tolist(), strict=True)
        ]
        arrays[f"{split}_images"] = np.stack(images)
        arrays[f"{split}_labels"] = labels.astype(np.int64)
        arrays[f"{split}_angles"] = angles.astype(np.float32)
    return arrays


def _image(generator: np.random.Generator, label: int, angle: int) -> np.ndarray:
    """Draw one digit, (28, 28) uint8; the order of the draws is part of the dataset."""
    glyph = _glyph(FONTS[generator.integers(len(FONTS))], str(label))
    scale, shear = generator.uniform(0.8, 1.1), generator.uniform(-0.15, 0.15)
    shift = generator.uniform(-2.0, 2.0, 2) * _OVERSAMPLING
    blur = generator.uniform(0.0, 0.7) * _OVERSAMPLING
    side = SIZE * _OVERSAMPLING
    radians = np.deg2rad(angle)
    # The y axis points down, so this matrix rotates clockwise: a positive angle leans to the right.
    rotation = np.array([[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]])
    forward = rotation @ np.array([[1.0, -shear], [0.0, 1.0]]) * scale * side / _GLYPH_SIZE
    inverse = np.linalg.inv(forward)
    # Pillow's affine transform maps each pixel of the output to its origin in the input, hence the
    # inverse: https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.Image.transform
    offset = np.full(2, _GLYPH_SIZE / 2) - inverse @ (side / 2 + shift)
    coefficients = (*inverse[0], offset[0], *inverse[1], offset[1])
    bent = glyph.transform(
        (side, side), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR
    )
    return np.asarray(bent.filter(ImageFilter.GaussianBlur(blur)).reduce(_OVERSAMPLING))


# 200 glyphs for 10,000 images. `transform` returns a new image, so that a cached one stays.
@cache
def _glyph(font: str, character: str) -> Image.Image:
    """Draw a character in the centre of a canvas, with two thirds of its height."""
    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    drawn = ImageFont.truetype(path, size=_GLYPH_SIZE)
    left, top, right, bottom = drawn.getbbox(character)
    # A point size says nothing of a digit's height: measured first, so that all are equally tall.
    drawn = ImageFont.truetype(path, size=round(_GLYPH_SIZE * _GLYPH_SIZE * 0.66 / (bottom - top)))
    image = Image.new("L", (_GLYPH_SIZE, _GLYPH_SIZE))
    left, top, right, bottom = drawn.getbbox(character)
    position = ((_GLYPH_SIZE - left - right) / 2, (_GLYPH_SIZE - top - bottom) / 2)
    ImageDraw.Draw(image).text(position, character, fill=255, font=drawn)
    return image

"""Datasets: the same bytes from the same parameters, equal classes, angles of the right sign."""

import numpy as np
import pytest

from twinrun.data import digits, ratings

RATINGS = {"users": 200, "items": 100, "ratings": 8000, "rank": 4, "noise": 0.5}


@pytest.fixture(scope="module")
def arrays():
    return digits.make(images_per_class=40, seed=1)


def bytes_of(arrays):
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


def test_the_same_seed_gives_the_same_digits(arrays):
    assert bytes_of(digits.make(images_per_class=40, seed=1)) == bytes_of(arrays)
    assert bytes_of(digits.make(images_per_class=40, seed=2)) != bytes_of(arrays)


def test_digits_have_the_stated_types_and_equal_classes(arrays):
    for split in ("train", "test"):
        images, labels, angles = (
            arrays[f"{split}_{name}"] for name in ("images", "labels", "angles")
        )
        assert (images.dtype, images.shape) == (np.uint8, (200, 28, 28))
        assert (labels.dtype, angles.dtype) == (np.int64, np.float32)
        assert np.bincount(labels).tolist() == [20] * 10
        assert np.array_equal(angles, angles.round())
        assert (np.abs(angles) <= digits.LARGEST_ANGLE).all()
        # Every image shows something, on a black ground.
        assert (images.max((1, 2)) > 150).all()
        assert (np.median(images, (1, 2)) == 0).all()


def test_no_test_image_is_a_training_image(arrays):
    train = {image.tobytes() for image in arrays["train_images"]}
    assert not train & {image.tobytes() for image in arrays["test_images"]}


def lean(image):
    """Give the slope of the column over the height of a shape: positive leaning right."""
    rows, columns = np.nonzero(np.ones_like(image))
    weights = image.ravel() / image.sum()
    up, right = -(rows - weights @ rows), columns - weights @ columns
    return (weights @ (up * right)) / (weights @ up**2)


def test_a_positive_angle_leans_right(monkeypatch):
    monkeypatch.setattr(digits, "FONTS", ("DejaVuSans",))
    for seed in range(5):
        images = [
            digits._image(np.random.default_rng(seed), 1, angle) for angle in (-40, -20, 0, 20, 40)
        ]
        leans = [lean(image.astype(float)) for image in images]
        assert leans == sorted(leans)
        assert leans[0] < 0 < leans[-1]


@pytest.mark.parametrize("images_per_class", [0, -2, 3])
def test_an_impossible_number_of_digits_is_refused(images_per_class):
    with pytest.raises(ValueError, match=f"{images_per_class} is not a positive even number"):
        digits.make(images_per_class=images_per_class, seed=1)


def test_the_same_seed_gives_the_same_ratings():
    first, second = (ratings.make(**RATINGS, seed=1) for _ in range(2))
    assert bytes_of(first) == bytes_of(second)
    assert bytes_of(ratings.make(**RATINGS, seed=2)) != bytes_of(first)


def test_ratings_are_of_known_users_and_items_once_each():
    made = ratings.make(**RATINGS, seed=1)
    assert {name: array.dtype.name for name, array in made.items()} == {
        "users": "int64",
        "items": "int64",
        "ratings": "float32",
    }
    assert made["users"].max() < 200
    assert made["items"].max() < 100
    assert len(set(zip(made["users"].tolist(), made["items"].tolist(), strict=True))) == 8000


def test_ratings_without_noise_have_the_stated_rank():
    made = ratings.make(**{**RATINGS, "ratings": 200 * 100, "noise": 0.0}, seed=1)
    table = np.zeros((200, 100))
    table[made["users"], made["items"]] = made["ratings"]
    singular = np.linalg.svd(table, compute_uv=False)
    # What float32 rounds away is 1e-7 of the largest.
    assert singular[3] > 1e-2 * singular[0]
    assert singular[4] < 1e-5 * singular[0]


def test_noise_has_the_stated_standard_deviation():
    plain, noisy = (ratings.make(**{**RATINGS, "noise": n}, seed=1) for n in (0.0, 0.5))
    difference = noisy["ratings"] - plain["ratings"]
    # 8,000 draws: standard errors 0.5 / sqrt(16,000) = 0.004 and 0.5 / sqrt(8,000) = 0.0056; five.
    assert abs(difference.std() - 0.5) < 0.02
    assert abs(difference.mean()) < 0.03


def test_more_ratings_than_pairs_are_refused():
    with pytest.raises(ValueError, match="20001 is more than the 20000 pairs"):
        ratings.make(**{**RATINGS, "ratings": 20001}, seed=1)

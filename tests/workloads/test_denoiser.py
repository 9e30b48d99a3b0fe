"""The denoiser as published: its size, its pairs, its noise, its penalty."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from twinrun import artifacts
from twinrun.data import digits
from twinrun.workloads.denoiser import (
    Denoiser,
    DenoisingPairs,
    NoisyImages,
    psnr,
    salt_and_pepper,
    split_by_class,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = str(tmp_path_factory.mktemp("data") / "digits.npz")
    artifacts.write_arrays(file, digits.make(images_per_class=40, seed=1))
    return file


@pytest.fixture
def images():
    return np.random.default_rng(1).integers(0, 256, (12, 28, 28), dtype=np.uint8)


def pairs(dataset, epoch):
    size = len(dataset)
    return dataset.__getitems__(list(range(epoch * size, (epoch + 1) * size)))


def test_it_has_the_published_number_of_learnables():
    assert sum(p.numel() for p in Denoiser().parameters()) == 12_609
    assert next(Denoiser().parameters()).numel() == 72


def test_it_gives_images_in_0_to_1_of_the_same_shape():
    denoised = Denoiser()(torch.rand(3, 1, 32, 32) * 9 - 4)
    assert denoised.shape == (3, 1, 32, 32)
    assert denoised.min() >= 0
    assert denoised.max() <= 1


def test_weights_are_glorot_uniform_and_biases_zero():
    module = Denoiser()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        else:
            receptive = parameter[0, 0].numel()
            bound = (6 / (sum(parameter.shape[:2]) * receptive)) ** 0.5
            # Of 8 draws or more, one lies beyond half the bound but for a chance of 1 in 256.
            assert bound / 2 < parameter.abs().max() <= bound, name


def test_the_penalty_is_on_weights_only():
    module = Denoiser(learning_rate=0.5, weight_decay=0.25)
    decay = {
        id(p): group["weight_decay"]
        for group in module.configure_optimizers().param_groups
        for p in group["params"]
    }
    expected = {
        name: 0.25 if name.endswith("weight") else 0.0 for name, _ in module.named_parameters()
    }
    assert {name: decay[id(p)] for name, p in module.named_parameters()} == expected


def test_full_size_is_split_into_9500_250_250_within_each_class():
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 1000))
    parts = split_by_class(labels)
    assert [len(part) for part in parts] == [9500, 250, 250]
    assert sorted(np.concatenate(parts).tolist()) == list(range(10_000))
    for part in parts:
        assert set(np.bincount(labels[part])) == {len(part) // 10}


def test_noise_has_the_density_half_black_half_white():
    grey = np.full((1000, 1000), 128, dtype=np.uint8)
    draws = np.random.default_rng(1).random(grey.shape, dtype=np.float32)
    noisy = salt_and_pepper(grey, draws)
    # A million pixels: the standard error of a share of 0.025 is 0.00016; five of them.
    assert abs((noisy == 0).mean() - 0.025) < 0.0008
    assert abs((noisy == 255).mean() - 0.025) < 0.0008
    assert set(np.unique(noisy)) == {0, 128, 255}


def test_draws_decide_black_white_or_neither():
    draws = np.array([[0.0, 0.0249, 0.025, 0.0499, 0.05, 0.999]], dtype=np.float64)
    noisy = salt_and_pepper(np.full((1, 6), 7, dtype=np.uint8), draws)
    assert noisy.tolist() == [[0, 0, 255, 255, 7, 7]]


def brightest_quadrant(image):
    return int(functional.avg_pool2d(image, 16).flatten().argmax())


def test_both_images_of_a_pair_are_turned_alike():
    corner = np.zeros((40, 28, 28), dtype=np.uint8)
    corner[:, 2:10, 16:26] = 200
    noisy, clean = pairs(NoisyImages(corner, seed=(1, 1), turns=True), 0)
    corners = [brightest_quadrant(image) for image in clean]
    assert [brightest_quadrant(image) for image in noisy] == corners
    # Of 40 images, one of the four turns is missing with a chance of 4 * 0.75**40 = 4e-5.
    assert set(corners) == {0, 1, 2, 3}


def test_pairs_without_turns_are_upright(images):
    dataset = NoisyImages(images, seed=(1, 1), turns=False)
    _, first = pairs(dataset, 0)
    _, second = pairs(dataset, 1)
    assert torch.equal(first, second)


def test_each_image_is_scaled_by_its_own_minimum_and_maximum(images):
    faint = images // 4 + 20
    for batch in pairs(NoisyImages(faint, seed=(1, 1), turns=True), 0):
        assert (batch.shape, batch.dtype) == ((12, 1, 32, 32), torch.float32)
        assert (batch.amin((1, 2, 3)) == 0).all()
        assert (batch.amax((1, 2, 3)) == 1).all()


def test_noise_is_drawn_anew_each_epoch_and_the_same_in_every_repeat(images):
    noisy = [pairs(NoisyImages(images, seed=(1, 1), turns=False), epoch)[0] for epoch in (0, 1, 0)]
    assert not torch.equal(noisy[0], noisy[1])
    assert torch.equal(noisy[0], noisy[2])
    other, _ = pairs(NoisyImages(images, seed=(1, 2), turns=False), 0)
    assert not torch.equal(noisy[0], other)


def test_the_splits_draw_noise_of_their_own(path):
    data = DenoisingPairs(path=path, batch_size=10, seed=1)
    data.setup("fit")
    changed = [
        noisy != clean for noisy, clean in (pairs(d, 0) for d in (data.validation, data.test))
    ]
    assert not torch.equal(*changed)


def test_a_pair_does_not_depend_on_its_batch(images):
    dataset = NoisyImages(images, seed=(1, 1), turns=True)
    whole, _ = dataset.__getitems__([3, 4, 5])
    alone, _ = dataset.__getitems__([4])
    assert torch.equal(whole[1:2], alone)


def test_the_mean_of_the_inputs_is_that_of_the_first_epoch(path):
    data = DenoisingPairs(path=path, batch_size=50, seed=1)
    data.setup("fit")
    noisy, _ = pairs(data.training, 0)
    torch.testing.assert_close(data.training_mean, noisy.double().mean(0).float())


def test_the_last_partial_batch_of_training_is_left_out(path):
    data = DenoisingPairs(path=path, batch_size=150, seed=1)
    data.setup("fit")
    assert [len(noisy) for noisy, _ in data.train_dataloader()] == [150, 150]
    assert len(data.training) == 380
    assert [len(noisy) for noisy, _ in data.val_dataloader()] == [10]


def test_psnr_is_of_a_peak_of_1():
    clean = torch.zeros(2, 1, 4, 4)
    assert psnr(clean + 0.1, clean).item() == pytest.approx(20.0, abs=1e-4)
    apart = torch.stack([clean[0] + 0.1, clean[1] + 0.01])
    assert psnr(apart, clean).item() == pytest.approx(30.0, abs=1e-4)

"""The digits network as published: its size, its padding, its loss, its batches."""

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional

from twinrun import artifacts
from twinrun.data import digits
from twinrun.workloads.digits import DigitImages, Digits, accuracy


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = str(tmp_path_factory.mktemp("data") / "digits.npz")
    artifacts.write_arrays(file, digits.make(images_per_class=20, seed=1))
    return file


def data(path, batch_size=32):
    made = DigitImages(path=path, batch_size=batch_size, seed=1)
    made.setup("fit")
    return made


def test_it_has_the_published_number_of_learnables():
    assert sum(p.numel() for p in Digits().parameters()) == 84_075


def test_it_gives_ten_scores_and_an_angle_for_each_image():
    scores, degrees = Digits()(torch.rand(3, 1, 28, 28))
    assert scores.shape == (3, 10)
    assert degrees.shape == (3,)


def test_weights_are_glorot_uniform_and_biases_zero():
    layers = [m for m in Digits().modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == 6
    for layer in layers:
        fan_out, fan_in = layer.weight.shape[:2]
        bound = (6 / ((fan_in + fan_out) * layer.weight[0, 0].numel())) ** 0.5
        assert bound / 2 < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


def test_strided_convolutions_pad_at_the_bottom_and_right_only():
    """Light one pixel of the strided layers' input and see which outputs change."""
    branch, skip = Digits().branch[:2], Digits().skip[:1]

    def touched(layers, row, column):
        dark = torch.zeros(1, 16, 28, 28)
        lit = dark.clone()
        lit[..., row, column] = 1.0
        rows, columns = (layers(lit) - layers(dark)).abs().sum((0, 1)).nonzero(as_tuple=True)
        return set(rows.tolist()), set(columns.tolist())

    # Output r sees the inputs 2r, 2r + 1, 2r + 2: padded on top it would be one row earlier.
    assert touched(branch, 0, 0) == ({0}, {0})
    assert touched(branch, 1, 2) == ({0}, {0, 1})
    assert touched(branch, 27, 27) == ({13}, {13})
    assert touched(skip, 2, 4) == ({1}, {2})
    assert touched(skip, 27, 27) == (set(), set())


def test_the_loss_is_cross_entropy_and_a_twentieth_of_the_squared_degrees(path):
    module = Digits().double()
    module.log_dict = lambda *args, **kwargs: None
    images, labels, angles = next(iter(data(path).train_dataloader()))
    scores, degrees = module(images.double())
    picked = scores.log_softmax(1)[torch.arange(len(labels)), labels]
    half_mse = (degrees - angles).square().mean() / 2
    expected = -picked.mean() + 0.1 * half_mse
    loss = module.training_step((images.double(), labels, angles.double()), 0)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)


def test_the_training_step_compiles_without_a_break(path):
    """torch.compile's graph breaks are found by tracing; no code is generated."""
    module = Digits()
    module.log_dict = lambda *args, **kwargs: None
    batch = next(iter(data(path).train_dataloader()))
    # Not `explain`, which counts no break before the first or after the last operation.
    compiled = torch.compile(module.training_step, backend="eager", fullgraph=True)
    assert compiled(batch, 0) == module.training_step(batch, 0)
    torch._dynamo.reset()


def test_last_partial_batches_are_dropped_in_training_and_kept_in_prediction(path):
    made = data(path)
    assert [len(labels) for _, labels, _ in made.train_dataloader()] == [32, 32, 32]
    assert [len(labels) for _, labels, _ in made.predict_dataloader()] == [32, 32, 32, 4]


def test_images_are_scaled_to_0_1_and_keep_their_targets(path):
    images, labels, angles = next(iter(data(path, batch_size=100).predict_dataloader()))
    arrays = artifacts.read_arrays(path)
    assert (images.dtype, images.shape) == (torch.float32, (100, 1, 28, 28))
    assert torch.equal(
        (images * 255).round().to(torch.uint8)[:, 0], torch.tensor(arrays["test_images"])
    )
    assert labels.tolist() == arrays["test_labels"].tolist()
    assert angles.tolist() == arrays["test_angles"].tolist()


def test_metrics_are_of_the_whole_test_set(path):
    module, made = Digits(), data(path)
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False
    )
    metrics = trainer.test(module, made, verbose=False)[0]
    images, labels, angles = next(iter(data(path, batch_size=100).test_dataloader()))
    with torch.no_grad():
        scores, degrees = module.eval()(images)
    rmse = functional.mse_loss(degrees.double(), angles.double()).sqrt()
    # The batches are of 32 and 4: float32 sums in another order.
    assert metrics["test_angle_rmse"] == pytest.approx(rmse.item(), rel=1e-5)
    assert metrics["test_accuracy"] == pytest.approx(accuracy(scores, labels).item(), rel=1e-5)


def test_accuracy_is_the_share_of_right_answers():
    scores = torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    assert accuracy(scores, torch.tensor([1, 1, 1, 0])) == 0.75

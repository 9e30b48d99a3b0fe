"""The surface, its grids, and the one batch that is copied once."""

import math

import pytest
import pytorch_lightning as pl
import torch

from twinrun.workloads.peaks import Peaks, PeaksGrid, grid, peaks


def test_it_has_the_published_number_of_learnables():
    assert sum(p.numel() for p in Peaks().parameters()) == 171


@pytest.mark.parametrize(
    ("x1", "x2", "z"),
    [
        # Evaluated by hand: which of the three terms are left is what the point is chosen for.
        (0.0, 0.0, 3 * math.exp(-1) - math.exp(-1) / 3),
        (1.0, 0.0, -10 * (1 / 5 - 1) * math.exp(-1) - math.exp(-4) / 3),
        (0.0, 1.0, 3 * math.exp(-4) + 10 * math.exp(-1) - math.exp(-2) / 3),
        (0.0, -1.0, 3 - 10 * math.exp(-1) - math.exp(-2) / 3),
        (-1.0, 0.0, 12 * math.exp(-2) - 10 * 0.8 * math.exp(-1) - 1 / 3),
        # Where one power is not another: of 1 and -1 all odd ones are the same.
        (2.0, 0.0, 3 * math.exp(-5) - 10 * (2 / 5 - 8) * math.exp(-4) - math.exp(-9) / 3),
        (0.0, 2.0, 3 * math.exp(-9) + 10 * 32 * math.exp(-4) - math.exp(-5) / 3),
        (3.0, 0.0, 12 * math.exp(-10) - 10 * (0.6 - 27) * math.exp(-9) - math.exp(-16) / 3),
    ],
)
def test_the_surface_at_points_evaluated_by_hand(x1, x2, z):
    found = peaks(*torch.tensor([[x1], [x2]], dtype=torch.float64))
    assert found.item() == pytest.approx(z, rel=1e-14)


@pytest.mark.parametrize(
    ("points", "rows", "columns"), [(4, 2, 2), (100, 10, 10), (200, 10, 20), (40_000, 200, 200)]
)
def test_a_grid_is_as_square_as_its_number_of_points_allows(points, rows, columns):
    positions, z = grid(points)
    assert (positions.shape, z.shape) == ((points, 2), (points,))
    assert positions.dtype == z.dtype == torch.float32
    x1, x2 = positions.unbind(1)
    for values, count in ((x1, columns), (x2, rows)):
        torch.testing.assert_close(values.unique(), torch.linspace(-3, 3, count))
    assert len(positions.unique(dim=0)) == points
    torch.testing.assert_close(z, peaks(x1.double(), x2.double()).float())


@pytest.mark.parametrize("points", [-4, 0, 1, 7])
def test_what_is_no_grid_is_refused(points):
    with pytest.raises(ValueError, match=f"points: {points} is not the size of a grid"):
        PeaksGrid(points=points)


def test_an_epoch_is_one_step_over_all_points():
    data = PeaksGrid(points=200)
    ((positions, z),) = data.train_dataloader()
    assert (len(positions), len(z)) == (200, 200)
    ((positions, _),) = data.predict_dataloader()
    assert len(positions) == 40 * 40


def test_the_batch_is_moved_once_and_stays():
    """The device "meta" stands in for a GPU."""
    data, device = PeaksGrid(points=200), torch.device("meta")
    moved = []
    for _ in range(3):
        (batch,) = data.train_dataloader()
        moved.append(data.transfer_batch_to_device(batch, device, 0))
    assert moved[0][0].device == device
    assert all(batch[0] is moved[0][0] and batch[1] is moved[0][1] for batch in moved)


def test_the_batch_on_the_device_is_the_loaders_own_during_training():
    seen = []

    class Addresses(pl.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            seen.append([tensor.data_ptr() for tensor in batch])

    data = PeaksGrid(points=200)
    pl.Trainer(
        accelerator="cpu",
        max_epochs=3,
        callbacks=Addresses(),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Peaks(), datamodule=data)
    assert seen == [[tensor.data_ptr() for tensor in data.training[0]]] * 3


def test_the_training_step_compiles_without_a_break():
    module = Peaks()
    module.log = lambda *args, **kwargs: None
    # Not `explain`, which counts no break before the first or after the last operation.
    compiled = torch.compile(module.training_step, backend="eager", fullgraph=True)
    assert compiled(grid(100), 0) == module.training_step(grid(100), 0)
    torch._dynamo.reset()


def test_fifty_steps_bring_the_loss_below_the_variance():
    torch.manual_seed(2)
    module, (positions, z) = Peaks(), grid(200)
    optimizer = module.configure_optimizers()
    for _ in range(50):
        optimizer.zero_grad()
        loss = (module(positions) - z).square().mean()
        loss.backward()
        optimizer.step()
    assert loss < z.var() / 2

"""The order of training depends on seed and epoch alone."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from twinrun.workloads.order import EpochOrder, ResidentTensors, loader

SIZE = 50


def rows(order, epoch):
    order.set_epoch(epoch)
    return [index % SIZE for index in order]


def batches(dataset, order, *, epoch, workers=0):
    order.set_epoch(epoch)
    made = loader(dataset, order, batch_size=8, drop_last=True, workers=workers)
    return [batch[0].tolist() for batch in made]


def test_an_epoch_visits_every_row_once_and_names_its_number():
    order = EpochOrder(SIZE, seed=1)
    order.set_epoch(3)
    indices = list(order)
    assert sorted(indices) == list(range(3 * SIZE, 4 * SIZE))
    assert len(order) == SIZE


def test_seed_and_epoch_decide_the_order():
    order = EpochOrder(SIZE, seed=1)
    orders = [rows(order, 0), rows(order, 1), rows(EpochOrder(SIZE, seed=2), 0)]
    assert len({tuple(found) for found in orders}) == 3
    assert rows(EpochOrder(SIZE, seed=1), 1) == orders[1]


def test_an_order_is_drawn_from_other_numbers_than_what_a_dataset_draws():
    """To NumPy the seeds [1, 1] and [1, 1, 0] are one."""
    of_datasets = {
        tuple(np.random.default_rng([1, use, index]).permutation(SIZE).tolist())
        for use in (1, 2, 3)  # as the denoiser's: training, validation, test
        for index in range(4)
    }
    orders = {tuple(rows(EpochOrder(SIZE, seed=1), epoch)) for epoch in range(4)}
    assert not orders & of_datasets


def test_an_order_resumed_at_an_epoch_is_the_one_it_would_have_been():
    whole = EpochOrder(SIZE, seed=1)
    through = [rows(whole, epoch) for epoch in range(3)]
    assert rows(EpochOrder(SIZE, seed=1), 2) == through[2]


def test_nothing_draws_from_the_global_generator():
    dataset, order = ResidentTensors(torch.arange(SIZE)), EpochOrder(SIZE, seed=1)
    state = torch.get_rng_state()
    before = batches(dataset, order, epoch=1)
    assert torch.equal(torch.get_rng_state(), state)
    # Another loader, as validation has, moves the global generator and not this order.
    list(DataLoader(TensorDataset(torch.arange(SIZE)), shuffle=True))
    assert not torch.equal(torch.get_rng_state(), state)
    assert batches(dataset, order, epoch=1) == before
    torch.set_rng_state(state)


def test_batches_hold_the_rows_of_the_order():
    values = torch.arange(SIZE) * 10
    order = EpochOrder(SIZE, seed=1)
    found = batches(ResidentTensors(values), order, epoch=2)
    assert len(found) == SIZE // 8
    flat = [value for batch in found for value in batch]
    assert flat == [10 * row for row in rows(order, 2)][: 8 * (SIZE // 8)]
    assert batches(ResidentTensors(values), order, epoch=2, workers=2) == found


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match="batch_size"):
        loader(ResidentTensors(torch.arange(5)), range(5), batch_size=8, drop_last=True, workers=0)

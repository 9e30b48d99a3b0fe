"""Factors gathered by index: the arithmetic, the batches, and enough of them for the race."""

import numpy as np
import pytest
import torch
import yaml

from twinrun import artifacts
from twinrun.data import ratings
from twinrun.workloads.factorization import Factorization, Ratings


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = str(tmp_path_factory.mktemp("data") / "ratings.npz")
    sizes = {"users": 30, "items": 20, "ratings": 400, "rank": 2, "noise": 0.1}
    artifacts.write_arrays(file, ratings.make(**sizes, seed=1))
    return file


def test_a_rating_is_the_product_of_factors_and_the_biases():
    module = Factorization(users=3, items=4, rank=2).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.rand_like(parameter))
    users, items = torch.tensor([2, 0, 2]), torch.tensor([1, 3, 1])
    tables = {name: p.detach().numpy() for name, p in module.named_parameters()}
    expected = [
        tables["user_factors"][u] @ tables["item_factors"][i]
        + tables["user_biases"][u]
        + tables["item_biases"][i]
        + tables["bias"]
        for u, i in zip(users, items, strict=True)
    ]
    np.testing.assert_allclose(module(users, items).detach().numpy(), expected, rtol=1e-14)


def test_validation_and_training_share_no_rating_and_lose_none(path):
    data = Ratings(path=path, batch_size=150, seed=1)
    data.setup("fit")
    training, validation = list(data.train_dataloader()), list(data.val_dataloader())
    assert [len(batch[0]) for batch in training] == [150, 150, 80]
    assert [len(batch[0]) for batch in validation] == [20]
    pairs = [
        pair
        for users, items, _ in training + validation
        for pair in zip(users.tolist(), items.tolist(), strict=True)
    ]
    assert len(set(pairs)) == 400


def test_a_full_size_batch_gathers_enough_to_race(pytestconfig):
    config = yaml.safe_load((pytestconfig.rootpath / "config.yaml").read_text())
    hyperparameters = config["workloads"]["factorization"]["hyperparameters"]
    assert hyperparameters["batch_size"] * hyperparameters["rank"] >= 2 * 32_768
    made = config["datasets"]["ratings"]["parameters"]
    assert (made["users"], made["items"]) == (hyperparameters["users"], hyperparameters["items"])

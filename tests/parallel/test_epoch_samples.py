"""How many samples an epoch has, and what sharding leaves out of it: in the record of the run."""

import pytest
from example_trainings import VARIANT, WORKLOAD, arguments
from torch.utils.data import DataLoader

from twinrun import artifacts
from twinrun.parallel.batch_sharding import sharded
from twinrun.parallel.epoch_samples import left_out, samples_drawn
from twinrun.parallel.workers import Workers
from twinrun.process.launching import environment_of, launch


def cut(loader, *, workers, sharding, scale=1):
    """Give what the last of some workers draws from, and the samples of all."""
    of_all = []
    for rank in range(workers):
        drawn, batches = sharded(
            loader,
            sharding=sharding,
            scale=scale,
            seed=1,
            workers=Alike(rank, workers),
        )
        of_all += [index for batch in drawn.batch_sampler for index in batch]
    return batches, of_all


class Alike(Workers):
    """A worker whose others would draw what it draws itself."""

    is_first = True

    def first(self, value):
        return value


@pytest.mark.parametrize(
    ("samples", "size", "workers", "lacking"), [(120, 3, 2, 30), (70, 8, 3, 7), (120, 4, 2, 0)]
)
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_partition_says_what_no_worker_trains_on(samples, size, workers, lacking, is_shuffled):
    """Red before: nothing said that a fourth of the samples is never trained on."""
    loader = DataLoader(range(samples), batch_size=size, shuffle=is_shuffled)
    batches, of_all = cut(loader, workers=workers, sharding="partitioned")
    assert len({*of_all}) == samples - lacking
    setting, said = left_out(batches)
    assert setting == "sharding"
    if not lacking:
        assert said is None
        return
    assert said.startswith(
        f"in part, sharding leaves {lacking} of {samples} samples out of an epoch: it ends for all"
    )
    assert ("without shuffling no epoch trains on them" in said) is not is_shuffled


def test_a_loader_that_drops_the_last_mini_batch_has_no_other_samples_in_one_process():
    loader = DataLoader(range(123), batch_size=4, drop_last=True)
    batches, of_all = cut(loader, workers=2, sharding="partitioned")
    assert len(of_all) == 120
    assert left_out(batches)[1] is None


def test_joined_mini_batches_that_are_dropped_are_named():
    loader = DataLoader(range(100), batch_size=10, drop_last=True)
    batches, of_all = cut(loader, workers=4, sharding="canonical", scale=4)
    assert len(of_all) == 80
    setting, said = left_out(batches)
    assert setting == "scale_batch_with_devices"
    assert "leaves 20 of 100 samples out of an epoch: they make no whole mini-batch" in said


@pytest.mark.parametrize(
    ("options", "steps", "samples"),
    [
        ({"batch_size": 16}, 5, 70),
        ({"batch_size": 16}, 2, 32),
        ({"batch_size": 16, "drop_last": True}, 4, 64),
        ({"batch_size": None}, 70, None),
        ({"batch_sampler": [[1, 2], [3]]}, 2, None),
    ],
)
def test_one_process_draws_what_its_sampler_gives(options, steps, samples):
    loader = DataLoader(range(70), **options)
    assert samples_drawn([loader], steps) == samples
    assert samples_drawn([loader, loader], steps) is None


@pytest.mark.exhaustive
def test_a_run_has_the_steps_and_samples_of_all_epoch_and_what_is_left_out(tmp_path):
    """Red before: its record had seconds alone, and no departure."""
    found = {}
    for name, devices, more in (
        ("one", 1, {"accumulate": 2}),
        ("parts", 3, {"sharding": "partitioned"}),
        ("scaled", 3, {"scale_batch_with_devices": True}),
    ):
        variant = {**VARIANT, "threads": 1, "devices": devices, **more}
        launch(
            "twinrun.training.train:train",
            arguments(tmp_path / name, {**WORKLOAD, "epochs": 2}, variant),
            environment_of(seed=1, deterministic=True, threads=1),
            workers=devices,
        )
        found[name] = artifacts.read_json(tmp_path / name / "run.json")
    of_epochs = {n: (r["seconds"]["steps"], r["seconds"]["samples"]) for n, r in found.items()}
    assert of_epochs == {
        "one": ([5, 5], [70, 70]),
        "parts": ([4, 4], [64, 64]),
        "scaled": ([2, 2], [70, 70]),
    }
    assert found["scaled"]["departures"] == []
    (said,) = found["parts"]["departures"]
    assert (said["setting"], said["in_part"]) == ("sharding", True)
    assert said["sentence"].startswith("in part, sharding leaves 6 of 70 samples out of an epoch")

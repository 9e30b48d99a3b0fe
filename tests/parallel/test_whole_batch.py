"""One network, several workers: real processes against arithmetic, and how they end.

The reference is a plain loop over the whole mini-batches, in float64. An epoch is five steps of 16
samples; two workers shard the last of 71 samples 4, 3, three that of 65 samples 1, 0, 0.
"""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from example_trainings import FILES, VARIANT, WORKLOAD, arguments
from small import Measured, Points, Small

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.parallel.exchange_times import covered
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.workers import Workers, connected
from twinrun.process.launching import environment_of, launch

EPOCHS = 4
# Bound on a wait; a loaded machine imports torch slowly.
PATIENCE_SECONDS = 60


def settings(
    devices=2,
    module="small:Small",
    data="small:Points",
    epochs=EPOCHS,
    variant=None,
    **hyperparameters,
):
    variant = {
        **VARIANT,
        "precision": "64-true",
        "threads": 1,
        "devices": devices,
        **(variant or {}),
    }
    hyperparameters = {**WORKLOAD["hyperparameters"], **hyperparameters}
    workload = {
        **WORKLOAD,
        "module": module,
        "data": data,
        "epochs": epochs,
        "hyperparameters": hyperparameters,
    }
    return workload, variant


def run(folder, **options):
    workload, variant = settings(**options)
    launch(
        "twinrun.training.train:train",
        arguments(folder, workload, variant),
        environment_of(seed=1, deterministic=True, threads=1),
        workers=variant["devices"],
    )
    return folder


def plain_loop(module, data, epochs=EPOCHS):
    """Train on whole mini-batches; give the losses and each step's batch."""
    optimizer = module.configure_optimizers()
    losses, batches = [], []
    train, val = data.train_dataloader(), data.val_dataloader()
    for _ in range(epochs):
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = (module(inputs.double()) - targets.double()).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            batches.append((inputs.double(), targets.double()))
        list(val)  # iterating a loader draws from the global generator
    return np.array(losses), batches


def reference(kind=Small, *, size):
    torch.manual_seed(1)
    data = Points(size=size, seed=1)
    module = kind(learning_rate=0.1).double()
    return module, *plain_loop(module, data)


def relative(left, right):
    return np.abs(np.asarray(left) / np.asarray(right) - 1).max()


def epoch_means(values, batches):
    """Average over the samples of each epoch."""
    sizes = np.array([len(inputs) for inputs, _ in batches]).reshape(EPOCHS, -1)
    return (np.reshape(values, sizes.shape) * sizes).sum(1) / sizes.sum(1)


@pytest.fixture(
    scope="module",
    params=[(3, 65), pytest.param((2, 71), marks=pytest.mark.exhaustive)],
    ids=["3 workers", "2 workers"],
)
def shared(request, tmp_path_factory):
    """A run of several workers, inside what looks like a Slurm job of one task; and its size."""
    devices, size = request.param
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"NTASKS": "1", "PROCID": "0", "LOCALID": "0", "JOB_NAME": "x"}.items():
            patch.setenv(f"SLURM_{name}", value)
        patch.setenv("LOCAL_RANK", "3")
        return run(folder, devices=devices, size=size), size


def test_shared_training_is_training_on_the_whole_mini_batch(shared):
    shared, size = shared
    module, losses, _ = reference(size=size)
    weights = artifacts.read_tensors(shared / "weights.safetensors")
    steps = pd.read_csv(shared / "steps.csv")
    assert len(steps) == len(losses) == 20
    assert relative(steps.loss, losses) < 1e-12
    for name, parameter in module.named_parameters():
        difference = weights[name] - parameter.detach().numpy()
        assert np.linalg.norm(difference) / np.linalg.norm(weights[name]) < 1e-12, name


def test_logged_metrics_are_the_whole_sets(shared):
    shared, size = shared
    module, losses, batches = reference(size=size)
    epochs = pd.read_csv(shared / "epochs.csv")
    assert relative(epochs.train_loss, epoch_means(losses, batches)) < 1e-12
    data = Points(size=size, seed=1)
    with torch.no_grad():
        whole = (module(data.inputs.double()) - data.targets.double()).square().mean().item()
    assert relative(epochs.val_loss.iloc[-1], whole) < 1e-12
    assert relative(artifacts.read_json(shared / "run.json")["metrics"]["test_loss"], whole) < 1e-12


def test_the_manifest_tells_of_the_workers(shared):
    manifest = artifacts.read_json(shared[0] / "run.json")
    assert manifest["ended"] == "finished"
    assert (manifest["steps"], manifest["epochs"]) == (20, 4)
    seconds = manifest["seconds"]
    assert len(seconds["epochs"]) == len(seconds["communication"]) == 4
    for part, whole in zip(seconds["communication"], seconds["epochs"], strict=True):
        assert 0 < part < whole


@pytest.mark.exhaustive
@pytest.mark.parametrize("data_workers", [0, 1])
def test_what_is_drawn_outside_of_the_steps_is_what_one_worker_draws(tmp_path, data_workers):
    """Red before: each worker trained on samples of its own choice; a buffer ended the run."""
    options = {"module": "small:Masks", "data": "small:Splits", "size": 71}
    options["variant"] = {"data_workers": data_workers}
    one, two = (run(tmp_path / str(n), devices=n, **options) for n in (1, 2))
    weights, expected = (
        artifacts.read_tensors(each / "weights.safetensors") for each in (two, one)
    )
    for name, values in expected.items():
        assert np.linalg.norm(weights[name] - values) <= 1e-12 * np.linalg.norm(values), name
    epochs = [pd.read_csv(each / "epochs.csv") for each in (two, one)]
    assert relative(*epochs) < 1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", ["Clamps", "ClampsByHand"])
def test_what_a_backward_pass_clamps_is_the_gradient_of_the_mini_batch(tmp_path, module):
    """Red before: that of a shard was clamped, M / m_j times as large, without a word."""
    options = {"module": f"small:{module}", "size": 71, "epochs": 2}
    one, three = (run(tmp_path / str(n), devices=n, **options) for n in (1, 3))
    weights, expected = (
        artifacts.read_tensors(each / "weights.safetensors") for each in (three, one)
    )
    for name, values in expected.items():
        assert np.linalg.norm(weights[name] - values) <= 1e-12 * np.linalg.norm(values), name


@pytest.mark.exhaustive
def test_hooks_that_are_given_the_loss_of_a_shard_are_named(tmp_path):
    """Red before: weights were others than one worker's, and nothing was said."""
    options = {"module": "goes_by_loss:GoesByLoss", "epochs": 1}
    one, two = (run(tmp_path / str(n), devices=n, **options) for n in (1, 2))
    weights = [artifacts.read_tensors(each / "weights.safetensors") for each in (one, two)]
    assert max(np.abs(weights[1][name] - each).max() for name, each in weights[0].items()) > 1e-6
    assert artifacts.read_json(one / "run.json")["departures"] == []
    departures = artifacts.read_json(two / "run.json")["departures"]
    assert {(said["setting"], said["in_part"]) for said in departures} == {("devices", True)}
    hooks, end, kept = (said["sentence"] for said in departures)
    assert "hooks (GoesByLoss.on_train_batch_end, Lasts.on_before_backward)" in hooks
    assert "of each shard" in hooks
    # Red before: nothing was said of these.
    assert "end where one shard asks for it (trainer.should_stop)" in end
    assert "what it makes of its own shards (GoesByLoss.weight)" in kept


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run of two workers with batch normalisation."""
    return run(tmp_path_factory.mktemp("measured") / "one", module="small:Measured", size=69)


def test_joined_running_statistics_are_the_whole_mini_batchs(measured):
    _, _, batches = reference(Measured, size=69)
    layer = torch.nn.BatchNorm1d(4, dtype=torch.float64)
    for inputs, _ in batches:
        layer(inputs)
    weights = artifacts.read_tensors(measured / "weights.safetensors")
    assert relative(weights["norm.running_mean"], layer.running_mean) < 1e-12
    assert relative(weights["norm.running_var"], layer.running_var) < 1e-12
    assert weights["norm.num_batches_tracked"] == 20


def test_every_kind_of_logged_value_is_the_whole_mini_batchs(measured):
    _, _, batches = reference(Measured, size=69)
    epochs = pd.read_csv(measured / "epochs.csv")
    positive = [(targets > 0).double().mean().item() for _, targets in batches]
    # The module takes its means in float32.
    assert relative(epochs.positive_epoch, epoch_means(positive, batches)) < 1e-6
    assert relative(epochs.positive_step, positive[4::5]) < 1e-6
    assert epochs.largest.tolist() == [max(t.max() for _, t in batches).item()] * EPOCHS


@pytest.mark.exhaustive  # tests/parallel/test_agreed_checkpoints.py compares two, too
def test_workers_repeat_what_they_did(measured, tmp_path):
    again = run(tmp_path, module="small:Measured", size=69)
    for name in ("weights", "steps", "epochs", "fingerprints", "predictions"):
        files = [folder / FILES[name] for folder in (measured, again)]
        assert files[0].read_bytes() == files[1].read_bytes(), name


@pytest.mark.exhaustive
def test_metrics_of_validation_and_test_are_of_the_whole_set_once(tmp_path):
    """Red before: torchmetrics summed 70 over two workers to 140, though each had seen all."""
    folder = run(tmp_path, module="small:Counting", epochs=1, size=70)
    epochs = pd.read_csv(folder / "epochs.csv").iloc[0]
    assert (epochs.seen, epochs.validated, epochs.by_itself) == (70, 70, 70)
    assert artifacts.read_json(folder / "run.json")["metrics"]["tested"] == 70
    # Red before: the first worker's own.
    assert epochs.target == pytest.approx(float(Points(size=70, seed=1).targets.mean()), rel=1e-5)


@pytest.mark.exhaustive
def test_what_one_worker_logs_is_joined(tmp_path):
    """Red before: the other one waited for half an hour."""
    run(tmp_path, module="small:LogsInOne", epochs=2, size=70)
    epochs = pd.read_csv(tmp_path / "epochs.csv")
    # The last mini-batch, of index 4, has 6 samples: 3 for each worker; the others have 16.
    assert epochs.at_start.tolist()[0] == 3
    assert epochs.step.tolist() == epochs.at_end.tolist() == [4, 4]
    assert epochs["first"].tolist() == [1, 1]
    assert epochs["mean"].tolist() == pytest.approx([16 / 35] * 2)
    assert epochs["sum_epoch"].tolist() == [10, 10]
    assert epochs.largest.tolist() == [-1, -1]
    assert epochs.alone.tolist() == [5, 5]
    assert epochs.epoch_end.tolist() == [7, 7]
    assert epochs.of_callback.tolist() == [0.5, 0.5]
    assert epochs.of_one_callback.tolist() == [9, 9]
    # Red before: each worker's own next value was another one's.
    difference = epochs.first_target1_epoch - epochs.first_target0_epoch
    assert difference.tolist() == pytest.approx([1, 1], rel=1e-5)
    assert artifacts.read_json(tmp_path / "run.json")["steps"] == 10


@pytest.mark.exhaustive
def test_a_metric_that_one_worker_logs_is_refused(tmp_path):
    """Red before: its end of the epoch waited for the other's."""
    with pytest.raises(TwinrunError, match="only some workers log seen in training_step"):
        run(tmp_path, module="small:LogsAMetricInOne", epochs=1)


@pytest.mark.exhaustive
def test_buffers_that_diverge_after_the_first_step_end_the_run(tmp_path):
    """Red before: it was looked at after the first step alone."""
    with pytest.raises(TwinrunError, match="every worker computes the buffer mean from its own"):
        run(tmp_path, module="small:LateMean", epochs=1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", ["Unfreezing", "Freezing"])
def test_other_parameters_under_way_are_refused_when_they_come(tmp_path, module):
    """Red before: refused after the whole training, or told to freeze what is frozen."""
    with pytest.raises(TwinrunError, match=r"hidden\.bias was frozen, unfrozen, added or taken"):
        run(tmp_path, module=f"small:{module}", epochs=3)


@pytest.mark.exhaustive
def test_parameters_may_have_other_names_under_way(tmp_path):
    """Red before: refused, as frozen or unfrozen."""
    one, two = (
        artifacts.read_tensors(folder / "weights.safetensors")
        for folder in (
            run(tmp_path / f"{devices}", module="small:Pruning", epochs=3, devices=devices)
            for devices in (1, 2)
        )
    )
    assert "hidden.bias_orig" in one
    assert all(np.abs(one[name] - two[name]).max() < 1e-12 for name in one)


@pytest.mark.exhaustive
def test_weights_that_only_an_optimizer_holds_are_refused(tmp_path):
    """Red before: each worker trained its own, and the run was written."""
    with pytest.raises(TwinrunError, match="an optimizer trains parameters that Hiding does not"):
        run(tmp_path, module="small:Hiding", epochs=1)


@pytest.mark.exhaustive
def test_who_asks_for_the_training_data_finds_all_of_it(tmp_path):
    """Red before: a look ended the run, or held it up; validation and test saw a half."""
    folder = run(tmp_path, module="small:LooksAtData", data="small:OneLoader", epochs=2, size=70)
    epochs = pd.read_csv(folder / "epochs.csv").iloc[-1]
    assert (epochs.steps, epochs.least) == (5, 70)
    (predicted,) = artifacts.read_tensors(folder / "predictions.safetensors").values()
    assert len(predicted) == 70
    test_loss = artifacts.read_json(folder / "run.json")["metrics"]["test_loss"]
    assert test_loss == pytest.approx(epochs.val_loss, rel=1e-12)


@pytest.mark.exhaustive
def test_partitioned_training_ends_with_the_first_that_has_run_out(tmp_path):
    variant = {"sharding": "partitioned", "scale_batch_with_devices": True}
    # Parts of 35 in shards of 16.
    run(tmp_path, variant=variant, epochs=2)
    assert artifacts.read_json(tmp_path / "run.json")["steps"] == 6


@pytest.mark.exhaustive
def test_a_layer_that_one_worker_leaves_out_is_refused(tmp_path):
    """Red before: the other one waited for its gradients, without end."""
    with pytest.raises(TwinrunError, match=r"left out by chance \(LayerDrop, .*each worker draws"):
        run(tmp_path, module="small:LeavesOut", epochs=1, size=70)


def test_a_world_of_another_size_is_refused():
    with (
        pytest.raises(TwinrunError, match="the variant wants 2 workers, but 1 started"),
        connected(devices=2, nodes=1, accelerator="cpu"),
    ):
        pass


@pytest.mark.exhaustive
def test_a_failure_of_one_worker_is_told_once_and_ends_all(tmp_path):
    with pytest.raises(TwinrunError, match=r"^KeyError: 'weight'$"):
        run(tmp_path, module="small:Measured", fails_at=3)
    assert not (tmp_path / "run.json").exists()
    assert not psutil.Process().children(recursive=True)


def slow(folder, **options):
    """Settings of a run that takes as long as the test wants, and tells each worker's steps."""
    file = str(folder / "steps")
    return settings(module="small:Measured", epochs=10000, steps_file=file, pause=0.02, **options)


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def start(folder, **options):
    """Launch a slow run from a process of its own; wait until it trains."""
    workload, variant = slow(folder, **options)
    call = {
        "function": "twinrun.training.train:train",
        "arguments": arguments(folder, workload, variant),
        "environment": environment_of(seed=1, deterministic=True, threads=1),
        "workers": variant["devices"],
    }
    code = (
        "import json, sys; from twinrun.errors import TwinrunError\n"
        "from twinrun.process.launching import launch\n"
        "try: launch(**json.load(sys.stdin))\n"
        "except TwinrunError as error: sys.exit(str(error))"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    json.dump(call, launcher.stdin)
    launcher.stdin.close()
    wait_for((folder / "steps.0").exists, "the first step")
    return launcher, psutil.Process(launcher.pid).children(recursive=True)


def ended(launcher, workers):
    """Wait for the end; give the last line of what was said."""
    said = launcher.stderr.read()
    launcher.wait(PATIENCE_SECONDS)
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    assert not alive
    return said.strip().split("\n")[-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("request_stop", "devices"), [(signal.SIGTERM, 2), ("file", 2), (signal.SIGINT, 1)]
)
def test_a_stop_ends_all_workers_after_the_same_step(tmp_path, request_stop, devices):
    launcher, workers = start(tmp_path, devices=devices)
    if request_stop == "file":
        (tmp_path / "STOP").touch()
    else:
        launcher.send_signal(request_stop)
    sentence = ended(launcher, workers)
    folder, reason = tmp_path, "the file STOP was found"
    if request_stop != "file":  # to be trained again: nothing lies where Snakemake would find it
        folder, reason = tmp_path / "stopped", request_stop.name
        assert sentence.startswith(f"stopped: {reason} after step ")
        assert not (tmp_path / "run.json").exists()
    assert launcher.returncode == (request_stop != "file")
    manifest = artifacts.read_json(folder / "run.json")
    assert manifest["ended"] == f"stopped: {reason}"
    steps = manifest["steps"]
    assert steps >= 1
    counts = [int((tmp_path / f"steps.{rank}").read_text()) for rank in range(devices)]
    assert counts == [steps] * devices
    assert len(pd.read_csv(folder / "steps.csv")) == steps
    assert artifacts.read_tensors(folder / "weights.safetensors")["calls"] == steps
    assert not (tmp_path / "STOP").exists()


@pytest.mark.exhaustive
def test_a_second_request_ends_the_workers_at_once(tmp_path):
    launcher, workers = start(tmp_path, devices=1)
    psutil.Process(workers[0].pid).suspend()  # it cannot stop in good order
    for _ in range(2):
        launcher.send_signal(signal.SIGINT)
        time.sleep(0.5)
    assert ended(launcher, workers) == "twinrun.training.train:train was ended before it was done"
    assert launcher.returncode == 1


@pytest.mark.exhaustive
def test_a_killed_worker_ends_the_job_with_a_sentence(tmp_path):
    launcher, workers = start(tmp_path)
    (second,) = [p for p in workers if p.environ().get("RANK") == "1"]
    second.send_signal(signal.SIGKILL)
    sentence = ended(launcher, workers)
    assert launcher.returncode == 1
    assert sentence.startswith("worker 2 of 2 of twinrun.training.train:train was ended by SIGKILL")
    assert not (tmp_path / "run.json").exists()


def test_curves_are_left_for_tensorboard(measured):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(measured / "tensorboard"))
    events.Reload()
    assert {"loss", "train_loss", "val_loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("train_loss")] == [5, 10, 15, 20]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gradients_on_a_gpu_are_weighted_and_timed(tmp_path):
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        workers = Workers()
        workers.sizes = [4]
        whole_batch = WholeBatch(workers, [], None, None)
        gradients = torch.rand(2**20, device="cuda")
        assert torch.equal(whole_batch.weighted_sum(gradients.clone()).wait(), gradients)
        whole_batch.end_step()
        assert whole_batch.seconds() > 0
        assert whole_batch.seconds() == 0
    finally:
        torch.distributed.destroy_process_group()


def test_time_covered_by_overlapping_intervals_counts_once():
    assert covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.5, 5.75)]) == 4.0
    assert covered([]) == 0.0


@pytest.mark.exhaustive
def test_several_workers_that_would_take_other_steps_than_asked_for_are_refused(tmp_path):
    """What they would be compared with is a training on all mini-batches."""
    with pytest.raises(TwinrunError, match=r"on_train_batch_start of SkipsSteps ends an epoch"):
        run(tmp_path, module="small:SkipsSteps", size=71)
    assert not (tmp_path / "run.json").exists()

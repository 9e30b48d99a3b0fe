"""What differed first is named, in the order of cause and effect, with the class of its cause."""

from typing import get_args

import numpy as np
import pytest
import torch
from comparing import compared
from example_runs import STEPS_PER_EPOCH, seal, with_settings, write_run

from twinrun import artifacts
from twinrun.comparison.causes import CAUSE_OF_QUANTITY, CAUSES
from twinrun.comparison.conditions import conditions
from twinrun.comparison.first_difference import WORDS
from twinrun.comparison.pair_records import Cause, Quantity
from twinrun.comparison.tables import INITIAL, QUANTITIES
from twinrun.comparison.trace_words import SHARDS_APART
from twinrun.trace.hash_kinds import KIND, UNLIKE_ROWS, HashKinds, kind_of_shards
from twinrun.trace.spool import Spool

# What is planted at step 2, in the order of cause and effect; what is named, and its class.
CASCADE = [
    ("before", None, "parameters before the step", "between steps"),
    ("buffers_before", None, "buffers before the step", "between steps"),
    ("random", "numpy", "RNG states", "RNG state"),
    ("batch", None, "content of the batch", "data content"),
    ("random_after", "torch", "RNG states after the step", "RNG state"),
    ("buffers", "norm.mean", "buffers", "forward"),
    ("loss", None, "loss", "forward"),
    ("own_gradients", None, "workers' own gradients", "backward"),
    ("gradients", "encoder.bias", "gradients", "backward"),
    ("optimizer", "head.weight", "optimizer state", "optimizer"),
    ("parameters", "encoder.weight", "parameters", "optimizer"),
]
BUFFERS = {"norm.mean": torch.zeros(2), "norm.var": torch.ones(2)}


def first_difference(folder, planted, **options):
    """Compare a run with one that has planted differences; all of the later ones follow."""
    runs = [
        write_run(folder, 1, buffers=BUFFERS, **options),
        write_run(folder, 2, buffers=BUFFERS, planted=planted, **options),
    ]
    summary, _, _ = compared(folder, *runs)
    assert summary["answer"] == "differs"
    return summary["first_difference"]


@pytest.mark.parametrize("index", range(len(CASCADE)), ids=[row[0] for row in CASCADE])
def test_first_difference_is_the_first_cause(tmp_path, index):
    planted = [(2, quantity, tensor) for quantity, tensor, _, _ in CASCADE[index:]]
    _, tensor, words, cause = CASCADE[index]

    assert first_difference(tmp_path, [*planted, (3, "before", None)]) == {
        "repeat": 2,
        "step": 2,
        "epoch": 1,
        "quantity": words,
        "tensor": tensor,
        "cause": cause,
    }


def test_what_differs_before_the_first_step_comes_first(tmp_path):
    planted = [(1, "loss", None), (0, "initial", "encoder.bias")]
    assert first_difference(tmp_path, planted) == {
        "repeat": 2,
        "step": 0,
        "epoch": 0,
        "quantity": "initial parameters",
        "tensor": "encoder.bias",
        "cause": "initial weights",
    }


def test_gradients_that_diverge_between_workers_are_the_exchanges(tmp_path):
    several = {"changes": {"settings.variant.devices": 2}}
    found = first_difference(tmp_path, [(4, "gradients", "head.weight")], **several)
    assert found["cause"] == "collective"


@pytest.mark.parametrize(
    ("devices", "change", "answer"),
    [
        (1, {"settings.variant.devices": 2}, "equal"),
        (2, {"settings.variant.sharding": "partitioned"}, "equal"),
        (2, {"settings.variant.precision": "bf16-mixed"}, "differs"),
    ],
)
def test_workers_own_gradients_count_where_their_samples_are_the_same(
    tmp_path, devices, change, answer
):
    """One worker has none, and those of other shards are others: the sums over them count."""
    both = {"settings.variant.devices": devices}
    planted = [(step, "own_gradients", None) for step in range(1, 7)]
    runs = [
        write_run(tmp_path, 1, changes=both),
        write_run(tmp_path, 2, planted=planted, changes=both | change | {"variant": "other"}),
    ]
    summary, _, _ = compared(tmp_path, *runs, across=True)
    assert summary["answer"] == answer
    assert (summary["first_difference"] is None) == (answer == "equal")


SAMPLES = np.arange(6 * 4, dtype=np.uint64).reshape(6, 4)


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        pytest.param(SAMPLES[:, ::-1], "order", id="reversed inside each batch"),
        pytest.param(SAMPLES[[1, 0, 2, 3, 4, 5]], "order", id="swapped batches"),
        pytest.param(SAMPLES[[3, 1, 2, 0, 4, 5]], "content", id="of another epoch"),
        pytest.param(SAMPLES + (SAMPLES == 0) * np.uint64(99), "content", id="one sample"),
        pytest.param(SAMPLES.T.reshape(6, 4), "content", id="shuffled over epochs"),
    ],
)
def test_another_order_is_told_from_another_content(tmp_path, samples, kind):
    runs = [
        write_run(tmp_path, 1, samples=SAMPLES),
        write_run(tmp_path, 2, samples=samples, planted=[(1, "batch", None)]),
    ]
    summary, _, _ = compared(tmp_path, *runs)
    found = summary["first_difference"]
    assert (found["quantity"], found["cause"]) == (f"{kind} of the batch", f"data {kind}")


@pytest.mark.parametrize(
    ("of_other", "cause"),
    [
        ({"whole_epochs": 1}, "data content"),
        ({"whole_epochs": 0}, "data order or content"),
    ],
)
def test_of_an_epoch_that_was_not_whole_other_samples_may_be_another_order(
    tmp_path, of_other, cause
):
    """Red before: with `max_steps` a shuffle without a seed was called another content."""
    runs = [
        write_run(tmp_path, 1, samples=SAMPLES),
        write_run(
            tmp_path, 2, samples=SAMPLES + 900, planted=[(1, "batch", None)], changes=of_other
        ),
    ]
    summary, _, _ = compared(tmp_path, *runs)
    found = summary["first_difference"]
    assert (found["quantity"], found["cause"]) == ("content of the batch", cause)


def noted_as(run, quantity, kind, step):
    """Write a kind of a quantity from a step on."""
    arrays = artifacts.read_arrays(run.with_name("fingerprints.npz"))
    kinds = HashKinds(Spool(KIND))
    kinds.note(step, {quantity: kind})
    artifacts.write_arrays(run.with_name("fingerprints.npz"), arrays | kinds.arrays())
    seal(run.parent)
    return run


@pytest.mark.parametrize(
    ("of", "quantity", "step", "cause"),
    [
        ((2,), UNLIKE_ROWS, 3, "data order or content"),
        ((1,), UNLIKE_ROWS, 2, "data order or content"),
        ((2,), UNLIKE_ROWS, 4, "data content"),  # in the next epoch
        ((1, 2), "samples", 1, "data order or content"),
        ((2,), "samples", 2, "data content"),
    ],
)
def test_samples_that_are_padded_to_others_are_not_called_other_ones(
    tmp_path, of, quantity, step, cause
):
    """Red before: padded to another length a sample in another batch was another content."""
    kind = 1 if quantity == UNLIKE_ROWS else kind_of_shards(2)
    runs = []
    for n, samples in ((1, SAMPLES), (2, SAMPLES + 900)):
        planted = [(1, "batch", None)] if n == 2 else []
        run = write_run(tmp_path, n, samples=samples, planted=planted)
        runs.append(noted_as(run, quantity, kind, step) if n in of else run)
    found = compared(tmp_path, *runs)[0]["first_difference"]
    assert (found["quantity"], found["cause"]) == ("content of the batch", cause)


@pytest.mark.parametrize(
    ("quantity", "tensor", "cause"),
    [
        ("random_after", "torch", "data not compared"),
        ("loss", None, "data not compared"),
        ("gradients", "head.weight", "data not compared"),
        ("before", None, "between steps"),
        ("parameters", "head.weight", "optimizer"),
    ],
)
def test_beside_shards_that_make_no_batch_the_data_are_not_known(tmp_path, quantity, tensor, cause):
    runs = [write_run(tmp_path, n, planted=[(2, quantity, tensor)] * (n == 2)) for n in (1, 2)]
    noted_as(runs[1], "batch", kind_of_shards(2), 2)
    found = compared(tmp_path, *runs)[0]
    first = found["first_difference"]
    assert (first["step"], first["cause"]) == (2, cause)
    assert "since" not in first
    assert SHARDS_APART.format(steps="5 steps") in conditions(found)


@pytest.mark.parametrize(
    ("moved", "kind"), [(1, "content"), (2, "content"), (3, "order"), (4, "order")]
)
def test_most_samples_decide_whether_it_is_the_order(tmp_path, moved, kind):
    """Of the four samples of the first batch some come in the second one, the others never."""
    samples = SAMPLES.copy()
    samples[0] = 900 + np.arange(4)
    samples[1, :moved] = SAMPLES[0, :moved]
    runs = [
        write_run(tmp_path, 1, samples=SAMPLES),
        write_run(tmp_path, 2, samples=samples, planted=[(1, "batch", None)]),
    ]
    summary, _, _ = compared(tmp_path, *runs)
    assert summary["first_difference"]["quantity"] == f"{kind} of the batch"


def test_of_several_gradients_the_one_nearest_the_loss_is_named(tmp_path):
    planted = [(4, "gradients", "encoder.weight"), (4, "gradients", "encoder.bias")]
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, planted=planted)]

    summary, _, _ = compared(tmp_path, *runs)

    assert summary["first_difference"]["tensor"] == "encoder.bias"


def test_the_setting_that_differs_is_named_with_both_values(tmp_path):
    names = ["learning rate of group 0", "momentum of group 0"]
    same = [(1, 0, 0.1), (1, 1, float("nan"))]
    first, second = (
        with_settings(write_run(tmp_path, repeat), names, *same, (3, 0, rate), (4, 1, 0.9))
        for repeat, rate in ((1, 0.01), (2, 0.010003))
    )
    summary, _, _ = compared(tmp_path, first, second)
    assert summary["first_difference"] == {
        "repeat": 2,
        "step": 3,
        "epoch": 1,
        "quantity": "optimizer settings",
        "tensor": "learning rate of group 0",
        "cause": "optimizer",
        "values": [0.01, 0.010003],
    }


def test_a_group_that_one_run_lacks_has_no_values(tmp_path):
    names = ["learning rate of group 0", "learning rate of group 1"]
    first = with_settings(write_run(tmp_path, 1), names, (1, 0, 0.1), (2, 1, 0.1))
    second = with_settings(write_run(tmp_path, 2), names[:1], (1, 0, 0.1))
    summary, _, _ = compared(tmp_path, first, second)
    found = summary["first_difference"]
    assert (found["step"], found["tensor"], "values" in found) == (2, names[1], False)
    summary, _, _ = compared(tmp_path, second, first)
    found = summary["first_difference"]
    assert (found["quantity"], found["tensor"]) == ("optimizer settings", names[1])


def test_every_quantity_and_cause_is_one_that_a_record_may_name():
    """In the same order, since a replay asks which of two comes first."""
    assert get_args(Quantity) == tuple(CAUSE_OF_QUANTITY)
    assert get_args(Cause) == CAUSES
    assert WORDS.keys() == {*QUANTITIES, *INITIAL} - {"batch"}


@pytest.mark.parametrize("steps", [(3, 6), (6, 3), (1, 5)])
def test_of_trainings_of_unlike_length_the_first_step_that_one_lacks_is_named(tmp_path, steps):
    runs = [write_run(tmp_path, repeat, num_steps=n) for repeat, n in enumerate(steps, start=1)]
    summary, _, _ = compared(tmp_path, *runs)
    found = summary["first_difference"]
    assert (found["quantity"], found["cause"]) == ("number of steps", "end of the training")
    assert (found["step"], found["epoch"]) == (min(steps) + 1, 1 + min(steps) // STEPS_PER_EPOCH)

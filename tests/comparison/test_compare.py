"""Pairs with planted differences: what is equal, what differs, and by how much."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from comparing import compared
from example_runs import example_parameters, fail, write_run

from twinrun.comparison.compare import compare, compare_seeds
from twinrun.comparison.pair_records import read_comparisons
from twinrun.comparison.tables import STEP_COLUMNS
from twinrun.comparison.tensors import TENSOR_COLUMNS


def counts(tensors, elements, tensors_differing, elements_differing):
    return {
        "tensors": tensors,
        "elements": elements,
        "tensors_differing": tensors_differing,
        "elements_differing": elements_differing,
    }


def with_change(tensors, name, index, value):
    copy = {key: tensor.clone() for key, tensor in tensors.items()}
    copy[name][index] = value
    return copy


def test_the_runs_of_each_seed_are_compared_among_themselves(tmp_path):
    other = with_change(example_parameters(), "head.weight", (0, 0), 2.0)
    runs = [
        write_run(tmp_path / str(seed), repeat, changes={"seed": seed}, parameters=parameters)
        for repeat in (1, 2)
        for seed in (3, 1)
        for parameters in [other if (seed, repeat) == (1, 2) else example_parameters()]
    ]
    files = {key: tmp_path / key for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files)
    summaries = read_comparisons(files["summary"])
    assert [(found["seed"], found["answer"]) for found in summaries] == [
        (3, "equal"),
        (1, "differs"),
    ]
    tensors, steps = (pd.read_csv(files[key]) for key in ("tensors", "steps"))
    assert tensors.columns.tolist() == ["seed", *TENSOR_COLUMNS]
    assert steps.columns.tolist() == ["seed", *STEP_COLUMNS]
    assert tensors.loc[~tensors["equal"], ["seed", "tensor"]].to_numpy().tolist() == [
        [1, "head.weight"]
    ]
    # Seed 3 and one run of seed 1 end in the same weights; no seed is named beside itself.
    assert [found["same_as_seeds"] for found in summaries] == [[1], [3]]
    # Trainings that broke may end in the same NaN, and were no less two. Red before.
    broken = {"no_result": "its weights are NaN"}
    for seed in (3, 1):
        changes = broken | {"seed": seed}
        runs_of_it = [write_run(tmp_path / f"broken{seed}", n, changes=changes) for n in (1, 2)]
        runs += runs_of_it
    compare_seeds(runs[4:], **{key: tmp_path / f"broken {key}" for key in files})
    of_broken = read_comparisons(tmp_path / "broken summary")
    assert [found["same_as_seeds"] for found in of_broken] == [[], []]
    alone = tmp_path / "alone"
    compare(
        [run for run in runs if "/1/" in str(run)],
        summary=alone,
        tensors=tmp_path / "t",
        steps=tmp_path / "s",
    )
    # Alone it knows nothing of the other seed, of which a run ends in the same weights.
    assert read_comparisons(alone) == [summaries[1] | {"same_as_seeds": []}]
    assert pd.read_csv(tmp_path / "t").equals(
        tensors[tensors["seed"] == 1].drop(columns="seed").reset_index(drop=True)
    )


def test_equal_runs(tmp_path):
    buffers = {"norm.num_batches_tracked": torch.tensor(6)}
    runs = [write_run(tmp_path, repeat, buffers=buffers) for repeat in (1, 2)]

    summary, tensors, steps = compared(tmp_path, *runs)

    assert summary == {
        "workload": "denoiser",
        "variant": "deterministic",
        "against": None,
        "seed": 1,
        "answer": "equal",
        "reason": None,
        "repeats": 2,
        "steps": 6,
        "parameters": counts(3, 36, 0, 0),
        "buffers": counts(1, 1, 0, 0),
        "max_abs": 0.0,
        "max_ulp": 0,
        "relative_l2": 0.0,
        "first_difference": None,
        "logged": {
            "answer": "equal",
            "compared": 4,
            "differing": 0,
            "measured": "0 of 4 values differ",
        },
        "metrics": None,
        "predictions": None,
        "resumed_at": [[], []],
        "compiler_cache": None,
        "is_untrained": False,
        "non_finite_loss": [None, None],
        "non_finite_parameters": [0, 0],
        "not_fingerprinted": [],
        "not_held": {},
        "departures": [],
        "same_as_seeds": [],
        "runs": [str(run.parent) for run in runs],
    }
    assert list(tensors.columns) == TENSOR_COLUMNS
    assert list(steps.columns) == STEP_COLUMNS
    assert tensors["equal"].all()
    assert tensors["shape"].tolist() == ["3x4"] * 3 + ["scalar"]
    assert steps.filter(like="_equal").all(axis=None)
    assert steps["epoch"].tolist() == [1, 1, 1, 2, 2, 2]
    assert (steps[["loss_difference", "relative_l2"]] == 0).all(axis=None)


def test_runs_that_differ_everywhere(tmp_path):
    first = {"weight": torch.full((2, 2), 3.0), "bias": torch.full((4,), 4.0)}
    second = {"weight": torch.full((2, 2), 3.0), "bias": torch.full((4,), 4.5)}
    sample = np.full((6, 4), 2.0)
    later = sample + np.arange(6)[:, None]
    runs = [
        write_run(tmp_path, 1, parameters=first, sample=sample),
        write_run(
            tmp_path,
            2,
            parameters=second,
            sample=later,
            planted=[(2, "gradients", "bias"), (2, "parameters", "bias"), (3, "loss", None)],
            losses=[1, 1, 0.75, 1, 1, 1],
        ),
    ]

    summary, tensors, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    assert summary["parameters"] == counts(2, 8, 1, 4)
    assert (summary["max_abs"], summary["max_ulp"]) == (0.5, 2**20)
    assert summary["relative_l2"] == pytest.approx(np.sqrt(4 * 0.25 / (4 * 9 + 4 * 16)), rel=1e-15)
    assert summary["first_difference"] == {
        "repeat": 2,
        "step": 2,
        "epoch": 1,
        "quantity": "gradients",
        "tensor": "bias",
        "cause": "backward",
    }
    assert tensors["share"].tolist() == [0, 1]
    assert steps["relative_l2"].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
    assert steps["loss_difference"][2] == 0.8 - 0.75
    assert not steps["gradients_equal"][1]


@pytest.mark.parametrize(
    ("dtype", "first", "second"),
    [
        pytest.param(torch.float32, [1.0, 2.0], [2.0, 1.0], id="swap of two values"),
        pytest.param(torch.float32, [0.0, 1.0], [-0.0, 1.0], id="sign of zero"),
        pytest.param(torch.bfloat16, [1.0, 2.0], [1.0, 2.015625], id="bfloat16"),
        pytest.param(torch.float16, [1.0, 2.0], [1.0, float("nan")], id="NaN"),
        pytest.param(torch.float64, [1.0, 2.0], [1.0, 2.0000000000000004], id="last place"),
        pytest.param(torch.float32, 1.0, 2.0, id="scalar"),
    ],
)
def test_planted_differences_of_parameters_are_found(tmp_path, dtype, first, second):
    runs = [
        write_run(tmp_path, repeat, parameters={"weight": torch.tensor(values, dtype=dtype)})
        for repeat, values in enumerate([first, second], start=1)
    ]
    summary, tensors, _ = compared(tmp_path, *runs)

    pairs = zip(np.atleast_1d(first), np.atleast_1d(second), strict=True)
    expected = sum(str(a) != str(b) for a, b in pairs)
    assert summary["answer"] == "differs"
    assert summary["parameters"]["elements_differing"] == expected
    assert summary["max_ulp"] >= 1
    assert tensors["dtype"].tolist() == [str(dtype).removeprefix("torch.")]


@pytest.mark.parametrize("bit", [0, 15, 31])
def test_one_flipped_bit_is_found(tmp_path, bit):
    first = example_parameters()
    second = {name: tensor.clone() for name, tensor in first.items()}
    second["head.weight"].numpy().view(np.uint32)[1, 1] ^= np.uint32(1 << bit)

    summary, _, _ = compared(
        tmp_path, *(write_run(tmp_path, r, parameters=p) for r, p in ((1, first), (2, second)))
    )
    assert summary["parameters"]["elements_differing"] == 1
    assert summary["answer"] == "differs"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_nan_with_another_payload_is_found(tmp_path, dtype):
    first = torch.tensor([float("nan"), 1.0], dtype=dtype)
    second = first.clone()
    second.view(torch.uint8)[0] ^= 1  # the least bit of the payload

    summary, _, _ = compared(
        tmp_path,
        *(write_run(tmp_path, r, parameters={"w": p}) for r, p in ((1, first), (2, second))),
    )
    assert summary["answer"] == "differs"
    assert summary["parameters"] == counts(1, 2, 1, 1)
    assert (summary["max_abs"], summary["max_ulp"]) == (float("inf"), 1)


def test_empty_and_integer_tensors_are_compared(tmp_path):
    parameters = {"weight": torch.ones(2), "none": torch.empty(0, 3)}
    runs = [
        write_run(tmp_path, repeat, parameters=parameters, buffers={"count": torch.tensor(values)})
        for repeat, values in enumerate([[-1, 2**62], [-1, 2**62 + 1]], start=1)
    ]
    summary, tensors, _ = compared(tmp_path, *runs)

    assert summary["parameters"] == counts(2, 2, 0, 0)
    assert summary["buffers"] == counts(1, 2, 1, 1)
    table = tensors.set_index("tensor")
    assert table.loc["none", ["shape", "elements", "equal"]].tolist() == ["0x3", 0, True]
    assert table.loc["count", ["dtype", "max_ulp", "max_abs"]].tolist() == ["int64", 1, 1.0]


def test_networks_that_became_the_same_nan_are_equal(tmp_path):
    parameters = {"weight": torch.full((3,), float("nan"))}
    broken = {"sample": np.full((6, 4), np.nan), "losses": [np.nan] * 6}
    runs = [write_run(tmp_path, r, parameters=parameters, **broken) for r in (1, 2)]

    summary, _, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "equal"
    assert (steps[["loss_difference", "relative_l2"]] == 0).all(axis=None)


def test_only_buffers_differ(tmp_path):
    runs = [
        write_run(tmp_path, repeat, buffers={"norm.num_batches_tracked": torch.tensor(count)})
        for repeat, count in ((1, 6), (2, 8))
    ]
    summary, tensors, _ = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    assert summary["parameters"]["elements_differing"] == 0
    assert summary["buffers"]["elements_differing"] == 1
    # Those of the parameters.
    assert (summary["max_abs"], summary["max_ulp"], summary["relative_l2"]) == (0, 0, 0)
    assert tensors["max_ulp"].tolist()[-1] == 2


def test_counts_are_those_of_the_worst_repeat(tmp_path):
    first = example_parameters()
    second = with_change(first, "head.weight", (0, 0), 9.0)
    third = with_change(with_change(first, "head.weight", 0, 8.0), "encoder.bias", (2, 3), 8.0)
    later, earlier = (3, "parameters", "head.weight"), (2, "parameters", "encoder.bias")
    runs = [
        write_run(tmp_path, 1, parameters=first),
        write_run(tmp_path, 2, parameters=second, planted=[later]),
        write_run(tmp_path, 3, parameters=third, planted=[later, earlier]),
    ]

    summary, tensors, steps = compared(tmp_path, *runs)

    assert summary["repeats"] == 3
    assert summary["parameters"] == counts(3, 36, 2, 5)
    assert summary["max_abs"] == 8
    flat, worst = (torch.cat([*p.values()]).double().numpy() for p in (first, third))
    expected = np.linalg.norm(worst - flat) / np.linalg.norm(flat)
    assert summary["relative_l2"] == pytest.approx(expected, rel=1e-12)
    assert (summary["first_difference"]["repeat"], summary["first_difference"]["step"]) == (3, 2)
    assert tensors.groupby("repeat")["elements_differing"].sum().to_dict() == {2: 1, 3: 5}
    assert steps["repeat"].tolist() == [2] * 6 + [3] * 6


@pytest.mark.parametrize("lengths", [(6, 4), (4, 6)])
def test_a_run_with_more_steps_differs(tmp_path, lengths):
    runs = [write_run(tmp_path, r, num_steps=n) for r, n in enumerate(lengths, start=1)]

    summary, _, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    place = {"repeat": 2, "step": 5, "epoch": 2}
    found = {"quantity": "number of steps", "tensor": None, "cause": "end of the training"}
    assert summary["first_difference"] == place | found
    assert len(steps) == 4


def test_weights_changed_after_the_last_step_differ_at_no_step(tmp_path):
    second = with_change(example_parameters(), "head.weight", (0, 0), 9.0)
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, parameters=second)]

    summary, _, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    assert summary["first_difference"] is None
    assert steps["parameters_equal"].all()


def test_comparing_does_without_torch():
    code = "import sys, twinrun.comparison.compare; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("across", [False, True])
def test_where_a_training_failed_there_is_nothing_to_compare(tmp_path, across):
    reason = "no reproducible algorithm for put_"
    runs = [write_run(tmp_path, 1), fail(write_run(tmp_path, 2), reason)]
    for pair in (runs, runs[::-1]):
        summary, tensors, steps = compared(tmp_path, *pair, across=across)
        key = "variant deterministic" if across else "repeat 2"
        assert (summary["answer"], summary["reason"]) == ("not run", f"{key} failed: {reason}")
        assert summary["parameters"] == summary["buffers"] == counts(0, 0, 0, 0)
        assert tensors.empty
        assert steps.empty


def test_the_seeds_without_a_failure_are_compared(tmp_path):
    runs = [write_run(tmp_path / f"{s}", n, changes={"seed": s}) for s in (1, 2) for n in (1, 2)]
    fail(runs[0], "no memory")
    files = {key: tmp_path / key for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files)
    found = [summary["answer"] for summary in read_comparisons(files["summary"])]
    assert found == ["not run", "equal"]
    assert set(pd.read_csv(files["tensors"])["seed"]) == {2}

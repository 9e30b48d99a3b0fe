"""Pairs with planted differences, refused pairs, and files that are not what their run wrote."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from example_runs import MANIFEST, example_parameters, seal, write_run

from twinrun import run_files
from twinrun.comparison.compare import STEP_COLUMNS, TENSOR_COLUMNS, compare, compare_seeds
from twinrun.errors import TwinrunError


def compared(folder, *runs):
    """Compare runs; give the summary, the table of tensors and the table of steps."""
    files = {
        "summary": folder / "seed1.json",
        "tensors": folder / "seed1.tensors.csv",
        "steps": folder / "seed1.steps.csv",
    }
    compare(runs, **files)
    summary = json.loads(files["summary"].read_text())
    return summary, pd.read_csv(files["tensors"]), pd.read_csv(files["steps"])


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


# Pairs


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
    summaries = json.loads(files["summary"].read_text())
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
    alone = tmp_path / "alone"
    compare(
        [run for run in runs if "/1/" in str(run)],
        summary=alone,
        tensors=tmp_path / "t",
        steps=tmp_path / "s",
    )
    assert json.loads(alone.read_text()) == summaries[1]
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


def test_empty_and_integer_tensors_are_held_against_each_other(tmp_path):
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
    assert table.loc["count", ["dtype", "max_ulp", "max_abs"]].tolist() == ["int64", 1, 0.0]


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


# What differed first


# What is planted at step 2, in the order of cause and effect; what is named, and its class.
CASCADE = [
    ("before", None, "parameters before the step", "initial weights"),
    ("random", "numpy", "random streams", "random stream"),
    ("batch", None, "content of the batch", "data content"),
    ("random_after", "torch", "random streams after the step", "random stream"),
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


@pytest.mark.parametrize("place", range(len(CASCADE)), ids=[row[0] for row in CASCADE])
def test_first_difference_is_the_first_cause(tmp_path, place):
    planted = [(2, quantity, tensor) for quantity, tensor, _, _ in CASCADE[place:]]
    _, tensor, words, cause = CASCADE[place]

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


def test_gradients_that_part_between_workers_are_the_exchanges(tmp_path):
    several = {"changes": {"settings.variant.devices": 2}}
    found = first_difference(tmp_path, [(4, "gradients", "head.weight")], **several)
    assert found["cause"] == "collective"


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


def test_of_several_gradients_the_one_nearest_the_loss_is_named(tmp_path):
    planted = [(4, "gradients", "encoder.weight"), (4, "gradients", "encoder.bias")]
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, planted=planted)]

    summary, _, _ = compared(tmp_path, *runs)

    assert summary["first_difference"]["tensor"] == "encoder.bias"


@pytest.mark.parametrize("lengths", [(6, 4), (4, 6)])
def test_a_run_with_more_steps_differs(tmp_path, lengths):
    runs = [write_run(tmp_path, r, num_steps=n) for r, n in enumerate(lengths, start=1)]

    summary, _, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    place = {"repeat": 2, "step": 5, "epoch": 2}
    found = {"quantity": "number of steps", "tensor": None, "cause": "data order"}
    assert summary["first_difference"] == place | found
    assert len(steps) == 4


def test_weights_changed_after_the_last_step_differ_at_no_step(tmp_path):
    second = with_change(example_parameters(), "head.weight", (0, 0), 9.0)
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, parameters=second)]

    summary, _, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "differs"
    assert summary["first_difference"] is None
    assert steps["parameters_equal"].all()


# Runs that are no pair


def leaves(mapping, path=""):
    for key, value in mapping.items():
        yield from leaves(value, f"{path}{key}.") if isinstance(value, dict) else [f"{path}{key}"]


IDENTITY = [
    *("workload", "variant", "seed", "data.sha256", "source_sha256", "settings.variant.new"),
    *leaves(MANIFEST["settings"], "settings."),
    *leaves(MANIFEST["environment"]["identity"], "environment.identity."),
]


@pytest.mark.parametrize("field", IDENTITY)
def test_runs_of_other_identity_are_refused(tmp_path, field):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, changes={field: "planted"})]

    summary, tensors, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "not comparable"
    named = field.replace("environment.identity.", "environment.")
    value = MANIFEST
    for key in field.split("."):
        value = value.get(key)
    assert summary["reason"] == (
        f"{named} is {value!r} in repeat 1 and 'planted' in repeat 2: the runs are no pair"
    )
    assert list(tensors.columns) == TENSOR_COLUMNS
    assert list(steps.columns) == STEP_COLUMNS
    assert len(tensors) == len(steps) == 0
    assert summary["first_difference"] is None
    assert summary["max_abs"] is summary["max_ulp"] is summary["relative_l2"] is None


def test_one_and_one_point_zero_are_two_settings(tmp_path):
    changes = [{"settings.workload.epochs": value} for value in (1, 1.0)]
    summary, _, _ = compared(
        tmp_path, *(write_run(tmp_path, r, changes=c) for r, c in enumerate(changes, start=1))
    )
    assert "settings.workload.epochs is 1 in repeat 1 and 1.0 in" in summary["reason"]


@pytest.mark.parametrize(
    "changes",
    [{"data.path": "elsewhere.npz"}, {"environment.context.host": "other"}],
)
def test_other_places_and_circumstances_are_no_reason(tmp_path, changes):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, changes=changes)]
    assert compared(tmp_path, *runs)[0]["answer"] == "equal"


def test_runs_without_a_dataset_are_a_pair_but_not_with_one_that_has(tmp_path):
    without = [write_run(tmp_path, repeat, changes={"data": None}) for repeat in (1, 2)]
    assert compared(tmp_path, *without)[0]["answer"] == "equal"

    summary, _, _ = compared(tmp_path, without[0], write_run(tmp_path, 3))
    assert summary["reason"].startswith("data is None in repeat 1 and {'sha256': 'ddd")


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (
            {"weight": torch.ones(3)},
            "tensors.weight is 'parameter float32 2' in repeat 1 and 'parameter float32 3' in",
        ),
        (
            {"weight": torch.ones(2, dtype=torch.bfloat16)},
            "tensors.weight is 'parameter float32 2' in repeat 1 and 'parameter bfloat16 2' in",
        ),
        (
            {"weight": torch.ones(2), "bias": torch.ones(())},
            "tensors.bias is None in repeat 1 and 'parameter float32 scalar' in repeat 2",
        ),
    ],
)
def test_networks_of_other_tensors_are_refused(tmp_path, second, reason):
    runs = [
        write_run(tmp_path, 1, parameters={"weight": torch.ones(2)}),
        write_run(tmp_path, 2, parameters=second),
    ]
    assert reason in compared(tmp_path, *runs)[0]["reason"]


@pytest.mark.parametrize("stopped", [1, 2])
def test_a_run_that_did_not_finish_is_refused(tmp_path, stopped):
    changes = {"ended": "stopped: asked to"}
    runs = [write_run(tmp_path, r, changes=changes if r == stopped else None) for r in (1, 2)]

    summary, _, _ = compared(tmp_path, *runs)

    assert summary["answer"] == "not comparable"
    expected = f"ended is 'stopped: asked to' in repeat {stopped}, not 'finished'"
    assert summary["reason"] == expected


def test_one_repeat_that_is_no_pair_refuses_all(tmp_path):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    runs.append(write_run(tmp_path, 3, changes={"source_sha256": "other"}))

    summary, tensors, _ = compared(tmp_path, *runs)

    assert "in repeat 3" in summary["reason"]
    assert tensors.empty


# Files that are not what their run wrote


FILES = ["weights.safetensors", "steps.csv", "fingerprints.npz"]


def damage_file(path, damage):
    path.write_bytes(damage(path.read_bytes()))


def last_bit_flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def middle_bit_flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def cut(content):
    return content[:-3]


def emptied(content):
    return b""


def without_a_column(content):
    return b"\n".join(line.rpartition(b",")[0] for line in content.splitlines())


def without_a_line(content):
    return b"\n".join(content.splitlines()[:-1])


def with_a_word(content):
    return content.replace(b"0.5,", b"much,")


@pytest.mark.parametrize("repeat", [1, 2])
@pytest.mark.parametrize("damage", [last_bit_flipped, middle_bit_flipped, cut, emptied])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_and_nothing_is_compared(tmp_path, name, damage, repeat):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[repeat - 1].parent / name, damage)

    with pytest.raises(TwinrunError, match=rf"repeat{repeat}.{name} is corrupt .*sha256"):
        compared(tmp_path, *runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repeat1", "repeat2"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    (runs[1].parent / name).unlink()
    with pytest.raises(TwinrunError, match=rf"repeat2.{name} is corrupt \(it is missing\)"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize(
    "damage", [cut, emptied, without_a_column, without_a_line, with_a_word, bytes.upper]
)
def test_damaged_steps_are_known_by_their_form(tmp_path, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[0].parent / "steps.csv", damage)
    seal(runs[0].parent)
    with pytest.raises(TwinrunError, match=r"repeat1.steps\.csv is corrupt.*delete its folder"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize("missing", ["initial", "gradients", "parameters", "sample", "names"])
def test_damaged_fingerprints_are_known_by_their_form(tmp_path, missing):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    path = runs[1].parent / "fingerprints.npz"
    with np.load(path) as file:
        np.savez(path, **{key: file[key] for key in file if key != missing})
    seal(path.parent)

    with pytest.raises(TwinrunError, match=r"repeat2.fingerprints\.npz is corrupt"):
        compared(tmp_path, *runs)


def test_fingerprints_of_other_steps_are_named(tmp_path):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    short = write_run(tmp_path, 3, num_steps=5)
    (short.parent / "fingerprints.npz").replace(runs[0].parent / "fingerprints.npz")
    seal(runs[0].parent)

    with pytest.raises(TwinrunError, match=r"repeat1.fingerprints\.npz is corrupt.* 6"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize("damage", [cut, emptied, lambda _: b"[]", lambda _: b"\xff"])
def test_a_damaged_manifest_is_named(tmp_path, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[1], damage)
    with pytest.raises(TwinrunError, match=r"repeat2.run\.json is corrupt"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize("missing", [*run_files.RUN_KEYS, "data.sha256", "tensors.1.dtype"])
def test_a_manifest_that_lacks_something_is_named(tmp_path, missing):
    """A whole file, with its hash in order, that another version wrote."""
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    manifest = place = json.loads(runs[0].read_text())
    *path, last = missing.split(".")
    for key in path:
        place = place[int(key) if isinstance(place, list) else key]
    del place[last]
    runs[0].write_text(json.dumps(manifest))
    seal(runs[0].parent)
    with pytest.raises(
        TwinrunError, match=rf"repeat1.run\.json is corrupt \({re.escape(missing)} is missing\)"
    ):
        compared(tmp_path, *runs)


def test_comparing_does_without_torch():
    code = "import sys, twinrun.comparison.compare; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def held_across(folder, **changes):
    """Hold a run of another variant, with further changes, against the first."""
    other = {"variant": "fast", "settings.variant": {"accelerator": "gpu"}, **changes}
    first, second = write_run(folder / "a"), write_run(folder / "b", changes=other)
    paths = {key: folder / f"found.{key}" for key in ("summary", "tensors", "steps")}
    compare([first, second], **paths, across=True)
    return json.loads(paths["summary"].read_text())


@pytest.mark.parametrize("changes", [{}, {"seed": 2}, {"environment.identity.cpu_capability": "X"}])
def test_across_variants_these_may_differ(tmp_path, changes):
    found = held_across(tmp_path, **changes)
    assert (found["answer"], found["variant"], found["against"]) == (
        "equal",
        "fast",
        "deterministic",
    )


@pytest.mark.parametrize(
    "changes",
    [{"data.sha256": "e" * 64}, {"settings.workload.epochs": 3}],
    ids=lambda changes: next(iter(changes)),
)
def test_across_variants_all_else_must_be_the_same(tmp_path, changes):
    found = held_across(tmp_path, **changes)
    assert found["answer"] == "not comparable"
    assert next(iter(changes)) in found["reason"]
    assert "in variant deterministic" in found["reason"]
    assert "in variant fast" in found["reason"]

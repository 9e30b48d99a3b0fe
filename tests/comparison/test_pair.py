"""What makes two runs a pair: each value that must be the same, changed in turn."""

import pytest
import torch
from comparing import compared
from example_runs import MANIFEST, write_run

from twinrun.comparison.tables import STEP_COLUMNS
from twinrun.comparison.tensors import TENSOR_COLUMNS


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
    planted = 99 if field == "seed" else "planted"
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, changes={field: planted})]

    summary, tensors, steps = compared(tmp_path, *runs)

    assert summary["answer"] == "not comparable"
    named = field.replace("environment.identity.", "environment.")
    value = MANIFEST
    for key in field.split("."):
        value = value.get(key)
    if "sha256" in field:  # of which nobody reads the end
        value = f"{value[:12]}..."
    assert summary["reason"] == (
        f"{named} is {value!r} in repeat 1 and {planted!r} in repeat 2: the runs are no pair"
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
            # Red before: the runs are no pair. But they are, and they do not repeat.
            "tensors.bias is None in repeat 1 and 'parameter float32 scalar' in repeat 2: the "
            "training does not repeat, and these have no values to compare",
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
@pytest.mark.parametrize("ended", ["stopped: asked to", "broken off: RuntimeError: no memory", ""])
def test_a_run_that_did_not_finish_is_refused(tmp_path, stopped, ended):
    changes = {"ended": ended}
    runs = [write_run(tmp_path, r, changes=changes if r == stopped else None) for r in (1, 2)]

    summary, _, _ = compared(tmp_path, *runs)

    assert summary["answer"] == "not comparable"
    expected = f"ended is '{ended}' in repeat {stopped}, not 'finished'"
    assert summary["reason"] == expected


def test_one_repeat_that_is_no_pair_refuses_all(tmp_path):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    runs.append(write_run(tmp_path, 3, changes={"source_sha256": "other"}))

    summary, tensors, _ = compared(tmp_path, *runs)

    assert "in repeat 3" in summary["reason"]
    assert tensors.empty


def code(**hashes):
    return {n: {"file": f"{n}.py", "sha256": digest * 64} for n, digest in hashes.items()}


@pytest.mark.parametrize("across", [False, True])
def test_runs_of_other_code_are_refused(tmp_path, across):
    """Of a module that was edited between two runs, or imported under way."""
    changes = [{"code": code(mine="a", lazy="b")}, {"code": code(mine="a", lazy="c")}]
    runs = [write_run(tmp_path, r, changes=c) for r, c in enumerate(changes, start=1)]
    summary, _, _ = compared(tmp_path, *runs, across=across)
    assert summary["answer"] == "not comparable"
    assert summary["reason"].startswith("lazy.py is not the same code in ")


@pytest.mark.parametrize("across", [False, True])
def test_runs_that_read_other_data_are_refused(tmp_path, across):
    """Red before: a table that was edited between two repeats gave `differs`."""
    changes = [{"read_files": {"rows.csv": "a" * 64, "x": "b" * 64}}, {"read_files": {}}]
    changes.append({"read_files": {"rows.csv": "c" * 64}})
    runs = [write_run(tmp_path, r, changes=c) for r, c in enumerate(changes, start=1)]
    assert compared(tmp_path, *runs[:2], across=across)[0]["answer"] == "equal"
    summary, _, _ = compared(tmp_path, runs[0], runs[2], across=across)
    assert summary["answer"] == "not comparable"
    assert summary["reason"].startswith("rows.csv held something else as ")


def test_a_module_that_one_run_alone_imports_is_no_reason(tmp_path):
    changes = [{"code": code(mine="a")}, {"code": code(mine="a", lazy="c")}]
    runs = [write_run(tmp_path, r, changes=c) for r, c in enumerate(changes, start=1)]
    assert compared(tmp_path, *runs)[0]["answer"] == "equal"


def compared_across(folder, **changes):
    """Compare a run of another variant, with further changes, with the first."""
    other = {"variant": "fast", "settings.variant.accelerator": "gpu", **changes}
    runs = write_run(folder / "a"), write_run(folder / "b", changes=other)
    return compared(folder, *runs, across=True)[0]


@pytest.mark.parametrize("changes", [{}, {"seed": 2}, {"environment.identity.cpu_capability": "X"}])
def test_across_variants_these_may_differ(tmp_path, changes):
    found = compared_across(tmp_path, **changes)
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
    found = compared_across(tmp_path, **changes)
    assert found["answer"] == "not comparable"
    assert next(iter(changes)) in found["reason"]
    assert "in variant deterministic" in found["reason"]
    assert "in variant fast" in found["reason"]


def test_runs_whose_data_were_written_to_meanwhile_are_no_pair(tmp_path):
    """Red before: they differ, by the content of the batch, as if the module drew it."""
    changes = {"data.is_changed": True}
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2, changes=changes)]
    summary, *_ = compared(tmp_path, *runs)
    assert summary["answer"] == "not comparable"
    path = MANIFEST["data"]["path"]
    assert summary["reason"] == (
        f"{path} was written to while repeat 2 trained on it: the runs are no pair"
    )


def test_other_packages_are_named(tmp_path):
    """Red before: two hashes, which nobody can look up."""
    changes = {
        "environment.identity.distributions": "other",
        "environment.packages": {"einops": "0.8.2"},
    }
    first = write_run(tmp_path, 1, changes={"environment.packages": {"einops": "0.8.1"}})
    summary, *_ = compared(tmp_path, first, write_run(tmp_path, 2, changes=changes))
    assert "(einops 0.8.1 and 0.8.2): the runs are no pair" in summary["reason"]

"""From the section matrix of a config to its cells, and what is wrong with one."""

import copy
from pathlib import Path

import pytest
import yaml

from twinrun.config.matrix_cells import cells
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
BASELINE = "deterministic"  # two threads


def settings(changes, gpus=0, **matrix):
    config = copy.deepcopy(CONFIG)
    config["studies"] = ["matrix"]
    config["matrix"] = {
        "workloads": ["digits"],
        "baseline": BASELINE,
        "changes": changes,
        **matrix,
    }
    return resolve(config, SCHEMA, gpus=gpus)


def test_each_value_changes_one_setting_of_the_baseline():
    found = settings([{"threads": 1}, {"threads": 4}, {"environment": {"MKL_CBWR": "AVX2"}}])
    assert list(found.cells) == [
        "repeat",
        "threads-1",
        "threads-4",
        "environment-MKL_CBWR-AVX2",
        "seed",
    ]
    baseline = found.variants[BASELINE]
    changed = found.variants["deterministic-threads-4"]
    assert (baseline.threads, changed.threads) == (2, 4)
    differing = [k for k in vars(baseline) if getattr(baseline, k) != getattr(changed, k)]
    assert differing == ["threads"]
    assert found.variants["deterministic-environment-MKL_CBWR-AVX2"].environment == {
        "MKL_CBWR": "AVX2"
    }


def test_a_change_of_one_environment_variable_keeps_the_baselines_others():
    """Red before: the cell ran without MKL_CBWR, and its difference was the missing variable's."""
    config = copy.deepcopy(CONFIG)
    config["studies"] = ["matrix"]
    config["variants"]["deterministic"]["environment"] = {"MKL_CBWR": "COMPATIBLE"}
    config["matrix"] = {
        "workloads": ["digits"],
        "baseline": BASELINE,
        "changes": [{"environment": {"KMP_AFFINITY": "none"}}],
    }
    found = resolve(config, SCHEMA, gpus=0)
    (changed,) = [cell.variant for cell in found.cells.values() if cell.change]
    assert found.variants[changed].environment == {
        "MKL_CBWR": "COMPATIBLE",
        "KMP_AFFINITY": "none",
    }


def test_the_pairs_are_a_repeat_the_changed_runs_and_another_seed():
    found = settings([{"threads": 1}], seed=3, other_seed=5)
    first = {"variant": BASELINE, "seed": 3, "repeat": 1}
    assert [found.pair_of_cell(name) for name in found.cells] == [
        [first, first | {"repeat": 2}],
        [first, first | {"variant": "deterministic-threads-1"}],
        [first, first | {"seed": 5}],
    ]


def test_settings_change_together_where_one_needs_the_other():
    found = settings([{"data_workers": 2, "persistent_workers": True}])
    cell = found.cells["data_workers-2-persistent_workers-true"]
    assert cell.label == "data_workers: 2, persistent_workers: true"
    assert found.variants[cell.variant].persistent_workers


def test_names_are_parts_of_paths():
    matrix = {
        "baseline": "b",
        "seed": 1,
        "other_seed": 2,
        "changes": [{"environment": {"A": "../x y/"}}],
    }
    assert cells(matrix)[1].name == "environment-A-x-y"


def test_what_this_machine_cannot_run_is_said():
    found = settings([{"accelerator": "gpu"}])
    assert found.cells_that_run() == ["repeat", "seed"]
    assert found.hindrance_of_cell("accelerator-gpu") == "no GPU on this machine"
    assert settings([{"accelerator": "cpu"}], gpus=1).cells_that_run() == [
        "repeat",
        "accelerator-cpu",
        "seed",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thread": 1}, "matrix.changes.0.thread: unknown key, did you mean threads?"),
        ({"threads": 0}, "matrix.changes.0.threads: 0 is out of range, allowed are 1 to 1024"),
        ({"threads": 2}, "matrix.changes.0: threads=2 is what the baseline has, leave it out"),
        ({}, "matrix.changes.0: "),
        (3, "matrix.changes.0: 3 is of the wrong type, expected a mapping"),
        (
            {"persistent_workers": True},
            "matrix.changes.0.persistent_workers: true needs data_workers of 1 or more",
        ),
        (
            {"accumulate": 2, "devices": 2},
            "matrix.changes.0.accumulate: 2 needs devices: 1, not 2",
        ),
        (
            {"environment": {"OMP_NUM_THREADS": "1"}},
            "'OMP_NUM_THREADS' is given by the run and cannot be set",
        ),
        ({"environment": {"A": "x" * 200}}, "is longer than 100 letters"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(TwinrunError) as raised:
        settings([change])
    assert message in str(raised.value)


def test_two_cells_may_not_share_their_runs():
    with pytest.raises(TwinrunError) as raised:
        settings([{"environment": {"A": "1-2"}}, {"environment": {"A": "1/2"}}])
    message = "matrix.changes.1: its runs would be called environment-A-1-2, as those of another"
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("matrix", "deterministic-threads-4"),
        ("resume", "deterministic-accumulate-2"),
    ],
)
@pytest.mark.parametrize("threads", [3, None])
def test_a_variant_is_never_exchanged_for_one_that_a_study_makes(study, name, threads):
    """Red before: a variant of this name was trained with the settings of the matrix's change."""
    config = copy.deepcopy(CONFIG) | {"studies": [study]}
    config["matrix"] |= {"baseline": BASELINE, "changes": [{"threads": 4}]}
    config["resume"] |= {"variants": [BASELINE], "stops": ["mid_epoch", "mid_accumulation"]}
    made = resolve(config, SCHEMA, gpus=0).variants[name]
    own = config["variants"][BASELINE] | {"threads": threads or made.threads}
    own |= {"accumulate": made.accumulate}
    config["variants"][name] = own
    if threads is None:  # the same settings: they share their runs
        assert resolve(config, SCHEMA, gpus=0).variants[name] == made
    else:
        with pytest.raises(TwinrunError, match=rf"variants\.{name}: .*, choose another name"):
            resolve(config, SCHEMA, gpus=0)


def test_a_variant_with_the_name_of_a_change_alone_is_another_one():
    config = copy.deepcopy(CONFIG) | {"studies": ["matrix"]}
    config["matrix"] |= {"baseline": BASELINE, "changes": [{"threads": 4}]}
    config["variants"]["threads-4"] = config["variants"][BASELINE] | {"threads": 3}
    assert resolve(config, SCHEMA, gpus=0).variants["threads-4"].threads == 3


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ({"baseline": "determinstic"}, "matrix.baseline: no variant is called 'determinstic'"),
        ({"other_seed": 1}, "matrix.other_seed: 1 is the baseline's seed, name another"),
        ({"workloads": ["digit"]}, "matrix.workloads.0: no workload is called 'digit'"),
    ],
)
def test_the_baseline_must_exist(matrix, message):
    with pytest.raises(TwinrunError) as raised:
        settings([], **matrix)
    assert message in str(raised.value)


def test_mistakes_in_changes_are_said_beside_an_unknown_baseline():
    """Red at 959891d6: they were said once the baseline was right."""
    with pytest.raises(TwinrunError) as raised:
        settings([{"compil": "step"}, {"threads": "many"}], baseline="determinstic")
    assert "matrix.baseline: no variant is called" in str(raised.value)
    assert "matrix.changes.0.compil: unknown key, did you mean compile?" in str(raised.value)
    assert "matrix.changes.1.threads: 'many' is of the wrong type" in str(raised.value)


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_a_precision_that_stores_parameters_in_another_type_is_refused(precision):
    """Red before: trained, and then "not comparable", float64 against float32."""
    with pytest.raises(TwinrunError, match=f"changes.0.precision: {precision} keeps the param"):
        settings([{"precision": precision}])


def test_a_mixed_precision_is_none():
    assert "precision-bf16-mixed" in settings([{"precision": "bf16-mixed"}]).cells

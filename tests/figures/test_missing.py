"""What cannot be drawn: each figure says why, in its place."""

import pandas as pd
import pytest
from drawing import Drawing
from example_results import VARIANTS, initial_tensors, write_run
from example_runs import fail, seal
from example_timings import write_summary
from ranked import OF_TRIAL, WITHOUT_CHOICES

from twinrun import artifacts
from twinrun.comparison.study_records import write_ranking
from twinrun.errors import JobError
from twinrun.figures.acceleration import speeds
from twinrun.figures.devices import sizes
from twinrun.figures.pairs import first_layer, layers
from twinrun.figures.predictions import strip, surfaces
from twinrun.figures.style import empty, reason_instead
from twinrun.figures.sweep import trials
from twinrun.figures.timings import cost
from twinrun.figures.training import curves

REASON = "no reproducible algorithm for put_"
COLUMNS = ["variant", "device", "size", "phase", "round", "steps", "seconds"]


@pytest.fixture
def output(tmp_path):
    return tmp_path / "figure.svg"


@pytest.fixture
def runs(tmp_path):
    """Two repeats of each variant, equal."""
    tensors = initial_tensors("denoiser")
    return [
        write_run(tmp_path, tensors, workload="denoiser", variant=variant, repeat=repeat)
        for variant in VARIANTS
        for repeat in (1, 2)
    ]


def words(output):
    return " ".join(Drawing(output).texts)


@pytest.mark.parametrize("draw", [first_layer, layers, curves])
def test_a_variant_whose_training_failed_is_named_beside_the_others(runs, output, draw):
    for run in runs[2:]:
        fail(run, REASON)
    draw(runs, variants=VARIANTS, output=output)
    found = words(output)
    assert "nondeterministic" in found
    assert draw is curves or f"deterministic: not run: {REASON}" in found


@pytest.mark.parametrize("draw", [first_layer, layers, curves])
def test_where_all_trainings_failed_the_reason_stands_alone(runs, output, draw):
    for run in runs:
        fail(run, REASON)
    draw(runs, variants=VARIANTS, output=output)
    assert f"not run: {REASON}" in words(output)


def test_predictions_of_a_training_that_failed(runs, output):
    run = fail(runs[0], REASON)
    strip(run, names=["noisy", "clean"], output=output)
    assert f"not run: {REASON}" in words(output)
    surfaces([run], names=["z", "target"], output=output)
    assert f"not run: {REASON}" in words(output)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"epoch": [1, 2]}),  # of a module that logs nothing
        pd.DataFrame({"epoch": []}),  # of a training that was stopped in its first epoch
        pd.DataFrame({"epoch": [1, 2], "train_loss": [float("nan"), float("inf")]}),
    ],
)
def test_a_module_that_logs_nothing_has_no_curves_and_that_is_said(runs, output, table):
    """Red at b8e0cc1: "Number of rows must be a positive integer, not 0", and no page."""
    for run in runs:
        artifacts.write_csv(run.with_name("epochs.csv"), table)
        seal(run.parent)
    curves(runs, variants=VARIANTS, output=output)
    assert "No epoch has a finite metric" in words(output)


@pytest.mark.parametrize("draw", [cost, speeds, sizes])
def test_where_no_variant_could_be_timed_the_figure_says_so(tmp_path, output, draw):
    """Red at b8e0cc1 for `cost`: ZeroDivisionError."""
    reason = "TypeError: 'NoneType' object is not iterable"
    artifacts.write_csv(tmp_path / "timing.csv", pd.DataFrame(columns=COLUMNS))
    skipped = [
        {"variant": variant, "size": None, "phase": None, "reason": reason} for variant in VARIANTS
    ]
    write_summary(tmp_path / "timing.json", skipped=skipped, size="points")
    draw(tmp_path / "timing.json", variants=VARIANTS, output=output)
    assert reason in words(output)


def test_a_baseline_that_could_not_be_timed_leaves_the_others_in_the_figure(tmp_path, output):
    row = {"variant": "b", "device": "cpu", "size": "", "phase": "train", "round": 1, "steps": 5}
    table = pd.DataFrame([row | {"seconds": 0.4}], columns=COLUMNS)
    artifacts.write_csv(tmp_path / "timing.csv", table)
    skipped = [{"variant": "a", "size": None, "phase": None, "reason": "out of memory"}]
    write_summary(tmp_path / "timing.json", baseline="a", skipped=skipped)
    cost(tmp_path / "timing.json", variants=["a", "b"], output=output)
    assert "no baseline: a was not measured" in words(output)
    assert "b" in Drawing(output).texts


def test_a_panel_without_a_measurement_has_no_axis_that_looks_measured(tmp_path, output):
    """Seen red: a grid from 0 to 1 behind the sentence."""
    row = {"device": "cpu", "size": "", "phase": "train", "round": 1, "steps": 5, "seconds": 0.4}
    artifacts.write_csv(
        tmp_path / "timing.csv", pd.DataFrame([row | {"variant": v} for v in "ab"], columns=COLUMNS)
    )
    write_summary(tmp_path / "timing.json", baseline="a")
    speeds(tmp_path / "timing.json", variants=["a", "b"], output=output)
    assert "no variant could be measured" in words(output)
    measured, blank = (Drawing(output).ticks(identity) for identity in ("axes_1", "axes_2"))
    assert measured
    assert blank == []


def test_what_no_figure_foresees_leaves_its_reason(output):
    with reason_instead(output):
        raise ValueError("x and y must have same first dimension, but have shapes (3,) and (4,)")
    found = words(output)
    assert "This figure could not be drawn" in found
    assert "ValueError: x and y must have same first dimension" in found


def test_a_corrupt_file_is_no_figure(output):
    with pytest.raises(JobError), reason_instead(output):
        raise JobError("results/x.json is corrupt: delete it and it is made again")
    assert not output.exists()


def test_a_reason_of_any_length_fits(output):
    empty(output, title="Cost", reason="long " * 1000)
    assert len(Drawing(output).texts) < 12


def test_a_trial_that_lacks_a_column_is_drawn_without_it(tmp_path, output):
    """Red before: KeyError, and no figure of any trial."""
    folder, names = tmp_path / "runs", ("loss", "accuracy", "f1", "auc")
    trials_found = []
    for rank, columns in enumerate((names, names[:1]), start=1):
        path = folder / f"trial{rank}/epochs.csv"
        table = {"epoch": [1, 2], **{name: [0.5, 0.25] for name in columns}}
        artifacts.write_csv(path, pd.DataFrame(table))
        seal(path.parent)
        trials_found.append(
            {
                "rank": rank,
                "point": {"lr": rank},
                "label": f"lr {rank}",
                **OF_TRIAL,
                "value": 0.5,
                "metrics": {},
                "fit_seconds": 1.0,
                "ended": "finished",
                "run": str(path.with_name("run.json")),
            }
        )
    ranking = {"workload": "w", "metric": "loss", "best": "lowest", "finished": 2} | WITHOUT_CHOICES
    for order in (trials_found, trials_found[::-1]):
        write_ranking(tmp_path / "sweep.json", {**ranking, "trials": order})
        trials(tmp_path / "sweep.json", output=output)
        # What any of them logs has its panel, whichever is the best.
        assert {"loss", "accuracy"} <= set(Drawing(output).texts)
        assert {"1. lr 1: 0.500", "2. lr 2: 0.500"} <= set(Drawing(output).texts)
        # Red before: what is beyond the third had no panel, and no word.
        assert "1 more, in epochs.csv of each run: auc" in Drawing(output).texts

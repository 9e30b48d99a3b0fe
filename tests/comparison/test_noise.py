"""Runs on one scale: what is measured of each, and what is said where it cannot be."""

import numpy as np
import pandas as pd
import pytest
import torch
from example_runs import example_parameters, fail, seal, write_run
from stored import write_tensors

from twinrun import artifacts
from twinrun.comparison.noise import NO_WEIGHT, weigh
from twinrun.comparison.noise_records import read_noise
from twinrun.comparison.noise_steps import STEP_COLUMNS, half_a_seed
from twinrun.errors import JobError
from twinrun.luck.scale import scale_of
from twinrun.verdicts.noise import ground

SCORES = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
LABELS = torch.tensor([0, 1, 0, 1])
PERTURBED = {"parameter": "head.weight", "index": [0, 0], "before": 0.5, "after": 0.50000006}


def moved(by, number=0):
    parameters = example_parameters()
    parameters["head.weight"][0, number] += by
    return parameters


def predictions(rows=(), angle=0.0):
    scores = SCORES.clone()
    scores[list(rows)] = scores[list(rows)].flip(1)
    return {"scores": scores, "angle": torch.full((4,), 3.0) + angle, "label": LABELS}


def write(folder, name, *, by=0.0, rows=(), angle=0.0, accuracy=0.75, sample=None, **changes):
    of_run = {"metrics": {"accuracy": accuracy}, **changes}
    return write_run(
        folder / name,
        parameters=moved(by),
        predictions=predictions(rows, angle),
        sample=np.ones((6, 4)) if sample is None else sample,
        changes=of_run,
    )


def listed(kind, run, label="", reason=None):
    return {
        "kind": kind,
        "label": label or kind,
        "study": "noise",
        "run": str(run),
        "not_run": reason,
    }


def weighed(folder, runs):
    weigh(
        runs,
        workload="w",
        variant="v",
        seed=1,
        left_out=["parallel, whose baseline is x, seed 1"],
        steps=folder / "noise.steps.csv",
        summary=folder / "noise.json",
    )
    return read_noise(folder / "noise.json")


def test_rounding_is_half_a_seed_only_where_seeds_have_moved_and_for_good():
    """Red before: at the first step, at which neither had moved anything; and at one blip."""

    def half(perturbation, seed, steps=(1, 2, 3, 4)):
        by_kind = {"perturbation": perturbation, "seed": seed}
        rows = [
            {"kind": kind, "label": kind, "step": step, "relative_l2": value}
            for kind, values in by_kind.items()
            for step, value in zip(steps, values, strict=False)
        ]
        return half_a_seed(pd.DataFrame(rows))

    assert half([0.0, 1e-7, 1e-3], [0.0, 0.1, 0.2]) is None
    assert half([0.0, 0.09, 1e-3, 0.2], [0.0, 0.1, 0.2, 0.3]) == (4, 4)
    assert half([0.1, 0.1], [0.1, 0.1]) == (1, 1)
    # Red before: "after step 20", of a trace of every tenth step.
    assert half([0.0, 0.1], [0.0, 0.1], steps=(10, 20)) == (20, 11)
    assert half([0.1, 0.1], [0.1, 0.1], steps=(10, 20)) == (10, 1)


def test_metrics_predictions_and_parameters_of_each_run(tmp_path):
    grown = np.ones((6, 4)) + 1e-7 * 10.0 ** np.arange(6)[:, None]
    runs = [
        listed("reference", write(tmp_path, "reference")),
        listed("repeat", write(tmp_path, "repeat")),
        listed(
            "perturbation",
            write(
                tmp_path, "ulp", by=0.1, rows=[1], sample=grown, perturbation=1, perturbed=PERTURBED
            ),
        ),
        listed(
            "seed",
            write(
                tmp_path,
                "seed",
                by=2.0,
                rows=[0, 1, 2],
                accuracy=0.5,
                sample=np.ones((6, 4)) + 0.01,
                seed=2,
            ),
        ),
        listed("change", write(tmp_path, "change", by=0.1, angle=0.3), "threads: 2"),
    ]
    found = weighed(tmp_path, runs)
    reference, repeat, perturbed, seed, change = found["runs"]
    # The labels are what was given to the network: no run moves them.
    assert [(m["name"], m["kind"]) for m in found["measures"]] == [
        ("accuracy", "metric"),
        ("angle", "numbers"),
        ("scores", "rows"),
        # Red before: coordinates that all double were the same rows.
        ("scores (as numbers)", "numbers"),
        ("parameters", "parameters"),
    ]
    assert reference["values"]["accuracy"] == 0.75
    assert (repeat["answer"], repeat["values"]["scores"]) == ("equal", 0.0)
    assert (perturbed["answer"], perturbed["values"]["scores"]) == ("differs", 0.25)
    assert (seed["values"]["scores"], seed["values"]["accuracy"]) == (0.75, 0.5)
    assert change["values"]["angle"] == pytest.approx(0.1)  # 0.3 of 3
    assert change["values"]["scores"] == 0.0
    norm = np.sqrt(sum(float((p**2).sum()) for p in example_parameters().values()))
    assert change["values"]["parameters"] == pytest.approx(0.1 / norm, rel=1e-5)
    # 0.01 by a seed at every step; rounding is at half of it after the sixth.
    assert (found["half_a_seed"], found.get("half_since")) == (6, None)
    steps = artifacts.read_csv(tmp_path / "noise.steps.csv", STEP_COLUMNS)
    of_seed = steps[steps["kind"] == "seed"]["relative_l2"]
    assert of_seed.tolist() == pytest.approx([0.01] * 6)


def test_scores_of_which_some_are_masked_are_compared(tmp_path):
    """Red before: left aside, since the reference's were nan, though none of them is."""

    def masked(name, rows=(), *, masks=(1,)):
        run = write(tmp_path, name, by=float(len(name)), perturbed=PERTURBED)
        scores = predictions(rows)["scores"]
        scores = torch.cat([scores, torch.zeros(len(scores), 2)], dim=1)
        scores[:, [2 + column for column in masks]] = -torch.inf
        write_tensors(run.with_name("predictions.safetensors"), {"scores": scores})
        seal(run.parent)
        return run

    runs = [
        listed("reference", masked("reference")),
        listed("perturbation", masked("perturbed", [0])),
        listed("seed", masked("seed", [0, 1, 2])),
        listed("change", masked("change", masks=(0,))),
    ]
    found = weighed(tmp_path, runs)
    of_runs = [run["values"] for run in found["runs"]]
    assert [values.get("scores") for values in of_runs] == [0.0, 0.25, 0.75, 0.0]
    assert [values.get("scores (as numbers)", 0) > 0 for values in of_runs] == [0, 1, 1, 0]
    # A number beside minus infinity is as far as can be.
    assert found["runs"][3]["lacks"] == {"scores (as numbers)": "it is inf"}


def test_what_cannot_be_compared_says_why(tmp_path):
    reference = listed("reference", write(tmp_path, "reference"))
    failed = fail(write(tmp_path, "failed"), "no memory")
    stopped = write(tmp_path, "stopped", ended="stopped: by hand")
    data = write(tmp_path, "data", **{"data.sha256": "e" * 64})
    diverged = write(tmp_path, "diverged", by=1.0, accuracy=float("nan"), angle=float("nan"))
    unperturbed = write(tmp_path, "unperturbed", perturbation=1, perturbed=None)
    bare = write(tmp_path, "bare", by=1.0, not_evaluated={"predict": "no memory left"})
    write_tensors(bare.with_name("predictions.safetensors"), {})
    seal(bare.parent)
    found = weighed(
        tmp_path,
        [
            reference,
            listed("seed", failed),
            listed("seed", stopped),
            listed("change", data),
            listed("change", diverged),
            listed("perturbation", unperturbed),
            listed("change", bare),
            listed("change", "", "gpu", "no GPU on this machine"),
        ],
    )
    said = [(run["answer"], run["reason"]) for run in found["runs"][1:]]
    assert said[0] == ("not run", "the training failed: no memory")
    assert said[1] == ("not run", "the training ended otherwise: stopped: by hand")
    assert said[2][0] == "not comparable"
    assert "data.sha256" in said[2][1]
    assert said[4] == ("not run", NO_WEIGHT)
    assert said[6] == ("not run", "no GPU on this machine")
    assert found["runs"][4]["lacks"] == {"accuracy": "it is nan", "angle": "it is inf"}
    assert found["runs"][4]["not_finite"] == ["accuracy", "angle"]
    assert (found["runs"][6]["lacks"]["scores"], found["runs"][6]["not_finite"]) == (
        "no memory left",
        [],
    )
    assert found["left_out"] == ["parallel, whose baseline is x, seed 1"]


@pytest.mark.parametrize("reason", ["it failed", "no GPU on this machine"])
def test_without_a_reference_nothing_is_compared(tmp_path, reason):
    run = fail(write(tmp_path, "reference"), "it failed")
    of_machine = reason if reason.startswith("no") else None
    other = listed("seed", write(tmp_path, "seed", seed=2))
    found = weighed(tmp_path, [listed("reference", run, reason=of_machine), other])
    assert reason in found["reason"]
    assert [run["answer"] for run in found["runs"]] == ["not run", "not comparable"]
    assert (tmp_path / "noise.steps.csv").read_text().strip() == ",".join(STEP_COLUMNS)


def test_a_run_without_predictions_and_metrics_is_compared_by_its_parameters(tmp_path):
    runs = [
        listed("reference", write_run(tmp_path / "reference", parameters=moved(0))),
        listed("seed", write_run(tmp_path / "seed", parameters=moved(1.0), num_steps=4)),
    ]
    found = weighed(tmp_path, runs)
    assert [m["kind"] for m in found["measures"]] == ["parameters"]
    assert found["half_a_seed"] is None
    # Red before: that seeds go further than rounding was said of what always does.
    said = "judged by the parameters alone, in which two seeds may be apart before the first step"
    assert said in ground(found, scale_of(found))


@pytest.mark.parametrize(
    ("own", "others", "found", "kinds"),
    [
        # Red before: rows of other samples were compared with the reference's, and called churn.
        # Of a test it is the samples that count, whatever their order.
        ({"test": "a", "predict": "b"}, {"test": "c", "predict": "d"}, ["test", "predict"], 0),
        ({"test": "a", "predict": "b"}, {"test": "a", "predict": "d"}, ["predict"], 0),
        ({"test": "a", "predict": "b"}, {"test": "c", "predict": "b"}, ["test"], 3),
        ({"test": "a", "predict": "b"}, {"test": "a", "predict": "b"}, [], 3),
        ({"test": "a"}, {"test": "a", "predict": "d"}, [], 3),  # what cannot be looked into
    ],
)
def test_predictions_of_other_data_are_no_measure(tmp_path, own, others, found, kinds):
    runs = [
        listed("reference", write(tmp_path, "reference", **on(own))),
        listed("seed", write(tmp_path, "seed", rows=[1], angle=1, seed=2, **on(others))),
        listed("change", write(tmp_path, "change", rows=[0], **on(own))),
    ]
    table = weighed(tmp_path, runs)
    assert table["other_data"] == found
    names = {"scores", "scores (as numbers)", "angle"}
    assert len(names & {m["name"] for m in table["measures"]}) == kinds


def on(given):
    return {"evaluated_on": {"in_order": given, "in_any_order": given, "numbers": {}}}


def test_what_is_predicted_and_no_measure_is_named(tmp_path):
    """Red before: texts were not judged, and nobody said so."""
    texts = torch.tensor([7, 8])
    run = write_run(tmp_path / "x", predictions={"texts (fingerprint)": texts}, changes={})
    found = weighed(tmp_path, [listed("reference", run), listed("repeat", run)])
    assert found["not_measured"] == {"texts": "no numbers, of which only a fingerprint is kept"}
    assert "texts is not measured: no numbers" in ground(found, scale_of(found))


def test_a_network_that_is_nan_went_further_than_any_that_is_not(tmp_path):
    """Red before: its accuracy, which is that of the first class, counted as any other."""
    broken = write(tmp_path, "broken", by=1.0, seed=2, no_result="its weights are NaN")
    runs = [listed("reference", write(tmp_path, "reference")), listed("seed", broken)]
    _, seed = weighed(tmp_path, runs)["runs"]
    assert seed["values"] == {}
    assert set(seed["not_finite"]) >= {"accuracy", "scores", "parameters"}


@pytest.mark.parametrize("kind", ["seed", "change", "reference"])
def test_a_run_that_was_given_files_of_another_is_not_run(tmp_path, kind):
    """Red before: it was one without a number, that went further than any other."""
    of = {"changed": [], "kept": [], "disturbing": ["train.npy"]}
    given = write(tmp_path, "given", by=1.0, seed=2, found_files=of, no_result="it has used it")
    runs = [listed("reference", write(tmp_path, "reference")), listed(kind, given)]
    found = weighed(tmp_path, runs if kind != "reference" else runs[::-1])
    run = found["runs"][0 if kind == "reference" else 1]
    assert (run["answer"], run["not_finite"]) == ("not run", [])
    assert run["reason"].startswith("it has used train.npy, which another training wrote")
    assert (found["reason"] == run["reason"]) is (kind == "reference")


@pytest.mark.parametrize(
    ("others", "kept", "reason"),
    [
        ({"test": "c", "predict": "b"}, {"scores", "angle"}, "its test was of other samples"),
        ({"test": "a", "predict": "d"}, {"accuracy"}, "it predicts other samples"),
        ({"test": "a", "predict": "b"}, {"accuracy", "scores", "angle"}, None),
        ({}, {"accuracy", "scores", "angle"}, None),
    ],
)
def test_a_change_of_other_samples_is_not_compared_by_them(tmp_path, others, kept, reason):
    """Red before: compared row by row, and called more than another seed."""
    runs = [
        listed("reference", write(tmp_path, "reference", **on({"test": "a", "predict": "b"}))),
        listed("seed", write(tmp_path, "seed", rows=[1], angle=1, seed=2, accuracy=0.5)),
        listed("change", write(tmp_path, "change", rows=[0], angle=0.5, **on(others))),
    ]
    found = weighed(tmp_path, runs)["runs"][-1]
    assert {"accuracy", "scores", "angle"} & found["values"].keys() == kept
    said = list(found["lacks"].values())
    assert all(why.startswith(reason or "-") for why in said)
    assert bool(said) is (reason is not None)


@pytest.mark.parametrize("other", [{"accuracy": 0.0}, {"rows": [0]}, {"angle": 0.5}])
def test_equal_weights_that_are_tested_or_predict_otherwise_are_not_equal(tmp_path, other):
    """Red before: "equal to the reference, bit for bit", and that the baseline repeats."""
    runs = [
        listed("reference", write(tmp_path, "reference")),
        listed("repeat", write(tmp_path, "repeat", **other)),
        listed("change", write(tmp_path, "change")),
        listed("change", write(tmp_path, "nan", accuracy=float("nan"))),
    ]
    found = weighed(tmp_path, runs)["runs"]
    assert [run["answer"] for run in found[1:]] == ["differs", "equal", "differs"]


def test_a_change_that_never_took_effect_is_not_equal(tmp_path):
    """Red before: equal to the reference, where the matrix has it as not run."""
    sentence = "no parameter, buffer or batch is an image (4-D)"
    without = {
        "settings.variant.layout": "channels_last",
        "departures": [{"setting": "layout", "sentence": sentence}],
    }
    stopped = {"settings.variant.stop": "mid_epoch", "settings.variant.resume": "twinrun"}
    runs = [
        listed("reference", write(tmp_path, "reference")),
        listed("change", write(tmp_path, "layout", **without), "layout: channels_last"),
        listed("change", write(tmp_path, "stop", **stopped), "stop: mid_epoch"),
    ]
    _, layout, stop = weighed(tmp_path, runs)["runs"]
    assert (layout["answer"], layout["reason"], layout["values"]) == ("not run", sentence, {})
    reason = "the training never comes to this point"
    assert (stop["answer"], stop["reason"]) == ("not run", reason)


def test_a_changed_file_of_a_run_is_refused(tmp_path):
    run = write(tmp_path, "reference")
    run.with_name("predictions.safetensors").write_bytes(b"")
    with pytest.raises(JobError, match="corrupt"):
        weighed(tmp_path, [listed("reference", run)])


def test_a_metric_and_a_prediction_of_one_name_are_two(tmp_path):
    """Red before: the distance took the metric's place, and the reference's metric was 0."""
    named = {"metrics": {"angle": 0.5, "parameters": 1.0}}
    runs = [
        listed("reference", write(tmp_path, "reference", **named)),
        listed("repeat", write(tmp_path, "repeat", angle=0.3, **named)),
    ]
    found = weighed(tmp_path, runs)
    names = {m["name"]: m["kind"] for m in found["measures"]}
    assert (names["angle"], names["angle (predicted)"]) == ("metric", "numbers")
    assert names["parameters"] == "metric"
    assert [run["values"]["angle"] for run in found["runs"]] == [0.5, 0.5]
    assert found["runs"][1]["values"]["angle (predicted)"] == pytest.approx(0.1)


def test_a_double_network_has_the_floor_of_its_digits(tmp_path):
    """Red before: all perturbations "came to nothing", and no number of them would decide."""
    runs = []
    for kind, apart in (("reference", 0.0), ("perturbation", 3e-16), ("perturbation", 5e-16)):
        scores = SCORES.double() * (1 + apart)
        path = write_run(
            tmp_path / f"{kind}{apart}",
            parameters={name: value.double() for name, value in moved(0).items()},
            predictions={"scores": scores, "angle": scores[:, 0].float()},
            changes={"metrics": {}, "perturbed": PERTURBED if apart else None},
        )
        runs.append(listed(kind, path))
    found = weighed(tmp_path, runs)
    floors = {measure["name"]: measure["floor"] for measure in found["measures"]}
    assert floors["scores (as numbers)"] == 2.0**-53
    assert scale_of(found).absorbed == 0


def test_medians_leave_out_what_came_to_nothing_as_the_factor_does(tmp_path):
    """Red before: "0 by one unit in the last place", and told at 1.3 times as far."""
    runs = [listed("reference", write(tmp_path, "reference"))]
    for number, angle in enumerate((0.0, 0.0, 0.0, 0.3, 0.33)):
        run = write(tmp_path, f"ulp{number}", by=1e-6, angle=angle, perturbed=PERTURBED)
        runs.append(listed("perturbation", run))
    found = weighed(tmp_path, runs)
    said = ground(found, scale_of(found))
    assert "3 of 5 perturbations came to nothing" in said
    assert "relative L2 distance of angle: 0.105 by one unit in the last place" in said

"""What a difference is worth: known truths, borders, too few runs, and simulated error rates."""

import doctest
import importlib.util
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ranked import states
from scipy.stats import t

from twinrun.luck import floor, future
from twinrun.luck.floor import detectable, deviation, floors, outlier
from twinrun.luck.forecast import power_with
from twinrun.luck.future import bound_of, p_of, runs_to_decide
from twinrun.luck.scale import scale_of, scatter_of_few
from twinrun.luck.sensitivity import seeds_are_more, seeds_are_no_more, tells_seeds, told_from
from twinrun.luck.welch import Scatter, scatter
from twinrun.luck.worth import weigh
from twinrun.report.worths import worth_of, worths
from twinrun.verdicts import noise
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.noise import clause, ground, luck, outliers_of

ROOT = Path(__file__).parents[2]
# Of a short training of digits: shares of predictions that change, and test accuracies.
ROUNDING = [0.391, 0.385, 0.402, 0.378, 0.395]
SEEDS = [0.686, 0.671, 0.702, 0.690]
ACCURACY = {"reference": [0.90], "perturbation": [0.91, 0.89, 0.905, 0.90, 0.895]}
ACCURACY["seed"] = [0.92, 0.88, 0.91, 0.895]


def run(kind, label="", *, answer="differs", reason=None, lacks=None, **values):
    return {
        "kind": kind,
        "label": label or kind,
        "study": "noise",
        "run": "",
        "answer": answer,
        "reason": reason,
        "values": values,
        "lacks": lacks or {},
        "not_finite": [],
    }


def test_runs_that_were_resumed_are_named():
    """Red before: no sentence of the study noise said so."""
    perturbed = run("perturbation", "+1 ULP (2)", accuracy=0.9, scores=0.39)
    perturbed |= {"resumed_at": [6]}
    changed = run("change", "threads: 2", accuracy=0.9, scores=0.5) | {"resumed_at": [3, 9]}
    found = table(changed)
    found["runs"] += [perturbed]
    scale = scale_of(found)
    assert "; resumed: +1 ULP (2) after step 6" in ground(found, scale)
    assert "resumed after steps 3 and 9" in clause(changed, weigh(scale, changed))
    stopped = {**changed, "study": "resume"}
    assert "resumed" not in clause(stopped, weigh(scale, stopped))


def test_what_puts_a_run_in_doubt_is_said():
    """Red before: runs that each went on with another's file were a scale like any other."""
    doubt = "the file last.pt was opened to be read as an earlier training left it"
    changed = run("change", "threads: 2", accuracy=0.9, scores=0.5) | {"doubts": [doubt]}
    found = table(changed)
    for each in found["runs"][:2]:
        each["doubts"] = [doubt]
    scale = scale_of(found)
    labels = " and ".join(each["label"] for each in found["runs"][:2])
    assert f"; but of {labels} {doubt}" in ground(found, scale)
    assert f"but {doubt}" in clause(changed, weigh(scale, changed))


def table(*changes, rounding=ROUNDING, seeds=SEEDS, accuracy=ACCURACY):
    perturbed = zip(rounding, accuracy["perturbation"], strict=False)
    others = zip(seeds, accuracy["seed"], strict=False)
    return {
        "workload": "digits",
        "variant": "serial",
        "seed": 1,
        "steps": 60,
        "reason": None,
        "measures": [
            {"name": "accuracy", "kind": "metric", "floor": 0.0},
            {"name": "scores", "kind": "rows", "floor": 0.0005},
            {"name": "parameters", "kind": "parameters", "floor": 2.0**-24},
        ],
        "runs": [
            run(
                "reference", "seed 1", accuracy=accuracy["reference"][0], scores=0.0, parameters=0.0
            ),
            run("repeat", answer="equal", accuracy=0.9, scores=0.0, parameters=0.0),
            *(
                run("perturbation", f"one ULP {k}", accuracy=a, scores=s, parameters=0.1)
                for k, (s, a) in enumerate(perturbed, 1)
            ),
            *(
                run("seed", f"seed {k}", accuracy=a, scores=s, parameters=1.4)
                for k, (s, a) in enumerate(others, 2)
            ),
            *changes,
        ],
        "not_measured": {},
        "left_out": [],
        "other_data": [],
        "samples": [1000],
        "half_a_seed": None,
    }


def worth(scores, metric=0.9, **of_table):
    found = table(run("change", accuracy=metric, scores=scores, parameters=0.1), **of_table)
    return weigh(scale_of(found), found["runs"][-1])


BROKEN = "its weights are NaN or infinite (w)"


def broken(kind, label):
    """A run that left no result."""
    names = ["accuracy", "scores", "parameters"]
    found = run(kind, label, reason=BROKEN, lacks=dict.fromkeys(names, BROKEN))
    return found | {"not_finite": names}


def test_runs_without_a_result_are_named_with_their_own_reason():
    """Red before: which measures are no number was said, and not why."""
    found = table(broken("seed", "seed 9"), broken("change", "threads 2"))
    scale = scale_of(found)
    assert scale.diverged == [f"seed 9: {BROKEN}"]
    assert weigh(scale, found["runs"][-1]).reason.startswith(f"{BROKEN}; no perturbation gives ")
    assert f"seed 9: {BROKEN}" in ground(found, scale)


def test_beside_a_reference_without_a_result_nothing_is_compared_and_it_is_said_why():
    """Red before: each change had no metric and no prediction, which it had."""
    found = table(run("change", accuracy=0.9, scores=0.1, parameters=0.1))
    found["runs"][0] = broken("reference", "seed 1")
    scale = scale_of(found)
    reason = f"the reference left no result: {BROKEN}"
    assert (scale.nothing, scale.left_out) == (reason, [reason])
    weighed = weigh(scale, found["runs"][-1])
    assert (weighed.answer, weighed.reason) == ("not comparable", reason)


@pytest.mark.parametrize(
    ("scores", "accuracy", "expected"),
    [
        (0.385, 0.90, "no more than rounding"),  # another number of threads
        (0.0, 0.90, "no more than rounding"),  # other bits, and the same predictions
        (0.415, 0.90, "no more than rounding"),  # significant, and a few percent more
        (0.39, 0.92, "undecided"),  # at the border of rounding
        (0.55, 0.90, "no more than another seed"),
        (0.68, 0.91, "no more than another seed"),
        (0.69, 0.947, "undecided"),  # at the border of seeds
        (0.90, 0.90, "more than another seed"),  # a learning rate that is much too large
        (0.69, 0.60, "more than another seed"),  # a class is dropped: as many change, for the worse
    ],
)
def test_known_truths(scores, accuracy, expected):
    assert worth(scores, accuracy).answer == expected


def test_an_equal_run_needs_no_scale_and_what_was_not_run_has_none():
    scale = scale_of(table())
    assert weigh(scale, run("change", answer="equal")).answer == "equal"
    found = weigh(scale, run("change", answer="not run", reason="no GPU"))
    assert (found.answer, found.reason) == ("not run", "no GPU")


def diverged(kind, label="", **values):
    lost = [name for name in ("accuracy", "scores", "parameters") if name not in values]
    found = run(kind, label, lacks=dict.fromkeys(lost, "it is nan"), **values)
    return {**found, "not_finite": lost}


def test_a_diverged_run_takes_no_other_of_the_scale_with_it():
    of_scale = table()
    of_scale["runs"][4] = diverged("perturbation", "one ULP 3")
    scale = scale_of(of_scale)
    assert scale.left_out == []
    assert scale.diverged == ["one ULP 3: accuracy and scores"]
    assert len(scale.rounding["scores"]) == 4


@pytest.mark.parametrize(
    ("values", "others", "answer", "reason"),
    [
        # Red before: "not comparable", as if the runs were no pair.
        ({"accuracy": 0.1}, 0, "more than another seed", "scores without a number"),
        ({"accuracy": 0.9}, 0, "undecided", "no perturbation gives scores without a number"),
        ({"scores": 0.99}, 0, "more than another seed", "accuracy without a number"),
        ({}, 0, "undecided", "no perturbation gives scores without a number"),
        # Where trainings of this workload diverge by themselves, it does what they do.
        ({}, 3, "no more than rounding", "accuracy and scores without a number"),
    ],
)
def test_a_change_that_diverges_is_told_by_what_is_left_or_by_its_rank(
    values, others, answer, reason
):
    found = table(*(diverged("perturbation", f"ULP {k}") for k in range(others)))
    of = weigh(scale_of(found), diverged("change", **values))
    assert (of.answer, of.reason.removesuffix(", and it does")) == (answer, reason)


@pytest.mark.parametrize(("kind", "others"), [("perturbation", 2), ("seed", 1)])
def test_nothing_is_more_than_runs_of_which_some_diverge(kind, others):
    """Red before: a change was told from those runs of the kind alone that went well."""
    far = run("change", accuracy=0.9, scores=0.99, parameters=0.1)
    found = table(*(diverged(kind, f"{kind} {k}") for k in range(others)), far)
    scale, weighed = scale_of(found), weigh(scale_of(found), far)
    if kind == "seed":
        assert weighed.answer == "no more than another seed"
        assert weighed.rounding.p < 0.05
        assert not seeds_are_no_more(scale)
    else:
        assert weighed.rounding.p == pytest.approx(2 * 3 / 8)
        assert weighed.answer == "no more than rounding"
        assert told_from(scale) is None
        assert seeds_are_more(scale) is None
    assert scale.interval(scale.measures[1])[kind] is None
    # Of what went further than all but those that diverge no number of further runs is forecast.
    one = table(*[diverged(kind)], rounding=[0.39] * 20, seeds=[0.39] * 20, accuracy=MANY)
    scale = scale_of(one)
    tested = scale.test(run("change", accuracy=0.9, scores=0.99), scale.rounding)
    assert (tested.needed is None) == (kind == "perturbation")


def test_a_run_of_the_scale_that_diverges_in_one_measure_counts_in_the_others():
    """Red before: it was left out of all, and a change that goes as far was more than rounding."""
    infinite = [
        {**run("perturbation", lacks={"accuracy": "it is inf"}, scores=far, parameters=0.1)}
        for far in (0.61, 0.63)
    ]
    change = run("change", accuracy=0.9, scores=0.60, parameters=0.1)
    found = table(*({**each, "not_finite": ["accuracy"]} for each in infinite), change)
    scale = scale_of(found)
    assert len(scale.rounding["scores"]) == 7
    assert (scale.diverged, scale.left_out) == (["perturbation: accuracy"] * 2, [])
    tested = scale.test(change, scale.rounding)
    assert tested.p > 0.05


MANY = {"reference": [0.9], "perturbation": [0.9] * 20, "seed": [0.9] * 20}


def test_a_floor_says_of_how_many_seeds_it_is_and_is_none_where_the_reference_diverged():
    """Red before: it was that of the seeds that went well, without a word."""
    found = table(diverged("seed", "seed 9"), run("seed", "seed 10", answer="not run"))
    (of,) = floors(found)
    assert (of.seeds.number, of.without) == (5, 2)
    assert luck(of).endswith("are luck (by 5 of 7 seeds: 2 gave it no number)")
    found["runs"][0] = diverged("reference", "seed 1", scores=0.0)
    assert floors(found) == []


FEW = {"reference": [0.5], "perturbation": [0.5], "seed": [0.25, 0.71]}


@pytest.mark.parametrize(
    ("values", "samples", "said"),
    [
        # Red before: "differences of accuracy below 1.4 are luck", and that of a share.
        (
            FEW,
            [],
            "3 seeds tell no difference of accuracy below 1.4 from luck, and none of their values "
            "is as large (0.710 at most): list more under noise.seeds",
        ),
        (
            FEW,
            [100],
            "3 seeds tell no difference of accuracy from luck: it would have to be 1.4, and of a "
            "share of samples none is above 1: list more under noise.seeds",
        ),
        # No number of seeds tells so little apart: of such no more are asked for.
        (
            {"reference": [-0.1], "perturbation": [0.0], "seed": [0.1] * 5 + [-0.1] * 4},
            [],
            "10 seeds tell no difference of accuracy below 0.34 from luck, and none of their "
            "values is as large (0.100 at most)",
        ),
        (
            {"reference": [-3.0], "perturbation": [0.0], "seed": [-3.1, -2.95]},
            [],
            "differences of accuracy below 0.46 are luck",
        ),
    ],
)
def test_no_difference_is_called_luck_that_is_larger_than_any_value(values, samples, said):
    found = table(accuracy=values, rounding=[0.39], seeds=[0.6] * len(values["seed"]))
    found["samples"] = samples
    (of,) = floors(found)
    assert luck(of) == f"with one run a side, {said}"


def begun(**moved):
    """What runs begin with, of which no seed moves anything but this."""
    same = {"weights": "a", "batches": "b", "random": "c", "random_after": "d"}
    return same | {"states": {}, "drawn": ["torch"], "own": {}} | moved


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (["weights", "batches", "random", "random_after"], None),
        (
            ["random", "random_after"],
            "no seed moves the initial weights and the first batches, whose luck is not counted",
        ),
        (["weights", "batches", "random"], "no seed moves torch's RNG state, whose luck is"),
        (
            [],
            "no seed moves the initial weights, the first batches and torch's RNG state (the "
            "module may seed itself), whose luck is not counted",
        ),
    ],
)
def test_what_no_seed_moves_of_a_beginning_is_said_of_the_luck_of_seeds(moved, said):
    """Red before: nothing was said of a module that has the same weights from each seed."""
    far = run("change", "far", accuracy=0.5, scores=0.99, parameters=9.0)
    found = table(far, seeds=[*SEEDS, 0.69], accuracy=ACCURACY | {"seed": [0.9, 0.91, 0.92, 0.2]})
    for number, each in enumerate(found["runs"]):
        if each["kind"] in ("reference", "seed"):
            each["begun"] = begun(**dict.fromkeys(moved, f"{number}"))
    rows = {r["answer"] if r["key"] == "worth" else r["key"]: r for r in noise_rows(found)}
    for key in ("seed_or_rounding", "lucky_seed", "more than another seed"):
        assert ("no seed moves" in rows[key]["measured"]) == (said is not None), key
        assert (said or "") in rows[key]["measured"]
    # Of runs whose first step was not traced nobody knows.
    for each in found["runs"]:
        each.pop("begun", None)
    assert "no seed moves" not in ground(found, scale_of(found))


@pytest.mark.parametrize(
    ("moved", "drawn", "said"),
    [
        # Red before: of all three that weights and batches are not counted, and no more.
        (
            "torch",
            ["torch"],
            "; no seed moves the initial weights, the first batches and from step 2 on torch's RNG "
            "state (the module may seed itself), whose luck is not counted",
        ),
        (
            "",
            [],
            "no seed moves the initial weights and the first batches, whose luck is not counted; "
            "no traced step draws from a global generator, so what seeds differ in may be no luck",
        ),
        (
            "numpy",
            ["numpy"],
            "; no seed moves the initial weights, the first batches and from step 2 on NumPy's RNG "
            "state, whose luck is not counted; no traced step draws from another global generator",
        ),
        ("", ["torch"], "and the first batches, whose luck is not counted"),
        ("numpy", ["torch"], "and the first batches, whose luck is not counted"),
    ],
)
def test_what_no_seed_moves_in_later_steps_is_said_of_the_luck_of_seeds(moved, drawn, said):
    found = table(seeds=[*SEEDS, 0.69], accuracy=ACCURACY | {"seed": [0.9, 0.91, 0.92, 0.2]})
    for number, each in enumerate(found["runs"]):
        if each["kind"] in ("reference", "seed"):
            of = {"random": f"{number}", "random_after": f"{number}"}
            later = states(number, {moved: 2} | ({"cuda": 1} if moved == "torch" else {}))
            each["begun"] = begun(states=later, drawn=drawn, **of)
    (row,) = (row for row in noise_rows(found) if row["key"] == "seed_or_rounding")
    assert said in row["measured"]
    if not said.startswith(("; no", "no seed")):
        assert row["measured"].endswith(said)


def noise_rows(found):
    return noise.verdicts(Evidence(path="x", found=found))


def test_a_change_without_a_prediction_is_not_comparable():
    lost = run("change", lacks={"scores": "no memory left"}, accuracy=0.9, parameters=3.0)
    found = weigh(scale_of(table()), lost)
    assert (found.answer, found.reason) == ("not comparable", "scores: no memory left")


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e155, 1e308])
def test_a_metric_too_large_or_small_to_be_squared_is_weighed_alike(factor):
    """Red before: OverflowError from 1e308 on."""
    scaled = {kind: [factor * value for value in of] for kind, of in ACCURACY.items()}
    scores = {"scores": 0.55, "parameters": 0.1}
    plain, found = (
        table(
            run("change", accuracy=0.6 * by, **scores), accuracy=of, rounding=[0.4] * 5, seeds=SEEDS
        )
        for by, of in ((1, ACCURACY), (factor, scaled))
    )
    (of_plain, weighed), (of_found, again) = (
        (scale_of(each), weigh(scale_of(each), each["runs"][-1])) for each in (plain, found)
    )
    assert again.answer == weighed.answer
    assert again.rounding.p == pytest.approx(weighed.rounding.p)
    assert again.seeds.p == pytest.approx(weighed.seeds.p)
    for asked in (seeds_are_more, seeds_are_no_more, tells_seeds):
        assert asked(of_found) == asked(of_plain)
    (one,), (other,) = map(floors, (plain, found))
    assert other.seeds.value == pytest.approx(one.seeds.value * factor, rel=1e-3)


def test_distances_of_any_size_have_a_bound():
    """Red before: OverflowError of a training that diverged."""
    scale = scale_of(table(rounding=[1e-3, 1e60], seeds=[1e60, 1e-3]))
    assert scale.interval(scale.measures[1]) == {"perturbation": math.inf, "seed": math.inf}
    assert not seeds_are_no_more(scale)


@pytest.mark.parametrize("rounding", [[], [0.39]])
def test_too_few_perturbations_decide_nothing(rounding):
    # Of one, the reference's own accuracy makes two values of the metric; of none there is one.
    found = worth(0.39, rounding=rounding)
    assert (found.answer, found.waits_for) == ("undecided", "perturbation")


def test_without_other_seeds_more_than_rounding_is_all_that_can_be_said():
    found = worth(0.9, seeds=[], accuracy={**ACCURACY, "seed": []})
    assert (found.answer, found.waits_for) == ("undecided", "seed")
    assert worth(0.39, seeds=[], accuracy={**ACCURACY, "seed": []}).answer == "undecided"


def test_perturbations_that_tell_not_even_a_seed_are_too_few():
    found = worth(0.45, rounding=[0.30, 0.5], seeds=[0.686, 0.671, 0.702, 0.690])
    assert found.answer == "undecided"
    assert found.waits_for == "perturbation"
    # But where rounding moves as much as seeds do, nothing is more than rounding.
    wide = [0.64, 0.72, 0.69, 0.66, 0.70]
    found = worth(
        0.68, rounding=wide, accuracy={**ACCURACY, "perturbation": [0.93, 0.87, 0.9, 0.91, 0.89]}
    )
    assert found.answer == "no more than rounding"
    # Red before: that one perturbation had come as far as the median seed was taken for it.
    found = worth(0.9, rounding=wide, accuracy={**ACCURACY, "perturbation": ACCURACY["seed"]})
    assert found.answer != "no more than rounding"


@pytest.mark.parametrize("rounding", [[0.39], []])
def test_one_run_of_a_kind_decides_nothing(rounding):
    """Red before: the metric alone answered, with the reference as its second value."""
    few = {**ACCURACY, "perturbation": ACCURACY["perturbation"][: len(rounding)]}
    found = worth(0.95, rounding=rounding, accuracy=few)
    assert (found.answer, found.reason) == ("undecided", "fewer than two perturbed runs")
    found = worth(0.99, seeds=[0.7], accuracy={**ACCURACY, "seed": [0.91]})
    assert (found.answer, found.reason) == ("undecided", "fewer than two other seeds")


def test_a_metric_that_the_reference_has_no_number_of_is_left_aside_alone():
    """Red before: nothing could be compared, with a false reason."""
    found = table(run("change", accuracy=0.9, scores=0.39, parameters=0.1))
    found["measures"].append({"name": "f1", "kind": "metric", "floor": 0.0})
    for each in found["runs"]:
        each["lacks"] = {"f1": "it is nan"}
    scale = scale_of(found)
    assert [m["name"] for m in scale.measures] == ["accuracy", "scores"]
    assert scale.left_out == ["f1 of the reference: it is nan"]
    assert weigh(scale, found["runs"][-1]).answer == "no more than rounding"


def test_an_outlier_is_seen_to_be_apart_from_the_mean():
    """Red before: seed 4 with 0.9999, where the mean is 0.9999."""
    seeds = {"reference": [0.999910], "seed": [0.999914, 0.999906, 0.999912, 0.99986]}
    (found,) = floors(table(accuracy={**seeds, "perturbation": [0.99991] * 5}))
    (said,) = outliers_of(found)
    assert "with accuracy 0.999860, where the mean is 0.999900" in said


def test_what_a_change_of_the_matrix_is_worth_is_said_beside_it():
    """Red before: the page said that in another section alone."""
    small = run("change", "threads: 2", accuracy=0.9, scores=0.39, parameters=0.1)
    large = run("change", "accumulate: 2", accuracy=0.9, scores=1.2, parameters=0.1)
    other = run("change", "gpu", accuracy=0.9, scores=0.39, parameters=0.1)
    found = table(*({**each, "study": "matrix"} for each in (small, large)), other)
    results = SimpleNamespace(noises={"noise/digits/serial.json": found})
    expected = {"threads: 2": "no more than rounding", "accumulate: 2": "more than another seed"}
    assert worths(results, "digits", "serial") == expected
    assert worths(results, "digits", "another") == {}


def verdict(study, key, variant, answer="differs"):
    names = {"study": study, "key": key, "workload": "digits", "variant": variant}
    return {**names, "answer": answer, "question": "", "measured": "", "evidence": ""}


@pytest.mark.parametrize(
    ("row", "worth"),
    [
        (verdict("acceleration", "same_parameters", "fast"), "no more than rounding"),
        (verdict("acceleration", "same_parameters", "slow"), None),
        (verdict("devices", "same_parameters", "fast"), None),
        (verdict("acceleration", "same_parameters", "fast", "equal"), None),
        (verdict("matrix", "withstands_changes", "serial", "no"), "2 more than another seed"),
        (verdict("matrix", "withstands_changes", "another", "no"), None),
        (verdict("resume", "resumes_lightning", "serial"), "more than another seed"),
        (verdict("resume", "resumes_twinrun", "serial"), None),
        (verdict("reproducibility", "repeats", "serial"), "no more than rounding"),
        (verdict("reproducibility", "repeats", "another"), None),
    ],
)
def test_a_verdict_that_differs_says_what_it_is_worth(row, worth):
    """Red before: the table of verdicts said it of nothing."""

    def change(study, label, scores):
        return {
            **run("change", label, accuracy=0.9, scores=scores, parameters=0.1),
            "study": study,
        }

    found = table(
        run("repeat", "repeat", accuracy=0.9, scores=0.39, parameters=0.1),
        change("acceleration", "fast", 0.39),
        change("matrix", "threads: 2", 1.2),
        change("matrix", "accumulate: 2", 1.2),
        change("resume", "stopped after an epoch, resumed from Lightning's checkpoint", 1.2),
    )
    noises = {"noise/digits/serial.json": found}
    seeds = {name: {"seeds": [1]} for name in ("reproducibility", "acceleration", "devices")}
    assert worth_of(row, SimpleNamespace(noises=noises, config=seeds)) == worth
    # Red before: a verdict of several seeds, that shows the worst one, was given the worth of one.
    more = {name: {"seeds": [1, 2]} for name in seeds}
    of = f"{worth} (of seed 1 alone)" if worth and row["study"] in more else worth
    assert worth_of(row, SimpleNamespace(noises=noises, config=more)) == of


def test_how_many_more_runs_would_decide():
    far = [0.3, 0.39, 0.5, 0.33, 0.45]
    found = worth(0.63, rounding=far)
    assert found.needed > 0
    values = [np.log(value) for value in far]
    p = p_of(values, np.log(0.63), is_distance=True)
    assert found.rounding.p == pytest.approx(2 * p)  # two measures
    assert 0.05 <= found.rounding.p < 0.2
    needed = runs_to_decide(values, np.log(0.63), is_distance=True, below=0.025, above=0.1)
    # Red before: of all, as if they were to be added.
    assert needed - len(values) == found.needed
    # And some of those that are added come to nothing, too.
    values, found = values[:4], worth(0.67, rounding=[*far[:4], 0.0])
    needed = runs_to_decide(values, np.log(0.67), is_distance=True, below=0.025, above=0.1)
    assert found.needed == np.ceil((needed - 4) * 5 / 4)


def test_where_rounding_changes_hardly_a_prediction_it_is_called_more_in_one_case_of_twenty():
    """Red before: 9 to 17 %, and the more perturbations there were, the more often."""
    draw, tables, alarms = np.random.default_rng(1), 300, 0

    def moved(kind, mean):
        number = draw.poisson(mean)
        accuracy = (900 + 2 * draw.binomial(number, 0.5) - number) / 1000
        return run(kind, accuracy=accuracy, scores=number / 1000, parameters=0.1)

    for _ in range(tables):
        found = table(rounding=[], seeds=[])
        found["runs"] += [moved("perturbation", 0.2) for _ in range(20)]
        found["runs"] += [moved("seed", 300) for _ in range(5)]
        alarms += "seed" in weigh(scale_of(found), moved("change", 0.2)).answer
    # Bound: 5 %, and twice its standard error.
    assert alarms / tables <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / tables)


def test_where_no_run_moves_a_metric_a_change_that_does_is_not_called_rounding():
    still = {"reference": [0.9], "perturbation": [0.9] * 5, "seed": [0.92, 0.88, 0.91, 0.895]}
    nothing = {"rounding": [0.001] * 5, "accuracy": still}
    assert worth(0.001, 0.9, **nothing).answer == "no more than rounding"
    found = worth(0.001, 0.901, **nothing)
    assert found.answer == "undecided"
    # By its rank alone: 1 / (n + 1), twice for two measures; the reference is one of 6 values.
    assert found.needed == 40 - 6
    # Red before: no number of them decided, and 80 were said to.
    many = {"rounding": [0.001] * 40, "accuracy": still | {"perturbation": [0.9] * 40}}
    assert worth(0.001, 0.901, **many).answer == "no more than another seed"
    # Far beyond the smallest share that can be told, it is more, whatever was not seen to scatter.
    assert worth(0.3, 0.9, **nothing).answer == "no more than another seed"


def test_a_perturbation_that_came_to_nothing_widens_no_interval():
    """One of five did in a short training of digits; everything then was no more than rounding."""
    far = {"rounding": [*ROUNDING[:4], 0.0]}
    assert scale_of(table(**far)).absorbed == 1
    assert worth(0.385, **far).answer == "no more than rounding"
    assert worth(0.6, **far).answer == "no more than another seed"
    # Of one alone nothing is known.
    assert worth(0.5, rounding=[0.39, 0.0, 0.0, 0.0, 0.0]).answer == "undecided"
    # Nor of none. Red before: the zeros were the scale, and everything was more than they.
    found = worth(0.01, rounding=[0.0] * 5)
    assert (found.answer, found.reason) == (
        "undecided",
        "fewer than two perturbed runs of which anything is left",
    )
    assert seeds_are_more(scale_of(table(rounding=[0.0] * 5, accuracy=STILL))) is None


STILL = {**ACCURACY, "perturbation": [0.9] * 5}


@pytest.mark.parametrize(
    ("rounding", "is_said"), [([5e-8] * 5, True), ([0.4, 0.3, 0, 0, 0], False)]
)
def test_trainings_too_short_for_rounding_to_grow_are_named(rounding, is_said):
    """Red before: "undecided" beside distances a million times apart, and no cure."""
    found = table(rounding=rounding, accuracy=STILL)
    said = ground(found, scale_of(found))
    assert "perturbations came to nothing" in said
    assert ("came to nothing: of these no more is left than the last place" in said) == is_said


def of_classes(**far):
    found = table(accuracy=STILL, **far)
    scores = next(m for m in found["measures"] if m["name"] == "scores")
    scores |= {"kind": "values"}
    return found


def test_what_would_show_more_than_predicted_classes_is_said():
    """Red before: 5 of 5 perturbations came to nothing, and nothing said what would help."""
    found = of_classes(rounding=[0.0] * 5)
    scale = scale_of(found)
    helps = "scores changes by whole values only; let predict_step return numbers, such as scores"
    assert f"5 of 5 perturbations came to nothing: {helps}" in ground(found, scale)
    changed = run("change", "threads 2", accuracy=0.9, scores=0.0)
    assert clause(changed, weigh(scale, changed)) == (
        f"threads 2 (fewer than two perturbed runs of which anything is left: {helps})"
    )
    # Scores are there, or enough is left, or the weights themselves end as they were.
    still = of_classes(rounding=[0.0] * 5)
    for each in still["runs"]:
        each["answer"] = "equal"
    for other in (table(rounding=[0.0] * 5), of_classes(rounding=[0.0, 0.1, 0.1]), still):
        assert "whole values" not in ground(other, scale_of(other))


def test_a_change_is_told_from_rounding_only_from_some_times_as_far_on():
    """1,000 changes that go as far as is said: 80 % of them are told, within twice the error."""
    draw = np.random.default_rng(1)
    told, number = 0, 1000
    for _ in range(number):
        logs = draw.normal(0, 0.3, 6)
        scale = scale_of(table(rounding=list(np.exp(logs[:5]) / 100)))
        # The factor of the true deviation; the scale itself knows the measured one alone.
        exact = scale_of(table(rounding=list(np.exp(TRUE) / 100)))
        times = told_from(exact)
        tested = scale.test(
            run("change", accuracy=0.9, scores=times * np.exp(logs[5]) / 100), scale.rounding
        )
        told += tested.p < 0.05
    assert told / number == pytest.approx(0.8, abs=0.03)


# Five values with a standard deviation of 0.3.
TRUE = 0.3 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0])


def test_whether_seeds_are_more_than_rounding():
    scale = scale_of(table())
    assert tells_seeds(scale)
    assert not seeds_are_no_more(scale)
    assert seeds_are_more(scale) is True
    as_wide = table(
        rounding=[0.66, 0.72, 0.68, 0.70, 0.69],
        accuracy={**ACCURACY, "perturbation": [0.93, 0.87, 0.9, 0.91, 0.89]},
    )
    assert seeds_are_more(scale_of(as_wide)) is False
    assert seeds_are_more(scale_of(table(seeds=[]))) is None


def alone(kind, **far):
    """The scale of a metric, or of predicted classes, and nothing else."""
    found = table(**far)
    of = next(m for m in found["measures"] if (m["kind"] == "metric") == (kind == "metric"))
    found["measures"] = [{**of, "kind": kind}]
    return scale_of(found)


def test_a_metric_that_no_run_moves_shows_nothing():
    """A network that always predicts one class; red before: no seed goes further than rounding."""
    still = {"reference": [0.1], "perturbation": [0.1] * 5, "seed": [0.1] * 4}
    scale = alone("metric", accuracy=still)
    assert seeds_are_more(scale) is None
    found = weigh(scale, run("change", accuracy=0.1))
    assert (found.answer, found.needed) == ("undecided", None)
    # Red before: 14 more perturbations would probably decide.
    assert clause(run("change", "threads 2"), found) == (
        "threads 2 (no perturbation and no seed moves accuracy: log a finer metric, such as a "
        "loss, rounding: p = 1 by accuracy, another seed: p = 1 by accuracy)"
    )
    # What moves beside it is what is judged by.
    assert seeds_are_more(scale_of(table(seeds=ROUNDING[:4], accuracy=still))) is False


@pytest.mark.parametrize("times", [2, 3])
def test_a_coarse_metric_shows_no_seed_to_go_no_further(times):
    """Red before: of 5 and 5 runs in 17 %, at twice as far; three equal counts looked exact."""
    draw, tables = np.random.default_rng(1), 150

    def counts(middle, far, number):
        return [float(count) / 100 for count in np.round(draw.normal(middle, far, number))]

    for number in (3, 5):
        wrong = 0
        for _ in range(tables):
            middle = 80 + draw.random()
            reference = draw.normal(middle, 0.2 * times)
            accuracy = {
                "reference": counts(reference, 0, 1),
                "perturbation": counts(reference, 0.2, number),
                "seed": counts(middle, 0.2 * times, number - 1),
            }
            wrong += seeds_are_no_more(alone("metric", accuracy=accuracy))
        assert wrong / tables <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / tables)


@pytest.mark.parametrize("of_rounding", [0.5, 1])
def test_a_few_predictions_show_no_seed_to_go_no_further(of_rounding):
    """Red before: of 5 and 5 runs in 23 and 11 %, at twice as many predictions that change."""
    draw, tables = np.random.default_rng(1), 150
    wrong = 0
    for _ in range(tables):
        rounding, seeds = (
            [float(count) / 360 for count in draw.poisson(mean, number)]
            for mean, number in ((of_rounding, 5), (2 * of_rounding, 4))
        )
        wrong += seeds_are_no_more(alone("values", rounding=rounding, seeds=seeds))
    assert wrong / tables <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / tables)


def test_by_parameters_only_where_there_is_nothing_else():
    assert [m["name"] for m in scale_of(table()).measures] == ["accuracy", "scores"]
    bare = table()
    bare["measures"] = bare["measures"][2:]
    assert [m["name"] for m in scale_of(bare).measures] == ["parameters"]
    nothing = table()
    nothing["measures"] = []
    assert weigh(scale_of(nothing), run("change", parameters=1.0)).answer == "not comparable"


def test_the_test_is_that_of_a_future_value():
    """By hand: the values 1 to 5 and 7, with n - 1 degrees and s √(1 + 1/n)."""
    ratio = (7 - 3) / (np.std([1, 2, 3, 4, 5], ddof=1) * np.sqrt(1.2))
    assert p_of([1, 2, 3, 4, 5], 7, is_distance=True) == pytest.approx(t.sf(ratio, 4))
    assert p_of([1, 2, 3, 4, 5], 7, is_distance=False) == pytest.approx(2 * t.sf(ratio, 4))
    bound = bound_of([1, 2, 3, 4, 5], 0.05)
    assert p_of([1, 2, 3, 4, 5], bound, is_distance=True) == pytest.approx(0.05)


def test_what_lies_close_together_calls_nothing_more_that_is_near():
    """Red before: five perturbations 1.63 to 1.71 apart, and a change at 1.79: p = 0.049."""
    tight = np.log([1.63, 1.65, 1.67, 1.69, 1.71])
    assert p_of(tight, np.log(1.79), is_distance=True) == 1.0
    assert p_of(tight, np.log(2.5), is_distance=True) < 0.001
    assert np.exp(bound_of(tight, 0.05)) == pytest.approx(1.25 * np.exp(np.mean(tight)))


def test_pixels_of_few_images_are_no_independent_samples():
    """Red before: 8 images of 64 times 64 pixels had the noise floor of 32,768 samples."""
    found = table()
    found["samples"] = [8]
    accuracies = iter(range(30_000, 31_000, 37))
    for of in found["runs"]:
        of["values"]["accuracy"] = next(accuracies) / (8 * 64 * 64)
    floor_of = floors(found)[0]
    assert (floor_of.samples, floor_of.binomial) == (None, None)


@pytest.mark.parametrize(("samples", "said"), [([], None), ([100, 250], 100), ([60, 40], 100)])
def test_a_share_may_be_of_one_loader_or_of_all(samples, said):
    found = table()
    found["samples"] = samples
    for index, of in enumerate(found["runs"]):
        of["values"]["accuracy"] = (90 + index % 7) / 100
    assert floors(found)[0].samples == said


def test_samples_of_which_several_values_are_predicted_are_counted_once():
    """Red before: a share of 100 samples was taken for one of as many as were predicted."""
    found = table()
    found["samples"] = [10_000]
    for each in found["runs"]:
        each["values"]["accuracy"] = round(each["values"]["accuracy"], 2)
    assert floors(found)[0].samples == 100


@pytest.mark.parametrize(
    ("first", "step", "samples"),
    [
        (4e-5, 1e-6, None),  # red before: a loss of 0.004 of 101 samples, and a share of 1
        (1 - 4e-5, 1e-6, None),
        (0.0099, 1e-5, None),  # red before: as near to 1 of 101 samples as 0.01
        (80 / 101, 1 / 101, 101),
        (0.0, 1 / 101, 101),
    ],
)
def test_a_small_loss_is_no_share_of_samples(first, step, samples):
    found = table()
    found["samples"] = [101]
    for index, each in enumerate(found["runs"]):
        # As float32 has it, of the mean of batches.
        each["values"]["accuracy"] = float(np.float32(first + index % 4 * step))
    assert floors(found)[0].samples == samples


@pytest.mark.exhaustive
def test_the_noise_floor_of_a_metric():
    (found,) = floors(table())
    seeds = [0.90, *ACCURACY["seed"]]
    assert found.seeds.value == pytest.approx(np.std(seeds, ddof=1))
    # Two runs from two seeds: t with n - 1 degrees of freedom, of a difference with variance 2 s².
    assert found.luck == pytest.approx(t.isf(0.025, 4) * np.sqrt(2) * np.std(seeds, ddof=1))
    # All are whole numbers of 200ths, so that there may be no more samples.
    assert found.binomial == pytest.approx(np.sqrt(np.mean(seeds) * (1 - np.mean(seeds)) / 200))
    assert list(found.detectable.values()) == sorted(found.detectable.values(), reverse=True)
    spread = scatter(seeds)
    for number in (3, 10):
        # The mean over what the true deviation may be, of which five values were measured.
        draws = np.random.default_rng(1).chisquare(4, 400)
        powers = []
        for true in spread.deviation * np.sqrt(4 / draws):
            groups = [
                Scatter(number=number, mean=mean, deviation=true)
                for mean in (found.detectable[number], 0.0)
            ]
            powers.append(power_with(*groups, number))
        # Red before: 0.68, since the measured deviation was taken for the true one.
        assert np.mean(powers) == pytest.approx(0.8, abs=0.03)
    assert not found.outliers
    odd = table(accuracy={**ACCURACY, "seed": [0.901, 0.899, 0.9, 0.5]})
    assert floors(odd)[0].outliers[0][0] == "seed 5"


def test_a_metric_that_is_no_share_has_no_binomial_deviation_and_one_that_stands_still_no_luck():
    moved = {kind: [value + 0.00037 for value in values] for kind, values in ACCURACY.items()}
    assert floors(table(accuracy=moved))[0].binomial is None
    still = {kind: [0.9] * len(values) for kind, values in ACCURACY.items()}
    (found,) = floors(table(accuracy=still))
    assert (found.luck, set(found.detectable.values())) == (0.0, {None})
    assert floors(table(seeds=[], accuracy={**ACCURACY, "seed": []})) == []
    assert detectable(scatter([1.0, 1.0]), 3) is None


def test_grubbs_and_the_interval_of_a_deviation_are_those_of_tables():
    """Grubbs' critical value for n = 5 at 5 %, two-sided, is 1.715; NIST's for n = 8 is 2.126."""
    for number, critical in ((5, 1.715), (8, 2.126)):
        rest = -critical / (number - 1)
        spread = np.sqrt((1 - (critical**2 + (number - 1) * rest**2) / (number - 1)) * (number - 1))
        # The others scatter so that the whole has a deviation of 1 and a mean of 0.
        others = np.linspace(-1, 1, number - 1)
        others *= spread / np.sqrt((others**2).sum())
        assert outlier([critical, *(others + rest)]) == pytest.approx(0.05, abs=2e-3)
    assert outlier([1.0, 2.0]) is None
    # Red before: p < 0.001 of ties, whatever the distance.
    for tied in ([0.9, 0.9, 0.95], [0.9, 0.9, 0.9, 0.91], [0.9, 0.9, 0.9, 0.9, 0.95]):
        assert outlier(tied) is None
    # The chi-squared values of 4 degrees: 0.4844 and 11.143.
    found = deviation([1, 2, 3, 4, 5])
    ends = [np.sqrt(2.5 * 4 / chi) for chi in (11.1433, 0.48442)]
    assert found.interval == pytest.approx(ends, rel=1e-4)


def test_the_examples_in_the_docstrings():
    for module in (future, floor):
        assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def simulation():
    spec = importlib.util.spec_from_file_location("luck", ROOT / "docs/measurements/luck.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_of_changes_that_are_rounding_or_seeds_one_in_twenty_is_called_more():
    """500 scales each; the bound of 5 % and twice the error of so many, 2 %."""
    worths = simulation().worths
    rounding = worths(500, runs=5, at=0.39)
    more = ("no more than another seed", "more than another seed")
    assert sum(rounding[answer] for answer in more) / 500 <= 0.07
    assert rounding["no more than rounding"] / 500 >= 0.75
    seeds = worths(500, runs=5, at=0.68)
    assert seeds["more than another seed"] / 500 <= 0.07
    assert seeds["no more than rounding"] / 500 <= 0.07


def test_where_perturbations_grow_unequally_a_change_is_called_more_more_often():
    """500 scales; docs/method.md says 12 % of sizes that differ by a factor of 7, and 3 % more."""
    more = simulation().more_by_chance
    assert more(500, runs=5, spread=0.0) <= 0.08
    assert more(500, runs=5, spread=2.0) <= 0.15


@pytest.mark.parametrize(("seeds", "errors"), [(10, 0.3), (20, 0.1), (40, 0.3)])
def test_counts_of_a_few_errors_have_no_outlier_oftener_than_they_may(seeds, errors):
    """Red before: 8 to 50 % of seeds that are alike; equal counts looked exact."""
    generator = np.random.default_rng(3)
    groups = 1 - generator.poisson(errors, (200, seeds)) / 500
    found = [outlier(list(values)) for values in groups]
    assert sum(p is not None and p < 0.05 for p in found) <= 0.07 * len(groups)


def test_one_that_is_far_from_counts_with_ties_is_an_outlier():
    assert outlier([0.9, 0.9, 0.91, 0.92, 0.1]) < 0.001


def test_a_share_is_of_the_samples_of_the_loader_that_its_name_tells():
    """Red before: three even counts of 100 were taken for those of the other loader's 50."""
    name = "accuracy/dataloader_idx_1"
    found = table() | {"samples": [50, 100]}
    found["measures"] = [{"name": name, "kind": "metric", "floor": 0.0}]
    values = {"seed 1": 0.92, "seed 2": 0.9, "seed 3": 0.94}
    kinds = {"seed 1": "reference"}
    found["runs"] = [run(kinds.get(of, "seed"), of, **{name: v}) for of, v in values.items()]
    assert floors(found)[0].samples in (100, None)


def test_what_float32_rounds_is_no_step_of_a_metric():
    """Red before: two roundings of one count made the smallest step next to nothing."""
    measure = {"name": "accuracy", "kind": "metric", "floor": 0.0}
    exact = scatter_of_few([0.75, 0.8125, 0.875], measure)
    rounded = scatter_of_few([0.75, 0.75 + 5e-8, 0.8125, 0.875], measure)
    assert exact == 0.03125
    assert rounded == pytest.approx(exact, rel=1e-6)

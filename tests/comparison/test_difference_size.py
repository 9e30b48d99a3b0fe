"""What is rounding and what is not: planted changes at each precision."""

import numpy as np
import pytest
import torch
from comparing import compared
from example_runs import example_parameters, thinned, with_settings, write_run
from example_trainings import VARIANT

from twinrun.comparison.compare import compare
from twinrun.comparison.conditions import conditions
from twinrun.comparison.difference_size import size_of
from twinrun.comparison.matrix import tabulate
from twinrun.comparison.study_records import read_matrix
from twinrun.config.traced_steps import traced_steps

STEPS = 6
PRECISIONS = {
    "64-true": {"precision": "64-true"},
    "32-true": {"precision": "32-true"},
    "TF32": {"precision": "32-true", "accelerator": "gpu"},
    "16-mixed": {"precision": "16-mixed"},
    "bf16-mixed": {"precision": "bf16-mixed"},
    "bf16-true": {"precision": "bf16-true"},
}
TYPES = {"64-true": torch.float64, "bf16-true": torch.bfloat16}  # of parameters
# Of the network of `example_runs`, from its shapes: the largest that rounding explains.
EXPLAINED = {"64-true": 3e-15, "32-true": 1.5e-6, "TF32": 7e-3, "16-mixed": 7e-3} | dict.fromkeys(
    ("bf16-mixed", "bf16-true"), 6e-2
)


def moving(apart, *, start=2, rates=(1,) * STEPS):
    """Return the sampled elements of a baseline, which moves, and of a run that parts from it.

    apart: how far from the baseline, relative to its movement, from the step `start` on.
    """
    way = np.cumsum(rates)[:, None] * np.ones((STEPS, 4))
    late = np.clip(way - way[start - 2], 0, None)
    return {"baseline": way, "cell": way + apart * late}


def cell(
    folder,
    *,
    planted,
    losses=1,
    step=2,
    how=None,
    losses_before=None,
    sample=None,
    buffers=None,
    gives=({}, {}, {}),
):
    """Return the cell of a run that differs from the baseline's as planted.

    gives: beside their weights, of the baseline, its repeat and the cell.
    """
    variant = VARIANT | (how or {})
    # No numbers of float32, as a double network's losses are.
    base = losses_before or [1.1] * STEPS
    dtype = TYPES.get(variant["precision"], torch.float32)
    factors = np.broadcast_to(losses, STEPS)
    other = [
        value * factors[n - 1] if n >= step else value for n, value in enumerate(base, start=1)
    ]
    samples = sample if isinstance(sample, dict) else {"cell": sample}
    norm = {"norm": torch.ones(2)}
    same = {
        "losses": base,
        "planted": [],
        "parameters": {name: value.to(dtype) for name, value in example_parameters().items()},
        "sample": samples.get("baseline"),
        "buffers": norm,
    }
    changed = {
        "losses": other,
        "planted": planted,
        "parameters": moved(dtype),
        "sample": samples["cell"],
        "buffers": buffers or norm,
    }
    runs = [
        write_run(
            folder / name,
            repeat,
            **options
            | given
            | {"changes": {"settings.variant": variant, **given.get("changes", {})}},
        )
        for (name, repeat, options), given in zip(
            (("baseline", 1, same), ("repeat", 2, same), ("cell", 1, changed)), gives, strict=True
        )
    ]
    paths = [folder / "matrix/repeat.json", folder / "matrix/cell.json"]
    for path, run in zip(paths, runs[1:], strict=True):
        tables = {key: path.with_suffix(f".{key}.csv") for key in ("tensors", "steps")}
        compare([runs[0], run], summary=path, across=True, **tables)
    tabulate(
        [{"name": path.stem, "label": path.stem, "not_run": None} for path in paths],
        paths,
        workload="denoiser",
        baseline="plain",
        seed=1,
        table=folder / "matrix.csv",
        summary=folder / "matrix.json",
    )
    return read_matrix(folder / "matrix.json")["cells"][1]


def moved(dtype):
    by = 0.1 if dtype == torch.bfloat16 else 1e-6
    return {name: (value + by).to(dtype) for name, value in example_parameters().items()}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("planted", "cause"),
    [
        ((0, "initial", "encoder.bias"), "initial weights"),
        ((2, "before", None), "between steps"),
        ((2, "random", "numpy"), "RNG state"),
        ((2, "random_after", "torch"), "RNG state"),
        ((2, "batch", None), "data content"),
    ],
)
def test_other_weights_batches_and_random_numbers_are_never_rounding(
    tmp_path, precision, planted, cause
):
    """However little they move the loss."""
    found = cell(
        tmp_path,
        planted=[planted, (2, "loss", None)],
        losses=1 + 1e-9,
        how=PRECISIONS[precision],
    )
    assert (found["cause"], found["size"]) == (cause, "algorithmic")
    assert "which the rounding of the steps does not cause" in found["sentence"]


@pytest.mark.parametrize("rate", [0.2, 0.1 * (1 + 1e-9)])
def test_another_setting_of_the_optimizer_is_never_rounding(tmp_path, rate):
    """Red before: of the class `optimizer`, it was judged by how far the parameters moved."""
    found = {}
    for repeat, value in ((1, 0.1), (2, rate)):
        run = write_run(tmp_path, repeat, planted=[(2, "optimizer", "head.weight")] * (repeat - 1))
        found[repeat] = with_settings(run, ["learning rate of group 0"], (1, 0, value))
    summary, _, _ = compared(tmp_path, *found.values())
    assert summary["first_difference"]["quantity"] == "optimizer settings"
    size = size_of(summary, tmp_path / "seed1.steps.csv")
    assert (size.size, size.judged_by) == ("algorithmic", "cause")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("quantity", ["buffers", "loss", "own_gradients", "gradients"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_difference_beyond_what_the_formats_explain_is_not_rounding(
    tmp_path, precision, quantity
):
    """Nor is it algorithmic in a format of few digits, where a network may enlarge rounding.

    Red before: "more than rounding explains" of a critic and of a sharp softmax under bfloat16.
    """
    names = {"buffers": "norm", "gradients": "head.weight"}
    planted = [(2, quantity, names.get(quantity)), (3, "loss", None)]
    planted += [(step, "parameters", "head.weight") for step in range(2, STEPS + 1)]
    is_forward = quantity in ("buffers", "loss")
    beyond = "algorithmic" if precision in ("64-true", "32-true") else "undecided"
    for factor, size in ((0.9, "rounding"), (1.5, beyond)):
        apart = factor * EXPLAINED[precision] * (1 if is_forward else 2)
        found = cell(
            tmp_path / str(factor),
            planted=planted,
            losses=1 + apart,
            step=2 if is_forward else 3,
            how=PRECISIONS[precision],
            sample=moving(1 if factor > 1 else 1e-9),
        )
        assert (found["size"], found["judged_by"]) == (size, "losses"), found["sentence"]
        assert found["apart"] == pytest.approx(apart, rel=0.1)
        assert ("fewer digits" in found["sentence"]) == (size == "undecided")


@pytest.mark.parametrize(("apart", "size"), [(2e-7, "rounding"), (1e-4, "algorithmic")])
@pytest.mark.parametrize("precision", ["32-true", "TF32", "16-mixed", "bf16-mixed"])
@pytest.mark.parametrize("quantity", ["optimizer", "parameters"])
def test_what_the_optimizer_makes_of_equal_gradients_is_judged_by_the_parameters(
    tmp_path, quantity, precision, apart, size
):
    found = cell(
        tmp_path,
        planted=[(2, quantity, "head.weight"), (3, "loss", None)],
        how=PRECISIONS[precision],
        sample=np.ones((STEPS, 4)) + apart * (np.arange(STEPS) > 0)[:, None],
    )
    assert (found["size"], found["judged_by"]) == (size, "parameters")
    assert found["apart"] == pytest.approx(apart)


@pytest.mark.parametrize("losses", [[0.0] * STEPS, [float("nan")] * STEPS])
def test_where_no_loss_shows_it_the_size_is_undecided(tmp_path, losses):
    found = cell(tmp_path, planted=[(2, "gradients", "head.weight")], losses_before=losses)
    assert (found["answer"], found["size"]) == ("differs", "undecided")
    assert "no step shows" in found["sentence"]


def test_a_small_loss_is_a_difference_of_large_numbers(tmp_path):
    """Of 1e-4 of the first loss, a hundred times as much is explained as of the first."""
    losses = [1.0, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4]
    for apart, size in ((1e-4, "rounding"), (2e-4, "undecided")):
        found = cell(
            tmp_path / size, planted=[(2, "loss", None)], losses=1 + apart, losses_before=losses
        )
        assert found["size"] == size


def from_step(step, quantity, tensor):
    return [(n, quantity, tensor) for n in range(step, STEPS + 1)]


GRADIENTS = (1, "gradients", "head.weight")


def test_a_schedule_that_begins_at_0_is_judged_where_the_parameters_diverge(tmp_path):
    """Red before: the losses of step 2 were 0 apart, since step 1 had moved nothing."""
    planted = [GRADIENTS, *from_step(2, "parameters", "head.weight"), (3, "loss", None)]
    rates = (0, *(1,) * (STEPS - 1))
    for apart, size in ((0.6, "algorithmic"), (1e-7, "rounding")):
        found = cell(
            tmp_path / size,
            planted=planted,
            losses=1 + apart * 1e-3,
            step=3,
            sample=moving(apart, rates=rates),
        )
        assert (found["size"], found["judged_by"]) == (size, "losses"), found["sentence"]
        assert found["apart"] == pytest.approx(apart * 1e-3, rel=1e-3)


def test_where_no_parameter_diverges_losses_show_no_update(tmp_path):
    """Red before: "rounding", of losses that nothing could move."""
    found = cell(tmp_path, planted=[GRADIENTS], sample=moving(0))
    assert found["size"] == "undecided"
    assert "no step shows what the updates made of it" in found["sentence"]


@pytest.mark.parametrize(
    ("losses", "apart"),
    [(1 + 4e-5, 1e-7), (1 + 1e-9, 0.6)],
    ids=["loss is a difference of large numbers", "loss hardly feels the update"],
)
def test_where_losses_and_updates_disagree_it_is_undecided_and_both_are_said(
    tmp_path, losses, apart
):
    """Red before: the losses alone decided, "more" in one case and "no more" in the other."""
    planted = [GRADIENTS, *from_step(1, "parameters", "head.weight"), (2, "loss", None)]
    found = cell(tmp_path, planted=planted, losses=losses, sample=moving(apart))
    assert found["size"] == "undecided"
    for words in ("losses", "of the way they moved apart"):
        assert words in found["sentence"]


ALONE = [(1 + 5e-4, "nothing else shows it"), (1 + 1e-9, "no step shows what the updates made")]


@pytest.mark.parametrize(("losses", "words"), ALONE)
def test_a_sample_without_any_parameter_that_diverges_is_no_witness(tmp_path, losses, words):
    """Red before: 0 apart in the sample, though parameters differed, counted as rounding."""
    planted = [GRADIENTS, *from_step(1, "parameters", "head.weight"), (2, "loss", None)]
    found = cell(tmp_path, planted=planted, losses=losses, sample=moving(0))
    assert (found["size"], found["judged_by"]) == ("undecided", "losses"), found["sentence"]
    assert words in found["sentence"]


@pytest.mark.parametrize(("losses", "words"), ALONE)
@pytest.mark.parametrize("quantity", ["optimizer", "parameters"])
def test_nor_where_the_optimizer_made_them_of_equal_gradients(tmp_path, quantity, losses, words):
    """Red before: "rounding", by parameters of which none that differs was looked at."""
    planted = [(2, quantity, "head.weight"), *from_step(3, "parameters", "head.weight")]
    planted += [(3, "loss", None)]
    found = cell(tmp_path, planted=planted, losses=losses, step=3, sample=moving(0))
    assert found["size"] == "undecided"
    assert words in found["sentence"]


def test_updates_alone_do_not_decide_where_a_module_gives_no_loss(tmp_path):
    """Adam makes a whole step of a gradient that is but rounding. Red before: "algorithmic"."""
    planted = [GRADIENTS, *from_step(1, "parameters", "head.weight")]
    found = cell(
        tmp_path, planted=planted, losses_before=[float("nan")] * STEPS, sample=moving(0.6)
    )
    assert (found["size"], found["judged_by"]) == ("undecided", "updates")
    assert "nothing else shows it" in found["sentence"]


def test_buffers_that_diverge_where_parameters_do_not_are_no_rounding(tmp_path):
    """Red before: a moving average that only predicts was off by 1.6 %, and nothing said so."""
    planted = [GRADIENTS, *from_step(1, "parameters", "head.weight"), (2, "loss", None)]
    for off, size in ((1.6e-2, "undecided"), (1e-6, "rounding")):
        found = cell(
            tmp_path / size,
            planted=planted,
            losses=1 + 1e-9,
            sample=moving(1e-7),
            buffers={"norm": torch.ones(2) + off},
        )
        assert found["size"] == size
        assert found["buffers_relative_l2"] == pytest.approx(off, rel=0.1)
        assert "of the buffers that differ" in found["sentence"]


def measures(value):
    """Give what a test of 50 samples measures."""
    return {"changes": {"metrics": {"t": value}, "evaluated_on.numbers": {"test": [50]}}}


def logs(*values, name="val_loss"):
    return {"epochs": {name: values}}


def predicts(*values, dtype=torch.float32):
    return {"predictions": {"scores": torch.tensor(values, dtype=dtype)}}


ROWS = [[0.25, 0.75]] * 10


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        # Red before: by a rounding of the weights, which cannot be 7 % of a loss.
        (map(measures, (1.235, 1.235, 1.154)), "t in the test is 1.235 and 1.154"),
        (map(measures, (1.235, 1.235, 1.235001)), None),
        # One sample of them may be a near tie, and is no sign of anything; so of percents, counts.
        (map(measures, (0.9, 0.9, 0.92)), None),
        (map(measures, (90.0, 90.0, 92.0)), None),
        (map(measures, (45.0, 45.0, 46.0)), None),
        (map(measures, (0.9, 0.9, 0.94)), "t in the test is 0.9 and 0.94"),
        # What does not repeat shows nothing of a change.
        (map(measures, (0.31, 0.37, 0.35)), None),
        ([logs(9.0, 1.0), logs(9.0, 1.0), logs(9.0, 1.1)], "val_loss in epoch 2 is 1.0 and 1.1"),
        # A difference of numbers that were as large as earlier ones.
        ([logs(9.0, 1e-5), logs(9.0, 1e-5), logs(9.0, 2e-5)], None),
        ([logs(1.0, 2.0), logs(1.0, 2.1), logs(1.0, 3.0)], None),
        ([logs(1.0), logs(1.0), logs(1.0, name="other")], "val_loss in epoch 1 is 1.0 and none"),
        ([logs("inf", 1.0)] * 2 + [logs("inf", 1.1)], "val_loss in epoch 2 is 1.0 and"),
        ([logs(1.0), logs(1.0), logs("nan")], "val_loss in epoch 1 is 1.0 and nan"),
        (
            [predicts(*ROWS), predicts(*ROWS), predicts(*[[1.25, 1.75]] * 10)],
            "scores are predicted a relative L2 of 1.79 apart",
        ),
        ([predicts(*ROWS), predicts(*ROWS), predicts(*[[0.25, 0.750001]] * 10)], None),
        ([predicts(*ROWS), predicts(*ROWS), predicts(*ROWS * 2)], "in another shape or type"),
        ([predicts(*ROWS), predicts(*[[2.0, 1.0]] * 10), predicts(*[[0.0, 1.0]] * 10)], None),
        # Classes, as numbers of any type: one of them may turn.
        (
            [predicts(*[1, 2, 3], dtype=torch.int64)] * 2 + [predicts(1, 2, 4, dtype=torch.int64)],
            None,
        ),
        ([predicts(1.0, 2.0, 3.0)] * 2 + [predicts(1.0, 2.0, 4.0)], None),
        ([predicts(1.0, 2.0, 3.0)] * 2 + [predicts(1.0, 3.0, 4.0)], "scores differ in 2 of 3"),
    ],
)
def test_evaluation_that_diverges_where_weights_do_not_is_no_rounding(tmp_path, gives, words):
    found = cell(tmp_path, planted=DIVERGED, losses=1 + 1e-9, sample=moving(1e-7), gives=[*gives])
    assert found["size"] == ("rounding" if words is None else "undecided"), found["sentence"]
    assert words is None or words in found["sentence"]


def test_nor_is_evaluation_asked_where_weights_are_apart(tmp_path):
    """Training may have enlarged a rounding, and so may a metric."""
    gives = [*map(measures, (1.235, 1.235, 1.154))]
    apart = {name: value + 1e-2 for name, value in example_parameters().items()}
    gives[-1]["parameters"] = apart
    found = cell(tmp_path, planted=DIVERGED, losses=1 + 1e-9, sample=moving(1e-7), gives=gives)
    assert found["size"] == "rounding"


DIVERGED = [GRADIENTS, *from_step(1, "parameters", "head.weight"), (2, "loss", None)]


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ((4, "batch", None), "from step 4 the batches are others"),
        ((5, "random", "numpy"), "from step 5 the RNG states are others"),
    ],
)
def test_what_a_later_step_is_given_otherwise_is_no_rounding(tmp_path, planted, words):
    """Red before: "rounding", and the advice that no code of the user's has to be at fault."""
    found = cell(
        tmp_path, planted=[*DIVERGED, planted], losses=1 + 1e-9, step=2, sample=moving(1e-7)
    )
    assert (found["first_step"], found["quantity"]) == (1, "gradients")
    assert found["size"] == "undecided"
    assert words in found["sentence"]


def test_nor_are_settings_of_the_same_step(tmp_path):
    """Red before: gradients come first in a step, and hid the rate that it was given."""
    runs = [
        with_settings(
            write_run(
                tmp_path,
                repeat,
                planted=DIVERGED * (repeat - 1),
                losses=[1.0] * STEPS,
                sample=moving(1e-7)["cell" if repeat == 2 else "baseline"],
            ),
            ["learning rate of group 0"],
            (1, 0, rate),
        )
        for repeat, rate in ((1, 0.1), (2, 0.1 * (1 + 1e-9)))
    ]
    summary, _, _ = compared(tmp_path, *runs)
    assert summary["first_difference"]["quantity"] == "gradients"
    size = size_of(summary, tmp_path / "seed1.steps.csv")
    assert size.size == "undecided"
    assert "from step 1 the optimizer's settings are others" in size.doubt


def test_nor_is_another_number_of_steps_behind_it(tmp_path):
    """Red before: "rounding", and nothing said that one training had ended earlier."""
    runs = [
        write_run(
            tmp_path,
            repeat,
            num_steps=steps,
            planted=DIVERGED[:3] * (repeat - 1),
            losses=[1.0] * steps,
            sample=moving(1e-7)["cell" if repeat == 2 else "baseline"][:steps],
        )
        for repeat, steps in ((1, STEPS), (2, 4))
    ]
    summary, _, _ = compared(tmp_path, *runs)
    size = size_of(summary, tmp_path / "seed1.steps.csv")
    assert size.size == "undecided"
    assert "one training has 6 steps and the other 4" in size.doubt
    assert "the runs end at steps 6 and 4" in conditions(summary)


def test_nor_where_nobody_saw_what_later_steps_were_given(tmp_path):
    """Red before: "rounding" of the first steps, where other batches of later ones went unseen."""
    trace, runs = {"every": None, "first": 4}, []
    for repeat, planted in ((1, []), (2, DIVERGED)):
        run = write_run(
            tmp_path,
            repeat,
            planted=planted,
            losses=[1.0] * STEPS,
            sample=moving(1e-7)["cell" if repeat == 2 else "baseline"],
            changes={"settings.variant.trace": trace},
        )
        runs.append(thinned(run, traced_steps(trace)))
    summary, _, _ = compared(tmp_path, *runs)
    size = size_of(summary, tmp_path / "seed1.steps.csv")
    assert size.size == "undecided"
    assert "what the steps that were not traced were given is not known" in size.sentence()


@pytest.mark.parametrize("shown_by", ["losses", "updates"])
@pytest.mark.parametrize("precision", ["64-true", "32-true"])
def test_nor_is_a_later_step_that_tears_the_runs_apart(tmp_path, precision, shown_by):
    """Red before: "rounding", of a loss that is another one from the second epoch on."""
    rounded = {"64-true": 1e-15, "32-true": 1e-7}[precision]
    for leap, size in ((0.1, "undecided"), (20 * rounded, "rounding")):
        apart = np.where(np.arange(STEPS) < 4, rounded, leap)
        of = {"losses": apart, "updates": np.full(STEPS, rounded)}
        if shown_by == "updates":
            of = {"losses": of["updates"], "updates": of["losses"]}
        way = moving(0)["baseline"]
        found = cell(
            tmp_path / size,
            planted=[*DIVERGED, *from_step(3, "loss", None)],
            losses=1 + of["losses"],
            how=PRECISIONS[precision],
            sample={"baseline": way, "cell": way + np.cumsum(of["updates"])[:, None]},
        )
        assert (found["first_step"], found["size"]) == (1, size), found["sentence"]
        assert ("but step 5 brings" in found["sentence"]) == (size == "undecided")


@pytest.mark.parametrize(("moved_apart", "size"), [(2, "undecided"), (3, "algorithmic")])
def test_updates_of_a_few_elements_may_be_steps_of_rounding(tmp_path, moved_apart, size):
    """Red before: "algorithmic", of Barlow Twins and PPO whose samples came in another order."""
    sample = moving(0.6)
    sample["cell"][:, moved_apart:] = sample["baseline"][:, moved_apart:]
    found = cell(tmp_path, planted=DIVERGED, losses=1 + 1e-3, sample=sample)
    assert found["size"] == size, found["sentence"]
    assert ("an optimizer may step by rounding" in found["sentence"]) == (size == "undecided")


@pytest.mark.parametrize(("apart", "size"), [(1e-9, "undecided"), (1e-15, "rounding")])
def test_losses_of_fewer_digits_than_the_network_hide_what_they_would_show(tmp_path, apart, size):
    """Red before: "rounding", by float32's bound, of updates 1e7 times what float64 rounds."""
    found = cell(
        tmp_path,
        planted=DIVERGED,
        losses_before=[1.0] * STEPS,
        how=PRECISIONS["64-true"],
        sample=moving(apart),
    )
    assert found["size"] == size, found["sentence"]
    assert size == "undecided" or found["bound"] < 1e-14


@pytest.mark.parametrize(("size_of_parameters", "size"), [(1e4, "undecided"), (1.0, "rounding")])
def test_parameters_that_hardly_move_do_not_show_an_optimizers_state(
    tmp_path, size_of_parameters, size
):
    """Red before: "rounding", of a momentum that was 5 % apart under a small rate."""
    way = moving(0)["baseline"] + size_of_parameters
    found = cell(
        tmp_path,
        planted=[(2, "optimizer", "head.weight"), *from_step(2, "parameters", "head.weight")],
        sample={"baseline": way, "cell": way * (1 + 1e-8 * (np.arange(STEPS) > 0)[:, None])},
    )
    assert found["size"] == size, found["sentence"]

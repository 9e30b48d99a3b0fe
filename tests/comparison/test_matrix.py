"""What a matrix says of planted differences: answer, size, predictions, sentence."""

import numpy as np
import pandas as pd
import pytest
import torch
from drawing import Drawing
from example_results import ACTUAL
from example_runs import example_parameters, fail, write_run
from example_trainings import VARIANT

from twinrun import artifacts
from twinrun.comparison.compare import compare
from twinrun.comparison.matrix import sentence, tabulate
from twinrun.figures.matrix import cells as draw
from twinrun.report.advice_causes import of_cell
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.matrix import baseline_repeats, seed_matters, withstands_changes

STEPS = 6
IDENTITY = {"workload": "denoiser", "baseline": "plain", "seed": 1}
CLASSES = torch.eye(10)  # of ten samples, each its own class


class Study:
    """Cells in a folder, each a run compared with the baseline's."""

    def __init__(self, folder):
        self.folder, self.cells, self.comparisons = folder, [], []
        self.baseline = self.run("baseline", 1)

    def run(self, name, repeat, *, predictions=CLASSES, precision="32-true", seed=1, **options):
        changes = {
            "variant": name if name not in ("baseline", "repeat", "seed") else "plain",
            "seed": seed,
            "settings.variant": VARIANT | {"precision": precision},
        } | options.pop("changes", {})
        scores = predictions if isinstance(predictions, dict) else {"scores": predictions}
        failed = options.pop("failed", None)
        options = {"sample": way(STEPS + 1), **options}
        run = write_run(self.folder / name, repeat, changes=changes, predictions=scores, **options)
        return run if failed is None else fail(run, failed)

    def add(self, name, *, not_run=None, **options):
        self.cells.append({"name": name, "label": f"{name}: changed", "not_run": not_run})
        if not_run is None:
            stem = self.folder / f"matrix/{name}"
            compare(
                [self.baseline, self.run(name, 2 if name == "repeat" else 1, **options)],
                summary=f"{stem}.json",
                tensors=f"{stem}.tensors.csv",
                steps=f"{stem}.steps.csv",
                across=True,
            )
            self.comparisons.append(f"{stem}.json")

    def tabulated(self):
        table, summary = self.folder / "matrix.csv", self.folder / "matrix.json"
        tabulate(self.cells, self.comparisons, **IDENTITY, table=table, summary=summary)
        return pd.read_csv(table).set_index("cell"), artifacts.read_json(summary)


LOSSES = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]


def other_weights(by=1e-3):
    return {name: value + by for name, value in example_parameters().items()}


def way(turned_at):
    """Return parameters that move by 1 a step, and by less from a step on."""
    rates = np.where(np.arange(1, STEPS + 1) < turned_at, 1, 0.3)
    return np.cumsum(rates)[:, None] * np.ones((STEPS, 4))


def diverged(step, factor, *, by=1e-3):
    """A run whose losses are `factor` times those of the baseline from a step on.

    By more than 1e-6, its updates are others, too.
    """
    rows = range(step, STEPS + 1)
    moved = [(n, "parameters", "head.weight") for n in rows] if factor > 1 + 1e-6 else []
    return {
        "planted": [(n, "loss", None) for n in rows] + moved,
        "sample": way(step if moved else STEPS + 1),
        "losses": [loss * (factor if n >= step else 1) for n, loss in enumerate(LOSSES, start=1)],
        "parameters": other_weights(by),
    }


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = Study(tmp_path_factory.mktemp("study"))
    swapped = CLASSES.clone()
    swapped[0], swapped[1] = CLASSES[1], CLASSES[0]
    study.add("repeat")
    study.add("same")
    study.add("tiny", **diverged(2, 1 + 2**-23), predictions=CLASSES * 2)
    study.add("large", **diverged(3, 1.01), predictions=swapped)
    study.add("bfloat", **diverged(1, 1.01), precision="bf16-mixed")
    study.add("shuffled", **diverged(1, 1.2), precision="bf16-mixed")
    study.add("other", changes={"data.sha256": "e" * 64})
    study.add("absent", not_run="no GPU on this machine")
    study.add("seed", **diverged(1, 1.5), seed=2)
    return study


def test_answers_and_where_runs_diverge(study):
    table, summary = study.tabulated()
    assert summary["answer"] == "equal"
    assert summary["scale"] == pytest.approx(0.5)
    assert table["answer"].to_dict() == {
        "repeat": "equal",
        "same": "equal",
        "tiny": "differs",
        "large": "differs",
        "bfloat": "differs",
        "shuffled": "differs",
        "other": "not comparable",
        "absent": "not run",
        "seed": "differs",
    }
    assert table["first_step"].dropna().to_dict() == {
        "tiny": 2,
        "large": 3,
        "bfloat": 1,
        "shuffled": 1,
        "seed": 1,
    }
    assert table.loc["tiny", "relative_l2"] > table.loc["same", "relative_l2"] == 0


def test_the_size_is_told_by_the_numbers_computed_with_and_by_another_seed(study):
    """1 % is far beyond rounding in float32, where updates are, too; in bfloat16 nothing is."""
    assert study.tabulated()[0]["size"].dropna().to_dict() == {
        "tiny": "rounding",
        "large": "algorithmic",
        "bfloat": "undecided",
        "shuffled": "undecided",
        "seed": "algorithmic",
    }


@pytest.mark.parametrize(
    ("changed", "size"),
    [
        ({"threads": 3}, "undecided"),
        ({"layout": "channels_last", "environment": {"MKL_CBWR": "COMPATIBLE"}}, "undecided"),
        ({"accumulate": 2}, "undecided"),
        ({"environment": {"MY_LOSS": "other"}}, "algorithmic"),
        ({"environment": {"PYTHONHASHSEED": "7"}}, "algorithmic"),
        ({"environment": {"PYTHONOPTIMIZE": "1"}}, "algorithmic"),
        ({"environment": {"MALLOC_PERTURB_": "165"}}, "algorithmic"),
        ({"threads": 3, "data_workers": 2}, "algorithmic"),
    ],
)
def test_another_order_of_sums_is_never_called_more_than_rounding(tmp_path, changed, size):
    """Red at 2638ad3c: "more than rounding explains" of two threads, in a line search."""
    study = Study(tmp_path)
    study.baseline = study.run("baseline", 1, changes={"actual": ACTUAL})
    study.add("repeat", changes={"actual": ACTUAL})
    had = {name: value for name, value in changed.items() if name in ("threads", "accumulate")}
    changes = {"settings.variant": VARIANT | changed, "actual": ACTUAL | had}
    study.add("other", **diverged(1, 1.2), changes=changes)
    row = study.tabulated()[0].loc["other"]
    assert row["size"] == size
    assert ("the same sums" in row["sentence"]) == (size == "undecided")


IN_PART = {"setting": "accumulate", "sentence": "in part, a sum", "in_part": True}


@pytest.mark.parametrize(("batch_norm", "departures"), [("joined", []), ("none", [IN_PART])])
def test_what_parts_compute_otherwise_is_more_than_rounding(tmp_path, batch_norm, departures):
    study = Study(tmp_path)
    study.add("repeat")
    changes = {
        "settings.variant": VARIANT | {"accumulate": 2},
        "actual": ACTUAL | {"accumulate": 2, "batch_norm": batch_norm},
        "departures": departures,
    }
    study.add("other", **diverged(1, 1.2), changes=changes)
    assert study.tabulated()[0].loc["other", "size"] == "algorithmic"


def test_what_steps_keep_is_the_first_cause_that_a_cell_names(tmp_path):
    """Red before: "undecided", for what may be rounding, and the cause stood behind all else."""
    study = Study(tmp_path)
    study.baseline = study.run("baseline", 1, changes={"actual": ACTUAL})
    study.add("repeat", changes={"actual": ACTUAL})
    kept = {"setting": "accumulate", "sentence": "in part, attributes change", "in_part": True}
    changes = {
        "settings.variant": VARIANT | {"accumulate": 2},
        "actual": ACTUAL | {"accumulate": 2, "batch_norm": "none"},
        "departures": [{**kept, "in_doubt": True}],
    }
    study.add("other", **diverged(1, 1.2), changes=changes)
    row = study.tabulated()[1]["cells"][1]
    # A counter need not change the training, which may be one that enlarges rounding.
    assert row["size"] == "undecided"
    said = "; not as its variant says: in part, attributes change; undecided whether rounding"
    assert said in row["sentence"]
    assert row["sentence"].count("attributes change;") == 1
    assert "; but it is not known whether what parts of a mini-batch change" in row["sentence"]
    advice = of_cell({**row, "label": "accumulate: 2"}) or ""
    assert advice.startswith("the run was not as its variant says in what the cell names")


def test_scores_count_by_the_class_that_they_predict(study):
    table, _ = study.tabulated()
    assert set(table["predictions"].dropna()) == {"positions of a row's largest value"}
    shares = table["predictions_changed"]
    assert (shares["same"], shares["tiny"], shares["large"]) == (0, 0, 0.2)


def test_values_count_by_their_bytes(tmp_path):
    study = Study(tmp_path)
    study.baseline = study.run("baseline", 1, predictions=torch.zeros(4))
    study.add("repeat", predictions=torch.zeros(4))
    study.add("other", **diverged(1, 1.1), predictions=torch.tensor([0.0, -0.0, 1.0, 0.0]))
    table, _ = study.tabulated()
    assert table["predictions_changed"]["other"] == 0.5
    assert table["predictions"]["other"] == "predicted values"


def test_boxes_beside_unchanged_scores_count(tmp_path):
    """Red before: the largest scores alone counted, and 0 % was said to change."""
    study = Study(tmp_path)
    boxes = {"scores": CLASSES, "boxes": torch.ones(5, 2, 4)}
    study.baseline = study.run("baseline", 1, predictions=boxes)
    study.add("repeat", predictions=boxes)
    study.add("other", **diverged(1, 1.1), predictions={**boxes, "boxes": torch.zeros(5, 2, 4)})
    table, _ = study.tabulated()
    assert table["predictions_changed"]["other"] == 1.0
    assert "all else by its bytes" in table["predictions"]["other"]


def test_a_sentence_for_each_cell(study):
    sentences = study.tabulated()[0]["sentence"]
    assert sentences["same"] == "every bit of 6 steps stays the same."
    assert sentences["absent"] == "not run, no GPU on this machine."
    assert not any("tried" in cell for cell in study.tabulated()[1]["cells"])
    assert sentences["large"].startswith("differs from step 3, first in the loss")
    assert "more than rounding explains" in sentences["large"]
    assert sentences["large"].endswith("20% of the positions of a row's largest value change.")
    assert "not comparable, data.sha256 is" in sentences["other"]


def test_where_the_baseline_does_not_repeat_no_cell_is_comparable(tmp_path):
    study = Study(tmp_path)
    study.add("repeat", **diverged(1, 1.1))
    study.add("same")
    table, summary = study.tabulated()
    assert summary["answer"] == "differs"
    assert table["answer"].to_dict() == {"repeat": "differs", "same": "not comparable"}
    assert "the baseline does not repeat" in table["sentence"]["same"]


def test_nothing_ran(tmp_path):
    study = Study(tmp_path)
    study.add("repeat", not_run="no GPU on this machine")
    table, summary = study.tabulated()
    assert summary["answer"] == table["answer"]["repeat"] == "not run"


@pytest.mark.parametrize(
    ("compilation", "answer"),
    [
        (None, "not run"),
        ({"calls": 6, "compilations": 0, "reasons": []}, "not run"),
        ({"calls": 6, "compilations": 1, "reasons": []}, "equal"),
    ],
)
def test_a_compiled_run_in_which_nothing_was_compiled_is_not_run(tmp_path, compilation, answer):
    study = Study(tmp_path)
    study.add("repeat")
    changes = {"settings.variant.compile": "module", "compilation": compilation}
    study.add("compiled", changes=changes)
    row = study.tabulated()[1]["cells"][1]
    assert (row["answer"], row["reason"]) == (
        answer,
        None if answer == "equal" else "nothing was compiled (the runs are equal all the same)",
    )


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("seed", {"seed": 2}, "though the seed is another one: it decides nothing"),
        ("half", {"precision": "bf16-mixed"}, "though the precision is another one"),
    ],
)
def test_where_nothing_differs_that_must_it_is_said(tmp_path, name, options, words):
    study = Study(tmp_path)
    study.add("repeat")
    study.add(name, **options)
    row = study.tabulated()[1]["cells"][1]
    assert row["answer"] == "equal"
    assert words in row["sentence"]


def test_trainings_of_two_seeds_that_broke_show_nothing_of_the_seed(tmp_path):
    """Red before: "it decides nothing", of two that end in the same NaN after other losses."""
    study = Study(tmp_path)
    study.add("repeat")
    changes = {"no_result": "its weights are NaN"}
    study.add("seed", seed=2, changes=changes, planted=[(n, "loss", None) for n in (1, 2)])
    _, summary = study.tabulated()
    assert "decides nothing" not in summary["cells"][1]["sentence"]
    assert seed_matters(Evidence(path="x", found=summary)) == []


def test_another_seed_that_moves_rng_states_alone_decides_nothing(tmp_path):
    """Its RNG states are others from the first step on, and nothing is ever drawn from them."""
    study = Study(tmp_path)
    study.add("repeat")
    study.add("seed", seed=2, planted=[(n, "random", "torch") for n in range(1, STEPS + 1)])
    study.add("drawn", planted=[(n, "random", "torch") for n in range(3, STEPS + 1)])
    _, summary = study.tabulated()
    _, seed, drawn = summary["cells"]
    assert (seed["answer"], seed["quantity"], seed["size"]) == ("differs", "RNG states", None)
    assert seed["sentence"].startswith(
        "differs from step 1, first in the RNG states of torch (cause: RNG state); at the end "
        "every parameter and buffer is the same; "
    )
    words = "; though the seed is another one: it decides nothing of this training."
    assert seed["sentence"].endswith(words)
    assert "at the end every parameter and buffer is the same" in drawn["sentence"]
    assert "seed" not in drawn["sentence"]
    (row,) = seed_matters(Evidence(path="x", found=summary))
    assert (row["key"], row["answer"]) == ("seed_matters", "no")
    assert row["measured"] == f"{seed['label']}: {seed['sentence'].removesuffix('.')}"


@pytest.mark.parametrize(
    ("factor", "size", "said"),
    [
        (1 + 2**-23, "rounding", "no more than rounding explains (losses 1.19×10⁻⁷ of their"),
        (1.01, "undecided", "undecided whether rounding explains it: losses 0.0100 of their size"),
    ],
)
def test_losses_apart_before_the_same_weights_are_measured_by_rounding(
    tmp_path, factor, size, said
):
    """Red before: "the forward pass computes otherwise", of a unit in the last place."""
    study = Study(tmp_path)
    study.add("repeat")
    losses = [*LOSSES[:1], LOSSES[1] * factor, *LOSSES[2:]]
    study.add("threads", planted=[(2, "loss", None)], losses=losses)
    cell = study.tabulated()[1]["cells"][1]
    assert (cell["same_weights"], cell["size"], cell["judged_by"]) == (True, size, "losses")
    assert f"(cause: forward); {said}" in cell["sentence"]
    assert "; at the end every parameter and buffer is the same" in cell["sentence"]
    assert "rounding" in (of_cell(cell) or "")


def test_another_seed_that_changes_a_buffer_matters(tmp_path):
    study = Study(tmp_path)
    study.baseline = study.run("baseline", 1, buffers={"seen": torch.zeros(2)})
    study.add("repeat", buffers={"seen": torch.zeros(2)})
    study.add("seed", seed=2, buffers={"seen": torch.ones(2)})
    assert seed_matters(Evidence(path="x", found=study.tabulated()[1])) == []


def test_a_cell_names_a_resumed_run_and_a_loss_that_is_no_number(tmp_path):
    study = Study(tmp_path)
    study.add("repeat")
    study.add("stopped", changes={"resumed_at": [3]})
    study.add("broken", **diverged(3, float("nan")))
    sentences = study.tabulated()[0]["sentence"]
    assert "run 2 was resumed after step 3" in sentences["stopped"]
    assert "the loss of run 2 is not finite from step 3 on" in sentences["broken"]


def test_the_verdicts_of_a_matrix_say_what_its_equal_cells_rest_on(tmp_path):
    study = Study(tmp_path)
    broken = {"losses": [1.0, 1.0, *[float("nan")] * 4]}
    study.baseline = study.run("baseline", 1, **broken)
    study.add("repeat", **broken)
    study.add("stopped", changes={"resumed_at": [3]}, **broken)
    _, summary = study.tabulated()
    found = Evidence(path="x", found=summary)
    assert "the loss is not finite from step 3 on" in baseline_repeats(found)["measured"]
    measured = withstands_changes(found)["measured"]
    assert "stopped: changed: the loss is not finite from step 3 on" not in measured
    assert "stopped: changed: run 2 was resumed after step 3" in measured


def test_the_map_says_each_value_in_words(study, tmp_path):
    study.tabulated()
    draw(study.folder / "matrix.json", output=tmp_path / "cells.svg")
    text = (tmp_path / "cells.svg").read_text()
    for words in ("tiny: changed", "rounding", "algorithmic", "not comparable", "not run", "20%"):
        assert f">{words}</text>" in text, words


def test_the_map_does_not_name_a_step_where_those_before_it_were_not_traced(tmp_path):
    """Red before: "20", of a difference between step 11 and 20."""
    study = Study(tmp_path)
    study.add("repeat")
    study.add("tiny", **diverged(3, 1.001))
    study.tabulated()
    path = tmp_path / "matrix.json"
    table = artifacts.read_json(path)
    for cell in table["cells"]:
        if cell["cell"] == "tiny":
            cell["since"] = 2
            assert ", seen in the " in sentence(cell)
            assert "first in" not in sentence(cell)
    artifacts.write_json(path, table)
    draw(path, output=tmp_path / "cells.svg")
    assert "by 3" in Drawing(tmp_path / "cells.svg").texts


def test_a_training_that_failed_costs_its_own_cell_alone(tmp_path):
    study = Study(tmp_path)
    study.add("repeat")
    study.add("broken", failed="no memory")
    study.add("same")
    table, summary = study.tabulated()
    assert summary["answer"] == "equal"
    assert table["answer"].to_dict() == {"repeat": "equal", "broken": "not run", "same": "equal"}
    expected = "not run, variant broken failed: no memory."
    assert table.loc["broken", "sentence"] == expected
    assert {cell["cell"] for cell in summary["cells"] if cell.get("tried")} == {"broken"}


def test_a_baseline_that_failed_leaves_a_matrix_that_says_so(tmp_path):
    study = Study(tmp_path)
    fail(study.baseline, "no memory")
    study.add("repeat")
    study.add("same")
    table, summary = study.tabulated()
    assert (summary["answer"], summary["reason"]) == ("not run", "variant plain failed: no memory")
    assert set(table["answer"]) == {"not run"}
    draw(tmp_path / "matrix.json", output=tmp_path / "cells.svg")
    assert Drawing(tmp_path / "cells.svg").texts.count("not run") == 2

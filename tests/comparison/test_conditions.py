"""What an answer rests on is said beside it: resumed runs, losses that are no numbers, seeds."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from comparing import compared, pair, verdicts
from example_comparisons import compared as equal_pair
from example_runs import example_parameters, write_run

from twinrun.comparison.conditions import conditions, when_not_finite
from twinrun.comparison.not_held import is_untrained
from twinrun.comparison.tables import non_finite_loss
from twinrun.process.read_files import newer

NAN = float("nan")


def broken(first_step=3):
    weights = {"weight": torch.full((3,), NAN), "bias": torch.tensor([1.0, float("inf")])}
    losses = [1.0] * (first_step - 1) + [NAN] * (7 - first_step)
    return {"parameters": weights, "losses": losses}


def test_a_training_that_diverged_to_nan_is_not_simply_equal(tmp_path):
    row = verdicts(tmp_path, *pair(tmp_path, **broken()))["repeats"]
    assert row["answer"] == "equal"
    assert "the loss is not finite from step 3 on" in row["measured"]
    assert "4 of 5 parameters are not finite" in row["measured"]


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [([7, 7], [7, 7], True), ([7, 8], [8, 8], False), ([7, 8], [8, 7], False), ([], [], False)],
)
def test_a_training_that_changes_nothing_is_said_to(before, after, is_so):
    """Red before: "equal", of a learning rate of 0 or steps without a loss."""
    table = pd.DataFrame({"before": before, "parameters": after}, dtype="uint64")
    table = table.assign(step=range(1, len(table) + 1))
    whole = {"steps": len(table)}
    assert is_untrained(SimpleNamespace(manifest=whole, steps=table, fingerprints={})) is is_so
    found = equal_pair(is_untrained=is_so).found
    assert ("no step changes a parameter" in conditions(found)) is is_so


@pytest.mark.parametrize(
    ("steps", "losses", "words"),
    [
        # A step of mixed precision that overflows is left out, and the training goes on.
        ([1, 2, 3, 4], [1, NAN, 1, 1], "at step 2"),
        ([1, 2, 3, 4], [1, 1, 1, NAN], "at step 4"),
        ([1, 2, 3, 4], [1, NAN, 1, NAN], "at 2 steps, the first of them step 2"),
        ([1, 2, 3, 4], [1, NAN, NAN, NAN], "from step 2 on"),
        ([3, 6], [NAN, NAN], "from step 3 on, if not since step 1"),
        ([1, 4, 8], [1, 1, NAN], "at step 8, if not since step 5"),
    ],
)
def test_of_a_loss_that_is_not_finite_it_is_said_when(steps, losses, words):
    """Red before: of a single step it was said to be so from there on."""
    table = pd.DataFrame({"step": steps, "loss": losses, "loss_fingerprint": 1})
    assert when_not_finite(non_finite_loss(SimpleNamespace(steps=table))) == words


def test_what_is_not_finite_in_one_run_alone_names_it(tmp_path):
    sound = {"parameters": {"weight": torch.ones(3), "bias": torch.ones(2)}}
    row = verdicts(tmp_path, *pair(tmp_path, second=broken(), **sound))["repeats"]
    assert row["answer"] == "differs"
    assert "the loss of run 2 is not finite from step 3 on" in row["measured"]
    assert "4 of 5 parameters of run 2 are not finite" in row["measured"]


def test_a_step_that_gives_no_loss_is_not_a_broken_one(tmp_path):
    """As with manual optimization; the fingerprint of nothing is 0."""
    runs = pair(tmp_path, losses=[NAN] * 6, has_loss=False)
    assert "finite" not in verdicts(tmp_path, *runs)["repeats"]["measured"]


@pytest.mark.parametrize(
    ("resumed_at", "words"),
    [
        (([], [15]), "run 2 was resumed after step 15"),
        (([5], [5]), "run 1 was resumed after step 5; run 2 was resumed after step 5"),
        (([], [5, 10]), "run 2 was resumed after steps 5 and 10"),
    ],
)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("planted", [[], [(2, "gradients", "head.weight")]])
def test_every_sentence_that_rests_on_a_resumed_run_says_so(
    tmp_path, resumed_at, words, across, planted
):
    runs = [
        write_run(tmp_path, number, planted=planted * (number - 1), changes={"resumed_at": at})
        for number, at in enumerate(resumed_at, start=1)
    ]
    (row, *_) = verdicts(tmp_path, *runs, across=across).values()
    assert words in row["measured"]


def test_several_seeds_name_the_one_whose_run_was_resumed(tmp_path):
    runs = [
        write_run(
            tmp_path / str(seed),
            repeat,
            parameters={"weight": torch.full((2,), float(seed))},
            changes={"seed": seed, "resumed_at": [15] if (seed, repeat) == (2, 2) else []},
        )
        for seed in (1, 2)
        for repeat in (1, 2)
    ]
    measured = verdicts(tmp_path, *runs)["repeats"]["measured"]
    assert "seed 2: run 2 was resumed after step 15" in measured


@pytest.mark.parametrize("across", [False, True])
def test_what_a_resumed_run_made_anew_is_named_beside_each_answer(tmp_path, across):
    """Red before: an answer was silent about a cache that no checkpoint held."""
    changes = [{}, {"resumed_at": [15], "made_anew": ["Rows.images"]}]
    runs = [write_run(tmp_path, turn, changes=each) for turn, each in enumerate(changes, start=1)]
    (row, *_) = verdicts(tmp_path, *runs, across=across).values()
    assert "; Rows.images, which no checkpoint held, was made anew as data" in row["measured"]


@pytest.mark.parametrize("across", [False, True])
def test_files_of_earlier_trainings_are_named_beside_each_answer(tmp_path, across):
    """Red before: of two trainings of which one began with what the other had left."""
    changes = [
        {"found_files": {"changed": [], "kept": ["x.npy", "last.pt"]}},
        {"found_files": {"changed": ["last.pt"], "kept": ["x.npy"]}},
    ]
    runs = [write_run(tmp_path, turn, changes=each) for turn, each in enumerate(changes, start=1)]
    (row, *_) = verdicts(tmp_path, *runs, across=across).values()
    assert "; the file last.pt was opened to be read as an earlier training" in row["measured"]
    assert "; the file x.npy was made once, ahead of the steps, for all" in row["measured"]


@pytest.mark.parametrize("across", [False, True])
def test_a_cache_that_is_older_than_its_source_is_named_beside_each_answer(tmp_path, across):
    files = {"found_files": {"changed": [], "kept": []}}
    read = {"read_files": {"rows.csv": newer("all.pt", "f00"), "all.pt": "f01"}}
    runs = [write_run(tmp_path, turn, changes={**files, **read}) for turn in (1, 2)]
    (row, *_) = verdicts(tmp_path, *runs, across=across).values()
    assert "; the file all.pt was made of another rows.csv than there is now" in row["measured"]


@pytest.mark.parametrize("across", [False, True])
def test_runs_that_were_given_anothers_file_are_no_pair(tmp_path, across):
    """Red at 11f271a7: a pair said "equal" of two runs that were "no result" by themselves."""
    files = {"changed": [], "kept": [], "disturbing": ["best.pt"]}
    runs = [write_run(tmp_path, turn, changes={"found_files": files}) for turn in (1, 2)]
    (row, *_) = verdicts(tmp_path, *runs, across=across).values()
    assert row["answer"] == "not run"
    assert "it has used best.pt, which another training wrote or removed meanwhile" in str(row)


# Validation, metrics and predictions

OUTPUTS = {
    "repeats_logged": (
        {"epochs": {"val_loss": [3.54, 3.0]}},
        {"epochs": {"val_loss": [4.10, 3.0]}},
        "1 of 2 values differs, first val_loss in epoch 1: 3.54 and 4.1",
    ),
    "repeats_metrics": (
        {"changes": {"metrics": {"accuracy": 0.5, "loss": 1.0}}},
        {"changes": {"metrics": {"accuracy": 0.25, "loss": 1.0}}},
        "1 of 2 metrics differs, first accuracy: 0.5 and 0.25",
    ),
    "repeats_predictions": (
        {"predictions": {"scores": torch.tensor([0.0, 1.0, 2.0])}},
        {"predictions": {"scores": torch.tensor([-0.0, 1.0, 3.0])}},
        "2 of 3 values differ, first of scores",
    ),
}


@pytest.mark.parametrize("key", OUTPUTS)
def test_what_a_run_gives_beside_its_weights_has_a_verdict_of_its_own(tmp_path, key):
    first, second, words = OUTPUTS[key]
    rows = verdicts(tmp_path, *pair(tmp_path, second=second, **first))
    assert rows["repeats"]["answer"] == "equal"
    assert (rows[key]["answer"], words in rows[key]["measured"]) == ("differs", True), rows[key]
    # And whoever reads only the first verdict learns of it.
    assert "differ" in rows["repeats"]["measured"].partition(";")[2]


@pytest.mark.parametrize("key", OUTPUTS)
def test_equal_outputs_are_counted(tmp_path, key):
    row = verdicts(tmp_path, *pair(tmp_path, **OUTPUTS[key][0]))[key]
    assert row["answer"] == "equal"
    assert row["measured"].startswith(("0 of 2 values differ", "0 of 2 metrics", "0 of 3 values"))


def test_where_there_is_nothing_to_compare_nothing_is_asked(tmp_path):
    assert verdicts(tmp_path, *pair(tmp_path, epochs={})).keys() == {"repeats"}


def test_of_runs_that_are_no_pair_one_verdict_says_so(tmp_path):
    runs = pair(tmp_path, second={"changes": {"source_sha256": "0" * 64}})
    assert verdicts(tmp_path, *runs).keys() == {"repeats"}


def test_a_test_that_failed_says_why_there_is_nothing_to_compare(tmp_path):
    changes = {"not_evaluated": {"test": "ValueError: a list of strings"}}
    row = verdicts(tmp_path, *pair(tmp_path, changes=changes))["repeats_metrics"]
    assert row["answer"] == "not run"
    assert "ValueError: a list of strings" in row["measured"]


def test_what_was_not_kept_is_said_beside_what_was_compared(tmp_path):
    reason = "predict_step returns a Boxes, which cannot be looked into"
    changes = {"not_evaluated": {"boxes": reason}}
    runs = pair(tmp_path, changes=changes, predictions={"scores": torch.zeros(3)})
    row = verdicts(tmp_path, *runs)["repeats_predictions"]
    assert row["answer"] == "equal"
    assert row["measured"] == f"0 of 3 values differ; but boxes was not kept ({reason})"


def test_where_nothing_was_kept_nothing_is_equal(tmp_path):
    changes = {"not_evaluated": {"boxes": "of no use"}}
    row = verdicts(tmp_path, *pair(tmp_path, changes=changes))["repeats_predictions"]
    assert (row["answer"], row["measured"]) == ("not run", "boxes was not kept (of no use)")


@pytest.mark.parametrize("value", [NAN, float("inf")])
def test_metrics_that_are_no_numbers_are_equal_to_themselves(tmp_path, value):
    changes = {"metrics": {"accuracy": value}}
    rows = verdicts(tmp_path, *pair(tmp_path, changes=changes, epochs={"a": [value, 1.0]}))
    assert rows["repeats_metrics"]["answer"] == rows["repeats_logged"]["answer"] == "equal"


@pytest.mark.parametrize(
    "second",
    [
        {"predictions": {"other": torch.zeros(3)}},
        {"predictions": {"scores": torch.zeros(4)}},
        {"predictions": {"scores": torch.zeros(3, dtype=torch.float64)}},
        {"predictions": {"scores": torch.zeros(3), "other": torch.zeros(1)}},
        {"epochs": {"val_loss": [1.0, 2.0], "more": [1.0, 2.0]}},
        {"changes": {"metrics": {"more": 1.0}}},
    ],
)
def test_outputs_that_only_one_run_has_differ(tmp_path, second):
    first = {"predictions": {"scores": torch.zeros(3)}, "epochs": {"val_loss": [1.0, 2.0]}}
    rows = verdicts(tmp_path, *pair(tmp_path, second=first | second, **first))
    assert "differs" in {row["answer"] for row in rows.values()}


# Seeds that change nothing


def seeds(folder, same, **options):
    """Two repeats of three seeds, of which those in `same` lead to the same weights."""
    return [
        write_run(
            folder / str(seed),
            repeat,
            changes={"seed": seed},
            parameters={"weight": torch.full((2,), 0.0 if seed in same else float(seed))},
            **options,
        )
        for seed in (1, 2, 3)
        for repeat in (1, 2)
    ]


@pytest.mark.parametrize(
    ("same", "trainings", "words"),
    [
        ((1, 2, 3), "1 training", "seeds 1, 2 and 3 lead to the same parameters"),
        ((1, 3), "2 trainings", "seeds 1 and 3 lead to the same parameters"),
    ],
)
def test_seeds_that_change_nothing_are_no_further_pairs(tmp_path, same, trainings, words):
    rows = verdicts(tmp_path, *seeds(tmp_path, same))
    assert rows["repeats"]["answer"] == "equal"
    assert f"3 seeds, which are {trainings}" in rows["repeats"]["measured"]
    assert rows["seed_matters"]["answer"] == "no"
    assert words in rows["seed_matters"]["measured"]


def test_seeds_that_lead_elsewhere_are_as_many_pairs(tmp_path):
    rows = verdicts(tmp_path, *seeds(tmp_path, ()))
    assert rows["repeats"]["measured"].startswith("3 seeds: 0 of 2 parameters")
    assert "seed_matters" not in rows


def test_one_seed_says_nothing_of_seeds(tmp_path):
    assert "seed_matters" not in verdicts(tmp_path, *pair(tmp_path))


def test_the_examples_are_equal_where_nothing_is_planted(tmp_path):
    rows = verdicts(tmp_path, *pair(tmp_path, parameters=example_parameters()))
    assert rows["repeats"]["measured"] == "0 of 36 parameters differ (2 runs, 6 steps)"


def test_what_nobody_could_look_into_is_said_beside_equal(tmp_path):
    """Red before: an equal pair said nothing of batches whose objects have no fingerprint."""
    unseen = {"changes": {"not_fingerprinted": ["my_data.Graph"]}}
    row = verdicts(tmp_path, *pair(tmp_path, unseen))["repeats"]
    assert row["answer"] == "equal"
    clause = "but what objects of my_data.Graph hold in the batches could not be compared"
    assert row["measured"].endswith(clause)
    assert "could not" not in verdicts(tmp_path, *pair(tmp_path))["repeats"]["measured"]


def test_a_training_that_was_not_as_its_variant_says_is_named_once(tmp_path):
    sentence = "data_workers is 2, where the variant says 0: the data module decides it"
    departure = {"setting": "data_workers", "sentence": sentence}
    found = pair(tmp_path, changes={"departures": [departure]})
    measured = verdicts(tmp_path, *found)["repeats"]["measured"]
    assert measured.count(f"not as its variant says: {sentence}") == 1


@pytest.mark.parametrize(
    ("folders", "is_own", "words"),
    [
        (("a", "b"), True, "each run compiled for itself"),
        (("a", "a"), True, "whether compiling repeats is not shown"),
        (("a", "b"), False, "whether compiling repeats is not shown"),
        (("a", None), True, None),
        ((None, None), True, None),
    ],
)
def test_a_pair_says_whether_it_compiled_twice(folders, is_own, words, tmp_path):
    caches = [folder and {"folder": folder, "is_own": is_own} for folder in folders]
    runs = [
        write_run(tmp_path, repeat, changes={"compiler_cache": cache})
        for repeat, cache in enumerate(caches, start=1)
    ]
    row = verdicts(tmp_path, *runs)["repeats"]
    assert row["answer"] == "equal"
    assert ("compil" in row["measured"]) == (words is not None)
    assert (words or "") in row["measured"]


def test_one_of_one_and_none_of_one_are_one(tmp_path):
    """Red at da7ce76: "0 of 1 metric differ"."""
    changes = [{"metrics": {"accuracy": value}} for value in (0.5, 0.25)]
    runs = [write_run(tmp_path, repeat, changes=changes[0]) for repeat in (1, 2)]
    runs.append(write_run(tmp_path / "other", 2, changes=changes[1]))
    said = [compared(tmp_path, runs[0], run)[0]["metrics"]["measured"] for run in runs[1:]]
    assert said == ["0 of 1 metric differs", "1 of 1 metric differs, first accuracy: 0.5 and 0.25"]

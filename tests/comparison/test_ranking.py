"""A sweep: a trial that fails is kept as failed, trials are ranked, the best one is named."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from drawing import Drawing
from example_runs import write_manifest
from stored import write_tensors

from twinrun import artifacts
from twinrun.comparison.ranking import rank
from twinrun.figures.sweep import trials
from twinrun.luck.contest import contest
from twinrun.luck.standing import standing
from twinrun.trace.fingerprints import hexadecimal, joined
from twinrun.verdicts import studies, sweep
from twinrun.verdicts.evidence import Evidence

# By learning rate: the test accuracy; a text is how a trial ended otherwise.
PLANTED = {
    0.1: 0.5,
    0.2: 0.9,
    0.3: float("nan"),
    0.4: "failed: ValueError: Invalid learning rate",
    0.5: "stopped: SIGTERM",
    0.6: 0.7,
}

BESIDE = ("epochs.csv", "steps.csv", "fingerprints.npz", "predictions.safetensors")


def vouch(run, manifest):
    write_manifest(run, manifest, *map(run.with_name, BESIDE))


def write_trial(
    folder,
    rate,
    found,
    *,
    seed=1,
    metric="test_accuracy",
    weights=None,
    also=None,
    no_result=None,
    **begun,
):
    has_failed = isinstance(found, str)
    manifest = {
        "workload": f"digits~lr~{rate}",
        "variant": "one-worker",
        "seed": seed,
        "settings": {
            "workload": {"hyperparameters": {"lr": rate, "batch_size": 32} | (also or {})}
        },
        "metrics": {} if has_failed else {metric: found},
        "ended": found if has_failed else "finished",
        "weights_sha256": weights or f"{rate}-{seed}",
        "no_result": no_result,
    }
    run = folder / f"{rate}-{seed}/run.json"
    table = pd.DataFrame({"epoch": [1, 2], "train_loss": [2 * rate, rate]})
    artifacts.write_csv(run.with_name("epochs.csv"), table)
    write_tensors(run.with_name("predictions.safetensors"), {})
    states = {name: begun.pop(name) for name in ("random", "kept") if name in begun}
    write_states(run, **{"random": (seed, seed, 100 + seed)} | states)
    write_steps(run, **{"before": f"{seed:02}", "batches": (f"1{seed}", "0c")} | begun)
    vouch(run, manifest)
    return run


def write_states(run, *, random, kept=(1, 2)):
    """RNG states of Python and torch before each step, and of torch behind it."""
    python, torch_, after = random
    states = {
        "random": [[python, torch_]] * len(kept),
        "random_after": [[python, after]] * len(kept),
    }
    arrays = {name: np.array(of, dtype=np.uint64) for name, of in states.items()}
    names = {"rng_state_names": np.array(["python", "torch"]), "detail_steps": np.array(kept)}
    artifacts.write_arrays(run.with_name("fingerprints.npz"), arrays | names)


def write_steps(run, *, before, batches, first=1, epoch=1):
    rows = [
        {"step": step, "epoch": epoch, "before": before, "buffers_before": "00", "batch": batch}
        for step, batch in enumerate(batches, start=first)
    ]
    artifacts.write_csv(run.with_name("steps.csv"), pd.DataFrame(rows))


def test_trials_that_end_in_the_same_weights_are_named(tmp_path):
    """What they vary changes nothing, however the metric was measured."""
    runs = [
        write_trial(tmp_path, rate, value, weights=weights)
        for rate, value, weights in ((0.1, 0.5, "a"), (0.2, 0.6, "b"), (0.3, 0.7, "a"))
    ]
    found = ranked(tmp_path, runs)
    assert found["same"] == [["lr 0.3", "lr 0.1"]]
    row = sweep.finished(Evidence(path="x", found=found))
    assert row["measured"].endswith("; lr 0.3 and lr 0.1 lead to the same parameters")


def test_what_a_trial_begins_with_is_read(tmp_path):
    """The weights before its first step and its first batches, as far as they were traced."""
    planted = {
        0.1: {},
        0.2: {"before": "0d"},
        0.3: {"batches": ("0c", "11")},
        0.4: {"first": 2},  # nobody knows what was before
        0.5: {"before": hexadecimal(joined([]))},  # a network without parameters
        0.6: {"batches": ("11",)},
    }
    runs = [write_trial(tmp_path, rate, 0.5, **begun) for rate, begun in planted.items()]
    found = {t["point"]["lr"]: t["begun"] for t in ranked(tmp_path, runs)["trials"]}
    weights = {rate: begun["weights"] for rate, begun in found.items()}
    assert weights == {0.1: "0100", 0.2: "0d00", 0.3: "0100", 0.4: None, 0.5: None, 0.6: "0100"}
    batches = {rate: begun["batches"] for rate, begun in found.items()}
    assert batches[0.1] == batches[0.2] == batches[0.5] is not None
    assert batches[0.4] is None
    assert len({*batches.values()}) == 4


def test_the_rng_states_of_torch_are_read_apart_from_those_of_others(tmp_path):
    """A module that seeds torch, and draws noise from NumPy's generator, is met by them alone."""
    planted = {
        0.1: {},
        0.2: {"random": (9, 1, 101)},  # Python's alone is another one
        0.3: {"random": (1, 9, 101)},  # torch is seeded in the step
        0.4: {"kept": (10, 20)},
        0.5: {"kept": ()},  # `per_tensor: 0`
    }
    runs = [write_trial(tmp_path, rate, 0.5, **begun) for rate, begun in planted.items()]
    found = {t["point"]["lr"]: t["begun"] for t in ranked(tmp_path, runs)["trials"]}
    states = {rate: (begun["random"], begun["random_after"]) for rate, begun in found.items()}
    assert states[0.1] == states[0.2] != states[0.3]
    assert states[0.1][1] == states[0.3][1] is not None
    assert states[0.4] == states[0.5] == (None, None)


def test_the_rng_states_behind_later_steps_and_who_is_drawn_from_are_read(tmp_path):
    """A module may seed torch in each validation; nobody may draw from torch at all."""
    run = write_trial(tmp_path, 0.1, 0.5)
    kept = [*range(1, 41), 1000, 2000]
    states = {
        "random": [[5, 7, 10 * step, 1] for step in kept],
        "random_after": [[5, 7, 10 * step, 1 + (step == 1000)] for step in kept],
    }
    names = {"rng_state_names": np.array(["python", "numpy", "torch", "cuda:0"])}
    arrays = {name: np.array(of, dtype=np.uint64) for name, of in states.items()}
    of_steps = {"detail_steps": np.array(kept)}
    artifacts.write_arrays(run.with_name("fingerprints.npz"), arrays | names | of_steps)
    vouch(run, artifacts.read_json(run))
    (trial,) = ranked(tmp_path, [run])["trials"]
    begun = trial["begun"]
    assert begun["drawn"] == ["cuda"]
    steps = [*range(1, 17), 32, 2000]
    assert {of: [*map(int, found)] for of, found in begun["states"].items()} == {
        "python": steps,
        "numpy": steps,
        "torch": steps,
        "cuda": steps,
    }
    assert begun["states"]["torch"]["32"] == f"{320:016x}"
    assert begun["random"] == f"{10:016x}{1:016x}", "a GPU's is torch's, too"
    run = write_trial(tmp_path, 0.2, 0.5, kept=())
    (trial,) = ranked(tmp_path, [run])["trials"]
    assert (trial["begun"]["states"], trial["begun"]["drawn"]) == ({}, None), "nobody knows"


def test_batches_that_nobody_looks_into_are_not_known(tmp_path):
    run = write_trial(tmp_path, 0.1, 0.5)
    vouch(run, artifacts.read_json(run) | {"not_fingerprinted": ["Opaque"]})
    (trial,) = ranked(tmp_path, [run])["trials"]
    assert trial["begun"]["weights"] == "0100"
    assert trial["begun"]["batches"] is None


def hashes_of(digest):
    return {"in_order": {}, "in_any_order": {"test": digest} if digest else {}, "numbers": {}}


def ranked(folder, runs, metric="test_accuracy", best="highest", contestants=None):
    files = {"table": folder / "digits.csv", "summary": folder / "digits.json"}
    rank(runs, workload="digits", metric=metric, best=best, contestants=contestants, **files)
    return artifacts.read_json(files["summary"])


@pytest.mark.parametrize(("last", "value"), [("", 0.5), ("nan", None)])
def test_a_trial_counts_by_what_it_logged_last(tmp_path, last, value):
    """An epoch without the metric is passed over; a metric that became NaN is not."""
    run = write_trial(tmp_path, 0.1, 0.7)
    table = pd.DataFrame({"epoch": [1, 2], "odd": ["0.5", last]})
    artifacts.write_csv(run.with_name("epochs.csv"), table)
    vouch(run, artifacts.read_json(run))
    (trial,) = ranked(tmp_path, [run], metric="odd")["trials"]
    assert trial["rank"] == (1 if value else None)
    if value:
        assert trial["value"] == value


@pytest.mark.parametrize("name", ["variant", "seed", "rank", "ended"])
def test_a_hyperparameter_keeps_its_column_whatever_its_name(tmp_path, name):
    """Seen red: the run's own variant took its place, and no two trials differed."""
    runs = [
        write_trial(tmp_path, rate, rate, also={name: size})
        for rate, size in ((0.1, "tiny"), (0.2, "base"))
    ]
    found = ranked(tmp_path, runs)
    points = [trial["point"][f"hyperparameter {name}"] for trial in found["trials"]]
    assert points == ["base", "tiny"]
    table = pd.read_csv(tmp_path / "digits.csv")
    assert table[f"hyperparameter {name}"].tolist() == ["base", "tiny"]
    assert table["rank"].tolist() == [1, 2]


@pytest.mark.parametrize("metric", ["test_accuracy", "lr"])
def test_a_metric_of_a_hyperparameters_name_leaves_its_column(tmp_path, metric):
    """Seen red: the rate that a scheduler had come down to stood as the best one."""
    runs = []
    for rate, value in ((0.1, 0.5), (0.2, 0.9)):
        run = write_trial(tmp_path, rate, value)
        table = pd.DataFrame({"epoch": [1, 2], "lr": [rate, rate / 100]})
        artifacts.write_csv(run.with_name("epochs.csv"), table)
        vouch(run, artifacts.read_json(run))
        runs.append(run)
    found = ranked(tmp_path, runs, metric=metric)
    table = pd.read_csv(tmp_path / "digits.csv")
    assert table["lr"].tolist() == [0.2, 0.1]
    assert table["logged lr"].tolist() == [0.002, 0.001]
    assert [trial["point"]["lr"] for trial in found["trials"]] == [0.2, 0.1]
    assert all("lr" not in trial["metrics"] for trial in found["trials"])


@pytest.fixture
def runs(tmp_path):
    return [write_trial(tmp_path, rate, found) for rate, found in PLANTED.items()]


def test_trials_are_ranked_and_those_without_a_number_come_last(runs, tmp_path):
    found = ranked(tmp_path, runs)
    assert found["finished"] == 4
    order = [(trial["rank"], trial["point"]["lr"]) for trial in found["trials"]]
    assert order == [(1, 0.2), (2, 0.6), (3, 0.1), (None, 0.3), (None, 0.4), (None, 0.5)]
    table = pd.read_csv(tmp_path / "digits.csv")
    assert table.columns.tolist() == ["rank", "lr", "test_accuracy", "train_loss", "ended"]
    assert table["ended"].tolist()[4:] == [PLANTED[0.4], PLANTED[0.5]]


def test_the_last_epoch_ranks_too_and_the_lowest_may_be_best(runs, tmp_path):
    found = ranked(tmp_path, runs, metric="train_loss", best="lowest")
    assert [trial["point"]["lr"] for trial in found["trials"]][:4] == [0.1, 0.2, 0.3, 0.6]
    assert found["trials"][0]["value"] == 0.1


def test_seeds_are_trials_of_their_own(tmp_path):
    runs = [write_trial(tmp_path, 0.1, value, seed=seed) for seed, value in ((1, 0.5), (2, 0.6))]
    found = ranked(tmp_path, runs)
    assert [(trial["label"], trial["rank"]) for trial in found["trials"]] == [
        ("seed 1", 1),
        ("seed 2", 1),
    ]
    (choice,) = found["choices"]
    assert (choice["name"], choice["values"]) == ("digits~lr~0.1/one-worker", [0.5, 0.6])


def write_trials(folder, planted):
    """Write a trial for each rate and seed; the values of a rate are those of seeds 1, 2, ..."""
    return [
        write_trial(folder, rate, value, seed=seed)
        for rate, values in planted.items()
        for seed, value in enumerate(values, start=1)
    ]


def test_choices_are_ranked_by_their_mean_over_seeds(tmp_path):
    """0.2 has the best trial, and 0.1 the best mean."""
    planted = {0.1: (0.7, 0.72), 0.2: (0.9, 0.1), 0.3: (0.95, "failed: ValueError: x")}
    found = ranked(tmp_path, write_trials(tmp_path, planted))
    assert [(c["label"], c["rank"]) for c in found["choices"]] == [
        ("lr 0.1", 1),
        ("lr 0.2", 2),
        ("lr 0.3", None),
    ]
    # The mean of the seeds that went well would be one of the lucky ones.
    assert found["choices"][2]["lacks"] == "seed 2: failed: ValueError: x"
    assert found["choices"][2]["values"] == []


def test_choices_of_one_mean_share_a_rank(tmp_path):
    """Red before: ranks 1 to 4, the first by the order of the config alone."""
    planted = {0.1: (0.5, 0.7), 0.2: (0.9, 0.8), 0.3: (0.8, 0.9), 0.4: (0.5, 0.7)}
    found = ranked(tmp_path, write_trials(tmp_path, planted))
    assert [(c["label"], c["rank"]) for c in found["choices"]] == [
        ("lr 0.2", 1),
        ("lr 0.3", 1),
        ("lr 0.1", 3),
        ("lr 0.4", 3),
    ]
    assert [trial["rank"] for trial in found["trials"]] == [1, 1, 1, 1, 3, 3, 3, 3]
    assert [placed.rank for placed in standing(found).placed] == [1, 1, 3, 3]


def test_a_seed_that_gave_none_a_number_is_left_aside(tmp_path):
    planted = {0.1: (0.7, "stopped: SIGTERM"), 0.2: (0.6, float("inf"))}
    found = ranked(tmp_path, write_trials(tmp_path, planted))
    assert (found["seeds"], found["without_number"]) == ([1], [2])
    assert [choice["values"] for choice in found["choices"]] == [[0.7], [0.6]]


def test_trainings_of_equal_hyperparameters_are_two_choices_and_not_one(tmp_path):
    """As of two modules in a contest; an earlier version joined them as one."""
    runs = []
    for workload, value in (("wide", 0.5), ("narrow", 0.6)):
        for seed in (1, 2):
            run = write_trial(tmp_path / workload, 0.1, value, seed=seed)
            manifest = artifacts.read_json(run) | {"workload": workload}
            vouch(run, manifest)
            runs.append(run)
    names = {"wide/one-worker": "wide", "narrow/one-worker": "narrow"}
    found = ranked(tmp_path, runs, contestants=names)
    assert [(c["label"], c["values"]) for c in found["choices"]] == [
        ("narrow", [0.6, 0.6]),
        ("wide", [0.5, 0.5]),
    ]
    assert found["contestants"] == ["wide/one-worker", "narrow/one-worker"]
    assert found["conflict"] is None


def test_a_contest_names_what_its_runs_do_not_share(tmp_path):
    runs = [write_trial(tmp_path / name, 0.1, 0.5) for name in "ab"]
    for run, digest in zip(runs, "xy", strict=True):
        manifest = artifacts.read_json(run) | {"workload": digest}
        manifest["data"] = {"path": "d.npz", "sha256": digest}
        vouch(run, manifest)
    names = {f"{name}/one-worker": name for name in "xy"}
    found = ranked(tmp_path, runs, contestants=names)
    assert found["conflict"] == (
        "data.sha256 is 'x' in x/one-worker/seed1 and 'y' in y/one-worker/seed1"
    )


@pytest.mark.parametrize(
    ("hashes", "other"), [(["x", "x"], False), (["x", "y"], True), (["x", None], False)]
)
def test_choices_that_are_tested_on_other_samples_are_said_to_be(tmp_path, hashes, other):
    """Red before: one of them may have been tested on easier samples, without a word."""
    runs = [write_trial(tmp_path, rate, 0.5) for rate in (0.1, 0.2)]
    for run, digest in zip(runs, hashes, strict=True):
        of_run = {"evaluated_on": hashes_of(digest)}
        vouch(run, artifacts.read_json(run) | of_run)
    # Another seed may be tested on other samples, if it is so for all choices.
    again = write_trial(tmp_path, 0.1, 0.5, seed=2)
    of_run = {"evaluated_on": hashes_of("z")}
    vouch(again, artifacts.read_json(again) | of_run)
    found = ranked(tmp_path, [*runs, again])
    assert found["other_samples"] is other
    assert ("(not of the same samples for all)" in sweep.metric_in(found)) is other
    assert found["conflict"] is None  # other hyperparameters may prepare them otherwise


def test_runs_of_one_workload_that_are_tested_on_other_samples_are_not_compared(tmp_path):
    """Red before: two names of one training were apart by more than luck, of their samples."""
    runs = [write_trial(tmp_path / name, 0.1, 0.5) for name in "ab"]
    for run, name in zip(runs, "ab", strict=True):
        of_run = {"variant": name, "evaluated_on": hashes_of(name)}
        vouch(run, artifacts.read_json(run) | of_run)
    names = {f"digits~lr~0.1/{name}": name for name in "ab"}
    found = ranked(tmp_path, runs, contestants=names)
    assert found["conflict"].startswith(
        "digits~lr~0.1/a/seed1 was tested on other samples than digits~lr~0.1/b/seed1, or on "
    )


@pytest.mark.parametrize(("precisions", "is_other"), [(["32", "64"], False), (["32", "32"], True)])
def test_samples_of_two_precisions_are_those_of_the_loaders(tmp_path, precisions, is_other):
    """Red before: two precisions were not compared, since Lightning casts what steps are given."""
    runs = [write_trial(tmp_path / name, 0.1, 0.5) for name in "ab"]
    for run, name, precision in zip(runs, "ab", precisions, strict=True):
        manifest = artifacts.read_json(run)
        manifest["settings"]["variant"] |= {"precision": f"{precision}-true"}
        of_run = {"variant": name, "evaluated_on": hashes_of(name), "loaded": hashes_of("same")}
        vouch(run, manifest | of_run)
    found = ranked(tmp_path, runs, contestants={f"digits~lr~0.1/{name}": name for name in "ab"})
    assert (found["conflict"] is not None) is is_other


def test_a_logged_value_is_not_taken_for_the_tests(tmp_path):
    """One trial has no test: what its training logged under the same name is another thing."""
    runs = [write_trial(tmp_path, 0.1, 0.5, metric="acc"), write_trial(tmp_path, 0.2, 0.1)]
    for run in runs:
        table = pd.DataFrame({"epoch": [1, 2], "acc": [0.8, 0.99]})
        artifacts.write_csv(run.with_name("epochs.csv"), table)
        vouch(run, artifacts.read_json(run))
    found = ranked(tmp_path, runs, metric="acc")
    assert (found["measured_in"], found["epoch"]) == ("test", None)
    assert [(c["label"], c["lacks"]) for c in found["choices"]] == [
        ("lr 0.1", None),
        ("lr 0.2", "seed 1: its test did not log it"),
    ]


def test_values_of_two_epochs_are_not_compared(tmp_path):
    runs = []
    for rate, logged in ((0.1, ["0.5", "0.6"]), (0.2, ["0.9", ""])):
        run = write_trial(tmp_path, rate, 0.7)
        table = pd.DataFrame({"epoch": [1, 2], "val_acc": logged})
        artifacts.write_csv(run.with_name("epochs.csv"), table)
        vouch(run, artifacts.read_json(run))
        runs.append(run)
    found = ranked(tmp_path, runs, metric="val_acc")
    assert (found["measured_in"], found["epoch"]) == ("epoch", 2)
    assert found["choices"][1]["lacks"] == (
        "seed 1: logged last in epoch 1, not 2: of trainings that end in unlike epochs a metric "
        "that `test_step` logs is compared"
    )


def test_the_accuracy_of_a_network_that_is_nan_is_no_number(tmp_path):
    """Red before: nine of ten samples are of the first class, the largest of NaN: it was best."""
    broken = "its weights are NaN or infinite (net.weight)"
    runs = [
        write_trial(tmp_path, rate, value, seed=seed, no_result=broken if rate == 0.1 else None)
        for rate, value in ((0.1, 0.9), (0.2, 0.8))
        for seed in (1, 2, 3)
    ]
    found = ranked(tmp_path, runs)
    assert [(c["label"], c["values"], c["lacks"]) for c in found["choices"]] == [
        ("lr 0.2", [0.8] * 3, None),
        ("lr 0.1", [], f"seed 1, 2, 3: {broken}"),
    ]
    _, best = studies.sweep([Evidence(path="x", found=found)], [], [])
    assert best["answer"] == "undecided"
    _, best = studies.sweep([Evidence(path="x", found=ranked(tmp_path, runs[:3]))], [], [])
    assert (best["answer"], best["measured"]) == ("not run", f"no trial has a result: {broken}")


def test_what_is_nan_beside_the_metric_is_named(tmp_path):
    """Red before: a network whose test loss is NaN won, and nobody said so."""
    runs = [
        write_trial(tmp_path, rate, rate + seed / 100, seed=seed)
        for rate in (0.1, 0.9)
        for seed in (1, 2, 3)
    ]
    manifest = artifacts.read_json(runs[-1])
    manifest["metrics"] |= {"test_loss": float("nan")}
    vouch(runs[-1], manifest)
    _, best = studies.sweep([Evidence(path="x", found=ranked(tmp_path, runs))], [], [])
    assert best["answer"] == "yes"
    assert best["measured"].endswith("; but of lr 0.9, seed 3 test_loss is no number")


def test_runs_that_were_resumed_are_named(tmp_path):
    """Red before: no sweep and no contest said so, and seconds were of the last process alone."""
    runs = [
        write_trial(tmp_path, rate, rate + seed / 100, seed=seed)
        for rate in (0.1, 0.9)
        for seed in (1, 2, 3)
    ]
    vouch(runs[-1], artifacts.read_json(runs[-1]) | {"resumed_at": [6, 9]})
    found = ranked(tmp_path, runs)
    seconds = {trial["label"]: trial["fit_seconds"] for trial in found["trials"]}
    assert [label for label, of in seconds.items() if of is None] == ["lr 0.9, seed 3"]
    _, best = studies.sweep([Evidence(path="x", found=found)], [], [])
    assert best["measured"].endswith("; resumed: lr 0.9, seed 3 after steps 6 and 9")
    for trial in found["trials"]:
        trial["resumed_at"] = [6]
    _, best = studies.sweep([Evidence(path="x", found=found)], [], [])
    assert best["measured"].endswith("; 6 of 6 runs were resumed")


def test_what_a_resumed_run_made_anew_is_named(tmp_path):
    """Red before: only the verdicts on a pair said so."""
    runs = [write_trial(tmp_path, rate, rate, seed=1) for rate in (0.1, 0.9)]
    changed = {"resumed_at": [6], "made_anew": ["Rows.file"]}
    vouch(runs[-1], artifacts.read_json(runs[-1]) | changed)
    _, best = studies.sweep([Evidence(path="x", found=ranked(tmp_path, runs))], [], [])
    assert "; but of lr 0.9 Rows.file, which no checkpoint held, was made anew" in best["measured"]


@pytest.mark.parametrize(
    ("predicted", "on", "f1", "are_same"),
    [
        (lambda name, seed: seed, "abab", 1, True),
        (lambda name, seed: seed + (name == "b"), "abab", 1, False),
        (lambda name, seed: None, "abab", 1, False),
        # Red before: an index of the samples, which tells nothing of the network, was enough.
        (lambda name, seed: 7, "abab", 1, False),
        # Of other samples it may be another index, and so it may where nobody can tell.
        (lambda name, seed: seed, "acac", 1, False),
        (lambda name, seed: seed, "----", 1, False),
        # Red before: tested on other samples, or with another result.
        (lambda name, seed: seed, "abcd", 1, False),
        (lambda name, seed: seed, "abab", 2, False),
    ],
)
def test_two_are_the_same_by_all_that_tells_of_their_networks(
    tmp_path, predicted, on, f1, are_same
):
    """Red before: weights that are used otherwise were one training, and never worse."""
    runs = []
    for name in "ab":
        for seed in (1, 2):
            run = write_trial(tmp_path / name, 0.1, 0.5, seed=seed, weights=f"same{seed}")
            value = predicted(name, seed)
            tensors = {} if value is None else {"scores": torch.full((3,), float(value))}
            write_tensors(run.with_name("predictions.safetensors"), tensors)
            digest = "x" if on == "abab" else on[2 * (name == "b") + seed - 1]
            given = {} if on == "----" else {"predict": digest}
            manifest = artifacts.read_json(run) | {"variant": name}
            manifest["metrics"]["f1"] = f1 if name == "b" else 1
            manifest["evaluated_on"] = {"in_order": given, "in_any_order": {}, "numbers": {}}
            vouch(run, manifest)
            runs.append(run)
    found = ranked(tmp_path, runs, contestants={f"digits~lr~0.1/{n}": n for n in "ab"})
    assert contest(found).is_same is are_same


def test_predictions_are_hashed_for_a_contest_alone_and_once(tmp_path, monkeypatch):
    """Red before: those of each trial of a sweep were read and hashed, and nobody asked."""
    runs = [write_trial(tmp_path, 0.1, 0.5, seed=seed) for seed in (1, 2)]
    hashed, sha256 = [], artifacts.sha256
    monkeypatch.setattr(artifacts, "sha256", lambda p: hashed.append(Path(p).name) or sha256(p))
    for contestants, times in [(None, 0), ({"digits~lr~0.1/one-worker": "a"}, 2)]:
        ranked(tmp_path, runs, contestants=contestants)
        assert hashed.count("predictions.safetensors") == times


def test_a_metric_that_nobody_logs_is_one_sentence_of_a_verdict(runs, tmp_path):
    """Ranking ended with an error, so that there was no page."""
    found = ranked(tmp_path, runs, metric="accuracy")
    assert {trial["rank"] for trial in found["trials"]} == {None}
    finished, best = studies.sweep([Evidence(path="sweeps/digits.json", found=found)], [], [])
    assert finished["measured"] == "4 of 6 trials finished"
    assert (best["key"], best["answer"]) == ("best", "not run")
    logged = "sweep.metric: no trial has logged 'accuracy'; what they log: train_loss, "
    assert best["measured"].startswith(logged)
    trials(tmp_path / "digits.json", output=tmp_path / "trials.svg")
    assert "–. lr 0.1: –" in Drawing(tmp_path / "trials.svg").texts


def test_trials_that_log_nothing_are_listed(runs, tmp_path):
    for run in runs:
        artifacts.write_csv(run.with_name("epochs.csv"), pd.DataFrame({"epoch": []}))
        manifest = artifacts.read_json(run) | {"metrics": {}}
        vouch(run, manifest)
    found = ranked(tmp_path, runs)
    assert len(found["trials"]) == len(PLANTED)
    _, best = studies.sweep([Evidence(path="sweeps/digits.json", found=found)], [], [])
    assert best["measured"].endswith("what they log: nothing")
    trials(tmp_path / "digits.json", output=tmp_path / "trials.svg")
    assert "the trials log nothing" in Drawing(tmp_path / "trials.svg").text


def test_the_verdict_names_what_failed_and_what_was_best(runs, tmp_path):
    found = Evidence(path="sweeps/digits.json", found=ranked(tmp_path, runs))
    finished, best = studies.sweep([found], [], [])
    assert (finished["key"], finished["answer"]) == ("finished", "no")
    assert finished["measured"] == "4 of 6 trials finished; but without a number: lr 0.3 (nan)"
    assert (best["key"], best["answer"]) == ("best", "undecided")
    assert best["measured"] == (
        "highest test_accuracy in the test: 0.900 with lr 0.2; from one seed only, so this order "
        "may be luck: list more under sweep.seeds; lr 0.3 is not comparable (seed 1: nan); lr 0.4 "
        "is not comparable (seed 1: failed: ValueError: Invalid learning rate); lr 0.5 is not "
        "comparable (seed 1: stopped: SIGTERM)"
    )


def test_when_all_have_failed_there_is_no_best(tmp_path):
    found = ranked(tmp_path, [write_trial(tmp_path, 0.1, "failed: no memory")])
    (row,) = studies.sweep([Evidence(path="sweeps/digits.json", found=found)], [], [])
    assert row["measured"] == "0 of 1 trial finished"
    trials(tmp_path / "digits.json", output=tmp_path / "trials.svg")
    assert "no trial has finished" in Drawing(tmp_path / "trials.svg").text


def test_the_figure_names_the_best_and_the_failed(runs, tmp_path):
    ranked(tmp_path, runs)
    trials(tmp_path / "digits.json", output=tmp_path / "trials.svg")
    drawing = Drawing(tmp_path / "trials.svg")
    for words in ("1. lr 0.2: 0.900", "–. lr 0.3: –", "failed: lr 0.4", "stopped: lr 0.5"):
        assert words in drawing.texts, words

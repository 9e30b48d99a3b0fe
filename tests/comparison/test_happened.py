"""Stopped, refused, resumed and broken off are told apart, and only a resumed run is compared."""

import itertools
import json
from contextlib import suppress
from dataclasses import fields

import pytest
from comparing import compared
from example_runs import MANIFEST, write_run
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.checkpoint import interrupt
from twinrun.comparison.compare import compare
from twinrun.comparison.happened import (
    NEEDS,
    READ,
    not_in_effect,
    why_not_resumed,
    without_effect_in_part,
)
from twinrun.comparison.matrix import tabulate
from twinrun.comparison.resume_loss import diagnose
from twinrun.comparison.study_records import read_matrix, read_stops
from twinrun.config.definitions import Variant
from twinrun.process.fresh_process import rebuilt
from twinrun.run_records import is_of_batches
from twinrun.training import run as module_of_run
from twinrun.training.train import train
from twinrun.verdicts.equality import repeats
from twinrun.verdicts.evidence import Evidence

WITHOUT_VALIDATION = WORKLOAD | {"data": "stops:WithoutValidation"}
KEEPS_OBJECTS = WORKLOAD | {"module": "stops:KeepsObjects"}
OBJECTS = "a callback, optimizer, schedule or module keeps more than data"


class Ended(BaseException):
    """In place of a process that ends."""


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Train as the workflow does, in this process; return run.json."""

    def end():
        raise Ended

    def here(_, arguments, environment, **__):
        with suppress(Ended):
            train(**arguments)

    monkeypatch.setattr(interrupt, "leave", end)
    monkeypatch.setattr(module_of_run, "launch", here)
    numbers = itertools.count(1)

    def run(workload, **changes):
        folder = tmp_path / str(next(numbers))
        asked = rebuilt(train, arguments(folder, workload, VARIANT | changes))["run"]
        module_of_run.run(asked, {})
        return asked.files.manifest

    return run


def stopped(trained, folder, workload, stop, resume):
    """Train whole, and stopped; return what the study resume and what a matrix say of it."""
    whole = trained(workload)
    other = trained(workload, stop=stop, resume=resume)
    diagnose(
        [{"stop": stop, "resume": resume, "whole": whole, "stopped": other}],
        workload="small",
        variant="plain",
        seed=1,
        folder=folder,
        table=folder / "stops.csv",
        summary=folder / "stops.json",
    )
    paths = [folder / f"matrix/{name}.json" for name in ("repeat", "stopped")]
    for path, run in zip(paths, (whole, other), strict=True):
        tables = {key: path.with_suffix(f".{key}.csv") for key in ("tensors", "steps")}
        compare([whole, run], summary=path, across=True, **tables)
    tabulate(
        [{"name": path.stem, "label": path.stem, "not_run": None} for path in paths],
        paths,
        workload="small",
        baseline="plain",
        seed=1,
        table=folder / "matrix.csv",
        summary=folder / "matrix.json",
    )
    (row,) = read_stops(folder / "stops.json")["stops"]
    return row, read_matrix(folder / "matrix.json")["cells"][1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("workload", "stop", "resume", "reason"),
    [
        (WITHOUT_VALIDATION, "before_validation", "lightning", "the training has no validation"),
        (WORKLOAD, "mid_accumulation", "twinrun", "the training never comes to this point"),
        (KEEPS_OBJECTS, "mid_epoch", "twinrun", f"the checkpoint was refused: {OBJECTS}"),
        (
            WORKLOAD | {"epochs": 1},
            "mid_epoch",
            "twinrun",
            "the training never comes to this point",
        ),
    ],
)
def test_what_was_not_stopped_and_resumed_is_not_run(
    tmp_path, trained, workload, stop, resume, reason
):
    row, cell = stopped(trained, tmp_path, workload, stop, resume)
    for found in (row, cell):
        assert found["answer"] == "not run"
    assert row["lost"].startswith(reason)
    assert row["resumed_at"] is None
    assert cell["sentence"].startswith(f"not run, {reason}")
    assert cell["steps"] is None


@pytest.mark.parametrize("ended", ["refused: compile: step", "broken off: ValueError: no"])
def test_a_training_that_ended_before_the_stop_is_not_said_to_be_too_short(tmp_path, ended):
    """Red before: "the training never comes to this point" of a variant that was refused."""
    changes = {"settings.variant.stop": "mid_epoch", "was_stopped": False, "ended": ended}
    manifest = artifacts.read_json(write_run(tmp_path, changes=changes))
    assert why_not_resumed(manifest) == f"the training ended before this point ({ended})"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("resume", "answer"), [("lightning", "not run"), ("twinrun", "equal")])
def test_a_stop_behind_the_last_step_shows_nothing(tmp_path, trained, resume, answer):
    """Red before: "equal", where a third epoch would have shown what was lost."""
    row, cell = stopped(trained, tmp_path, WITHOUT_VALIDATION | {"epochs": 2}, "epoch_end", resume)
    assert row["answer"] == cell["answer"] == answer
    assert row["lost"].startswith("no step was left to train") == (answer == "not run")


def test_a_resumption_that_broke_off_is_a_result_and_says_why(tmp_path, trained):
    row, cell = stopped(trained, tmp_path, KEEPS_OBJECTS, "mid_epoch", "lightning")
    assert row["answer"] == "differs"
    assert row["lost"].startswith("the resumed training was broken off: UnpicklingError: Weights")
    assert cell["answer"] == "not comparable"
    assert "broken off: UnpicklingError" in cell["reason"]


STUBBORN = WORKLOAD | {"module": "stubborn:DecidesItself", "data": "stubborn:OwnLoader"}
STUBBORN |= {"epochs": 1}
WITHOUT = WITHOUT_VALIDATION | {"epochs": 1}
SHORT = WORKLOAD | {"epochs": 1}


def cell(trained, folder, workload, baseline, change):
    """Train a variant and a change of it; return what is said of the two runs."""
    runs = [trained(workload, **baseline), trained(workload, **baseline | change)]
    return compared(folder, *runs, across=True)[0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("workload", "baseline", "change", "reason"),
    [
        (STUBBORN, {"deterministic": False}, {"threads": 3}, "threads is 1, where the variant"),
        (STUBBORN, {"deterministic": False}, {"data_workers": 2}, "data_workers is 0, where the"),
        (STUBBORN, {}, {"deterministic": False}, "deterministic is False, where the variant says"),
        (
            STUBBORN,
            {},
            {"fill_uninitialized_memory": False},
            "fill_uninitialized_memory changes nothing here: the algorithms are not the",
        ),
        (WITHOUT, {}, {"validation": False}, "the training has no validation"),
        (SHORT, {}, {"sharding": "partitioned"}, "sharding changes nothing here: the training has"),
        (
            SHORT,
            {"deterministic": False},
            {"fill_uninitialized_memory": False},
            "fill_uninitialized_memory changes nothing here: the algorithms are not the",
        ),
    ],
)
def test_a_change_that_did_not_happen_is_not_run(
    tmp_path, trained, workload, baseline, change, reason
):
    found = cell(trained, tmp_path, workload, baseline, change)
    assert found["answer"] == "not run"
    assert found["reason"].startswith(reason)


def of(name):
    return SHORT | {"module": f"stubborn:{name}"}


FOREACH, FUSED, LAST = {"optimizer": "foreach"}, {"optimizer": "fused"}, {"layout": "channels_last"}
MODULE = {"compile": "module"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("workload", "baseline", "change", "reason"),
    [
        (SHORT, {}, LAST, "layout is default, where the variant says channels_last: no parameter"),
        *(
            pytest.param(*others, marks=pytest.mark.exhaustive)
            for others in (
                (of("UpdatesItself"), {}, FUSED, "optimizer is for-loop (OwnStep), where the vari"),
                (of("MakesAnew"), {}, FUSED, "optimizer is for-loop (SGD), where the variant s"),
                (of("UpdatesItself"), {}, FOREACH, "optimizer is for-loop (OwnStep), where the"),
                (of("TakesTheForm"), {}, FOREACH, "optimizer is for-loop (SGD), where the variant"),
                (of("StoresOtherwise"), {}, LAST, "layout is default, where the variant says cha"),
                (SHORT, MODULE, LAST, "layout is default in both runs"),
                (of("UpdatesItself"), MODULE, FUSED, "optimizer is for-loop (OwnStep) in both"),
            )
        ),
    ],
)
def test_a_form_of_the_step_that_never_was_is_not_run(
    tmp_path, trained, workload, baseline, change, reason
):
    found = cell(trained, tmp_path, workload, baseline, change)
    assert (found["answer"], found["reason"][: len(reason)]) == ("not run", reason)


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", [FUSED, LAST])
def test_repeats_under_a_form_that_never_was_are_not_equal(tmp_path, trained, change):
    runs = [trained(of("UpdatesItself"), **change) for _ in range(2)]
    found = compared(tmp_path, *runs)[0]
    assert found["answer"] == "not run"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("workload", "change"),
    [
        (SHORT, FOREACH),
        (of("Adaptive"), FUSED),
        (of("Adaptive"), FOREACH),
        (of("Images"), LAST),
    ],
)
def test_a_form_of_the_step_that_was_is_compared(tmp_path, trained, workload, change):
    found = cell(trained, tmp_path, workload, {}, change)
    assert found["answer"] in ("equal", "differs")
    assert found["departures"] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("workload", "change", "departure"),
    [
        (
            of("MakesAnewLate") | {"epochs": 2},
            FUSED,
            "in part, optimizer is for-loop (SGD), where the variant says fused",
        ),
        (
            of("TwoOptimizers"),
            FOREACH,
            "in part, optimizer is for-loop (HasForeach), where the variant says foreach",
        ),
    ],
)
def test_a_form_that_was_in_part_is_compared_and_said(
    tmp_path, trained, workload, change, departure
):
    found = cell(trained, tmp_path, workload, {}, change)
    assert found["answer"] in ("equal", "differs")
    assert [each["sentence"] for each in found["departures"]] == [departure]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "change",
    [{"threads": 3}, {"deterministic": False}, {"validation": False}, {"logging": True}],
)
def test_a_change_that_happened_is_compared(tmp_path, trained, change):
    assert cell(trained, tmp_path, SHORT, {}, change)["answer"] in ("equal", "differs")


def test_repeats_that_are_not_what_their_variant_says_are_not_equal(tmp_path, trained):
    found = compared(tmp_path, trained(STUBBORN), trained(STUBBORN))[0]
    assert found["answer"] == "not run"
    words = "deterministic is False, where the variant says True (the runs are equal all the same)"
    assert found["reason"] == words
    (row,) = repeats([Evidence(path="x", found=found)])
    assert (row["answer"], row["measured"]) == ("not run", words)


def test_a_departure_counts_by_its_setting_and_not_by_its_words():
    def manifest(setting, sentence):
        departure = {"setting": setting, "sentence": sentence}
        variant = MANIFEST["settings"]["variant"] | {"deterministic": True}
        settings = MANIFEST["settings"] | {"variant": variant}
        return MANIFEST | {"settings": settings, "departures": [departure]}

    sentence = "the default algorithms were chosen"
    found = [manifest("deterministic", sentence)] * 2
    assert not_in_effect(found) == [sentence]
    # Of what no variant sets by itself, however the sentence begins.
    assert not_in_effect([manifest("threads", "deterministic in 2 threads")] * 2) == []


SEVERAL = {"devices": 2, "batch_norm": "synchronised"}


@pytest.mark.parametrize(
    ("changes", "had", "refused", "beside"),
    [
        # Red before: two workers trained, and a module without BatchNorm made it no comparison.
        (SEVERAL, {"devices": 2}, [], ["batch_norm"]),
        (SEVERAL, {"devices": 2, "batch_norm": "synchronised"}, [], []),
        (SEVERAL, {}, ["devices", "batch_norm"], []),
        ({"batch_norm": "synchronised"}, {"devices": 2}, ["batch_norm"], []),
        ({"environment": {"A": "1"}, "validation": False}, {}, [], ["validation"]),
        # Nobody looked at the layout of a compiled step: it is no reason to believe the rest.
        ({"compile": "step", "layout": "channels_last"}, {}, ["compile"], []),
        ({"stop": "mid_epoch", "resume": "twinrun", "threads": 3}, {}, ["threads"], []),
    ],
)
def test_of_several_changes_one_must_have_taken_effect(changes, had, refused, beside):
    values = {name: VARIANT.get(name) for name in READ}
    values |= {"batch_norm": "none", "devices": 1, "layout": [], "optimizer": []}
    runs = []
    for settings, actual in (({}, {}), (changes, had)):
        settings = MANIFEST["settings"] | {"variant": VARIANT | settings}
        runs.append(MANIFEST | {"settings": settings, "actual": values | actual})
    reasons = not_in_effect(runs)
    assert len(reasons) == len(refused)
    assert [each["setting"] for each in without_effect_in_part(runs)] == beside
    assert all(each["in_part"] for each in without_effect_in_part(runs))


def test_a_change_without_effect_beside_one_with_is_compared_and_said(tmp_path, trained):
    found = cell(trained, tmp_path, WITHOUT, {}, {"deterministic": False, "validation": False})
    assert found["answer"] in ("equal", "differs")
    words = ["in part, the training has no validation"]
    assert [each["sentence"] for each in found["departures"]] == words


@pytest.mark.parametrize(
    ("environment", "of_second", "reasons"),
    [
        # Red before: torch ignores a name that it does not know, and every bit stayed the same.
        ({"ATEN_CPU_CAPABILITY": "avx-2"}, "AVX2", ["torch computes by AVX2 in both runs"]),
        ({"ATEN_CPU_CAPABILITY": "default"}, "DEFAULT", []),
        # What another variable does nobody knows.
        ({"ATEN_CPU_CAPABILITY": "avx-2", "A": "1"}, "AVX2", []),
        ({"A": "1"}, "AVX2", []),
    ],
)
def test_an_instruction_set_that_is_the_same_was_not_changed(environment, of_second, reasons):
    runs = []
    for variables, capability in (({}, "AVX2"), (environment, of_second)):
        settings = MANIFEST["settings"] | {"variant": VARIANT | {"environment": variables}}
        identity = MANIFEST["environment"]["identity"] | {"cpu_capability": capability}
        found = MANIFEST["environment"] | {"identity": identity}
        runs.append(MANIFEST | {"settings": settings, "environment": found})
    assert not_in_effect(runs) == reasons


@pytest.mark.parametrize("departed", [0, 1])
@pytest.mark.parametrize("change", [{}, {"deterministic": False}], ids=["repeats", "variants"])
def test_a_departure_counts_in_whichever_run_it_happened(departed, change):
    """Of variants: the baseline was not deterministic either, so nothing was changed."""
    runs = []
    for index, changes in enumerate([{}, change]):
        variant = MANIFEST["settings"]["variant"] | {"deterministic": True} | changes
        departures = [{"setting": "deterministic", "sentence": "the defaults were chosen"}]
        settings = MANIFEST["settings"] | {"variant": variant}
        found = departures if index == departed else []
        runs.append(MANIFEST | {"settings": settings, "departures": found})
    assert not_in_effect(runs) == ["the defaults were chosen"]


def test_what_no_variant_promises_does_not_hinder_a_pair(tmp_path, trained):
    """Threads that the module sets are said beside the answer; the variant names none."""
    runs = [trained(STUBBORN, deterministic=False) for _ in range(2)]
    found = compared(tmp_path, *runs)[0]
    assert found["answer"] == "equal"
    assert "threads" in [departure["setting"] for departure in found["departures"]]


def test_a_resumed_run_is_compared(tmp_path, trained):
    """It was stopped behind the second of 5 batches of the second epoch, and resumed before it.

    Where the checkpoint lies follows from the stop, on however slow a machine.
    """
    row, cell = stopped(trained, tmp_path, WORKLOAD, "mid_epoch", "twinrun")
    assert (row["answer"], row["resumed_at"], row["lost"]) == ("equal", 6, "nothing was lost")
    assert cell["answer"] == "equal"


# Settings that `happened` does not read, each with what tells of it instead.
SEEN_ELSEWHERE = {
    "compile": "torch counts what it compiled",
    "cuda_graph": "a proof precedes every run, and refuses a step that cannot be captured",
    "nodes": "a run whose number of workers is another one is refused",
    "environment": "set for the process before it starts",
    "stop": "the run says whether it was stopped",
    "resume": "the run says from what it was resumed",
    "trace": "runs that are not traced alike are no pair",
}


def test_of_every_setting_something_tells_whether_it_took_effect():
    """A new one that is forgotten there would be called equal where it never acted."""
    names = [field.name for field in fields(Variant)]
    assert sorted({*READ, *NEEDS, *SEEN_ELSEWHERE}) == sorted(names)
    assert not {*READ} & {*SEEN_ELSEWHERE}


def test_mini_batches_seen_to_be_equal_are_not_said_to_be_others(tmp_path, trained):
    """Red before: said of any network with dropout under `accumulate`."""
    workload = WORKLOAD | {"module": "small:Drops"}
    found = cell(trained, tmp_path, workload, {}, {"accumulate": 2})
    run = json.loads((tmp_path / "2" / "run.json").read_text())
    assert any(is_of_batches(each) for each in run["departures"])
    assert not any(is_of_batches(each) for each in found["departures"])

"""A pair that differs is replayed, and the operation that made it diverge is named."""

import errno
import json

import msgspec
import pandas as pd
import pytest
from example_runs import example_parameters, fail, write_run
from example_trainings import VARIANT, WORKLOAD

from twinrun import artifacts
from twinrun.comparison.advice import NOT_REPRODUCIBLE, REPRODUCIBLE, remedy_of
from twinrun.comparison.compare import compare_seeds
from twinrun.comparison.locate import OPERATION_COLUMNS, locate, sentence_of
from twinrun.comparison.location_words import AT_RESUMPTION, sentence_without
from twinrun.comparison.replay_results import suspect_of
from twinrun.config.definitions import Replay, Training
from twinrun.errors import JobError, TwinrunError

OP = {
    "phase": "backward",
    "module": "encoder.embedding",
    "op": "aten::index_put",
    "call": 1,
    "parameter": "encoder.embedding.table",
    "source": "model.py:12",
    "draws": False,
    "differs_in": "outputs",
    "elements": 32000,
    "elements_differing": 4464,
    "max_ulp": 1024,
}
FINDING = {"differed": True, "suspect": None}
FIRED = {
    "step": 3,
    "earlier": None,
    "not_put_back": [],
    "repeats": 1,
    "differed": 1,
    "findings": [{"role": "origin", "op": OP | {"position": 1}} | FINDING],
    "origins": [OP | {"position": 1}],
    "operations": [],
}
RUN = {
    "workload": WORKLOAD,
    "variant": {**VARIANT, "deterministic": False},
    "dataset": None,
    "search_path": [],
}
TRAINING = msgspec.convert({**RUN, "seed": 1}, Training)


def located(folder, planted, run=RUN, failed=None, **options):
    """Locate in a pair with planted differences; give the answer and the table of operations."""
    runs = [write_run(folder, 1), write_run(folder, 2, planted=planted, **options)]
    if failed is not None:
        fail(runs[1], failed)
    files = {key: str(folder / key) for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files)
    output, operations = folder / "location.json", folder / "location.operations.csv"
    locate(
        comparisons=files["summary"],
        run=msgspec.convert(run, Replay),
        output=str(output),
        operations=str(operations),
    )
    (found,) = json.loads(output.read_text())
    return found, pd.read_csv(operations)


@pytest.mark.parametrize(
    "error",
    [TwinrunError("TypeError: cannot pickle '_thread.lock' object"), KeyError("x")],
    ids=["of the replay", "of ours"],
)
def test_what_cannot_be_replayed_is_an_answer_and_no_failed_job(tmp_path, monkeypatch, error):
    """Red before: the job failed, and the study had neither verdicts nor page."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("twinrun.comparison.locate.launch", refuse)
    found, _ = located(tmp_path, [(3, "gradients", "encoder.bias")])
    assert found["answer"] == "not located"
    assert "Not located, because " in found["sentence"]


@pytest.mark.parametrize(
    "error", [JobError("killed by signal 9"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_fault_of_the_machine_is_no_answer(tmp_path, monkeypatch, error):
    """Red before: "Not located, because No space left on device"."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("twinrun.comparison.locate.launch", refuse)
    with pytest.raises(type(error)):
        located(tmp_path, [(3, "gradients", "encoder.bias")])


def test_one_training_leads_to_the_step_and_where_it_strayed_is_said(tmp_path, monkeypatch):
    """Red before: the first step that differed in it was replayed in the place of the pair's."""
    asked = []

    def launch(function, arguments, *_):
        asked.append((function.partition(":")[2], arguments.get("step")))
        if "found" in arguments:
            replayed = FIRED | {"earlier": {"step": 2, "quantity": "loss"}}
            artifacts.write_json(arguments["found"], replayed)

    monkeypatch.setattr("twinrun.comparison.locate.launch", launch)
    found, _ = located(tmp_path, [(3, "gradients", "encoder.bias")])
    assert asked == [("save_start", 3), ("replay", None), ("replay", None)]
    assert (found["answer"], found["step"]) == ("located", 3)
    assert "had diverged from the first run at step 2 (loss): the step was rep" in found["sentence"]


def test_weights_that_a_repeat_does_not_begin_with_are_named(tmp_path, monkeypatch):
    """Red before: nothing said that the step was done with another network beside the module."""

    def launch(function, arguments, *_):
        if "found" in arguments:
            artifacts.write_json(arguments["found"], FIRED | {"not_put_back": ["agent.net.weight"]})

    monkeypatch.setattr("twinrun.comparison.locate.launch", launch)
    found, _ = located(tmp_path, [(3, "gradients", "encoder.bias")])
    end = "it began them as a training begins, not as step 3 did."
    assert found["sentence"].endswith(f"(agent.net.weight) was not put back for the repeats: {end}")


def no_process(*_, **__):
    raise AssertionError("a process was started")


RESUMED = [
    # When the second run was resumed, what differs, and whether that may be of the resumption.
    ([2], (3, "before", None), True),
    ([2], (3, "gradients", "encoder.bias"), True),
    ([2, 4], (3, "batch", None), True),
    ([2], (2, "before", None), False),
    ([4], (3, "gradients", "encoder.bias"), False),
]


@pytest.mark.parametrize(("at", "planted", "is_named"), RESUMED)
def test_a_resumption_is_named_among_the_causes_of_what_differs_behind_it(
    tmp_path, monkeypatch, at, planted, is_named
):
    """Red before: "a schedule, a callback, ... or a race", and only that run 2 was resumed."""

    def refuse(*_, **__):
        raise TwinrunError("enough")

    monkeypatch.setattr("twinrun.comparison.locate.launch", refuse)
    found, _ = located(tmp_path, [planted], changes={"resumed_at": at})
    assert "Run 2 was resumed after step" in found["sentence"]
    assert found["sentence"].endswith(AT_RESUMPTION) is is_named


@pytest.mark.parametrize("planted", [[], [(3, "gradients", "encoder.bias")]])
def test_of_weights_that_differ_alone_the_resumption_is_named_too(tmp_path, monkeypatch, planted):
    """And of none that an operation explains."""
    moved = {name: tensor + 1 for name, tensor in example_parameters().items()}
    monkeypatch.setattr("twinrun.comparison.locate._replayed", lambda *_: FIRED)
    changes = {"resumed_at": [2]}
    found, _ = located(tmp_path, planted, parameters=moved, changes=changes)
    assert "Run 2 was resumed after step 2." in found["sentence"]
    assert (AT_RESUMPTION in found["sentence"]) is not bool(planted)
    assert (found["answer"] == "located") is bool(planted)


def test_an_equal_pair_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("twinrun.comparison.locate.launch", no_process)
    found, operations = located(tmp_path, [])
    assert (found["answer"], found["cause"], found["op"]) == ("equal", None, None)
    assert list(operations.columns) == OPERATION_COLUMNS
    assert operations.empty


def test_where_a_training_failed_nothing_is_located(tmp_path, monkeypatch):
    monkeypatch.setattr("twinrun.comparison.locate.launch", no_process)
    found, operations = located(tmp_path, [], failed="no memory")
    assert (found["answer"], found["op"]) == ("not compared", None)
    assert found["sentence"] == "repeat 2 failed: no memory."
    assert operations.empty


def test_a_training_that_ends_earlier_is_not_blamed_on_the_order_of_the_data(tmp_path, monkeypatch):
    """Red before: look for a shuffle or a sampler."""
    monkeypatch.setattr("twinrun.comparison.locate.launch", no_process)
    found, _ = located(tmp_path, [], num_steps=3)
    assert "look for what ends a training or an epoch (early stopping" in found["sentence"]


@pytest.mark.parametrize(
    ("planted", "variant", "cause", "words"),
    [
        ((2, "batch", None), {}, "data content", "No operation of a step decides it: look for"),
        ((2, "random", "numpy"), {}, "RNG state", "RNG states (numpy)"),
        ((0, "initial", "encoder.bias"), {}, "initial weights", "before the first step: initial"),
        ((2, "loss", None), {"devices": 2}, "forward", "several workers are not replayed"),
        ((2, "loss", None), {"accumulate": 2}, "forward", "several micro-batches are not replayed"),
        ((2, "loss", None), {"compile": "module"}, "forward", "steps show no operations"),
    ],
)
def test_what_no_operation_decides_is_not_replayed(
    tmp_path, monkeypatch, planted, variant, cause, words
):
    monkeypatch.setattr("twinrun.comparison.locate.launch", no_process)
    run = RUN | {"variant": RUN["variant"] | variant}
    found, _ = located(tmp_path, [planted], run)
    assert (found["answer"], found["cause"], found["op"]) == ("not located", cause, None)
    assert words in found["sentence"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            "aten::index_put in the backward pass of encoder.embedding, parameter "
            "encoder.embedding.table, model.py:12, gave other values from equal inputs in 3 of 20 "
            "repeats of step 1, 4,464 of 32,000 elements by up to 1,024 ULP; torch has a "
            "reproducible algorithm for it: set `deterministic: true`.",
        ),
        (
            {"module": "", "parameter": "", "source": "", "differs_in": "inputs"},
            "aten::index_put in the backward pass of Small, was given another input in 3 of 20 "
            "repeats of step 1, which no operation before it was seen to make: another one of the "
            "tensors that the step starts with (a weight, a buffer, a part of the batch), or one "
            "from outside of what is traced (a clock, a set, NumPy, another library, another "
            "thread, memory that one of these shares).",
        ),
        (
            {"op": "aten::mul", "parameter": "", "differs_in": "inputs", "numbers": ["1.5", "2.5"]},
            "aten::mul in the backward pass of encoder.embedding, model.py:12, was given another "
            "value by Python (1.5 and 2.5) in 3 of 20 repeats of step 1: a value that differs "
            "enters here, from outside of torch (a clock, a set, NumPy, another library, "
            "another thread, what Python has computed from a tensor's values).",
        ),
        (
            {"differs_in": "operations", "parameter": ""},
            "The step did other operations in 3 of 20 repeats of step 1, first aten::index_put in "
            "the backward pass of encoder.embedding, model.py:12, where a branch of the code "
            "depends on something that the seed does not decide.",
        ),
        (
            {"op": "aten::bernoulli_", "phase": "forward", "draws": True, "parameter": ""},
            "aten::bernoulli_ in the forward pass of encoder.embedding, model.py:12, drew other "
            "random numbers in 3 of 20 repeats of step 1, from a state of its generator that no "
            "operation before it was seen to make: seed a generator of your own from the run's "
            "seed; torch's own, with which the step begins alike, was seeded anew or drawn from in "
            "between (torch.manual_seed, another thread).",
        ),
    ],
)
def test_the_sentence_says_what_to_do(changes, sentence):
    assert (
        sentence_of(OP | changes, step=1, fired=3, repeats=20, run=TRAINING, departed=None)
        == sentence
    )


@pytest.mark.parametrize(("ulp", "words"), [(999_999, " by up to 999,999 ULP"), (1_000_000, "")])
def test_a_million_ulp_and_more_say_nothing_and_are_left_out(ulp, words):
    """Red before: "by up to 1.00×10⁶ ULP", which verdicts and tables leave out."""
    said = sentence_of(
        OP | {"max_ulp": ulp}, step=1, fired=3, repeats=20, run=TRAINING, departed=None
    )
    assert f"4,464 of 32,000 elements{words}; " in said


FIRST = {"repeat": 2, "epoch": 1, "step": 3, "cause": "backward"}


def without(*roles, differed=0, likely="", op=OP, **first):
    """Say of two repeats of a pair that differs in the gradients what was not found."""
    told = {"op": op | {"position": 1}} | FINDING
    findings = [{"role": role} | told if role else None for role in roles]
    replayed = FIRED | {"repeats": 2, "differed": differed, "findings": findings}
    first = FIRST | {"quantity": "gradients", "tensor": "encoder.bias"} | first
    return sentence_without(first, replayed, TRAINING, likely=likely, suspected="")


@pytest.mark.parametrize(
    ("roles", "options", "words"),
    [
        (
            [None, None],
            {},
            [
                "Step 3, done 2 times from its start, gave the same gradients (encoder.bias) every "
                "time: the cause lies outside of the replayed step (a",
                # Red before: of a hook that writes the optimizer's state no word.
                "a schedule, a callback, a hook behind it, a value that the module keeps in an att",
                "or it did not happen again (a race, the order of a set, which is another one in",
            ],
        ),
        (
            ["elsewhere", "elsewhere"],
            {},
            [
                "What differed first elsewhere, in 2 of 2 repeats, is aten::index_put in the "
                "backward pass of encoder.embedding",
                "no data flow that is traced leads from it to the gradients (encoder.bias); what",
            ],
        ),
        (
            [None, None],
            {"differed": 1},
            [
                "It differed again in 1 of 2 repeats of step 3, but no operation that leads to it",
                "another thread), or is memory that none has written.",
            ],
        ),
        (
            ["lost", "elsewhere"],
            {"likely": "It was added."},
            [
                "Or it is this, which was not seen to do it: It was added. By data flow it le",
                "what differs was lost on the way (rounded away, not used, or overwritten).",
            ],
        ),
        # Red before: the cause was said to be what is not put back between repeats.
        (
            ["beyond the pair", None],
            {"likely": "It was added.", "differed": 2},
            ["equal by rounding there, or the repeats differ by something that is not put back"],
        ),
    ],
)
def test_where_no_operation_was_seen_to_do_it_the_sentence_says_what_was_seen(
    roles, options, words
):
    """Red before: by data flow an operation did not reach the loss that it leads to."""
    found = without(*roles, **options)
    assert found.startswith("First to differ, at step 3: gradients (encoder.bias). ")
    for part in words:
        assert part in found
    assert ("outside of the replayed step" in found) == ("differed" not in options)


def test_a_cause_outside_of_the_step_may_lie_in_one_that_was_not_traced():
    """Red before: "a schedule, a callback, something between steps" was all that was named."""
    found = without(None, None, quantity="loss", tensor=None, step=20)
    assert "keeps in an attribute), or it did not happen again" in found
    found = without(None, None, quantity="loss", tensor=None, step=20, since=11)
    assert "keeps in an attribute, a step that was not traced, from 11 on), or it" in found


def test_the_remedies_are_of_operations_that_torch_has():
    import torch

    for name in REPRODUCIBLE | NOT_REPRODUCIBLE:
        assert hasattr(torch.ops.aten, name.removeprefix("aten::")), name
    assert not REPRODUCIBLE & NOT_REPRODUCIBLE
    assert "it was asked for" in remedy_of("aten::index_put", deterministic=True)
    assert "no reproducible" in remedy_of("aten::histc", deterministic=False)
    assert "no remedy" in remedy_of("aten::add", deterministic=False)
    # Red before: "it was asked for: report it", of a module that switches it off.
    off = "deterministic is False, where the variant says True"
    said = remedy_of("aten::index_put", deterministic=True, departed=off)
    assert said.endswith(f"which was not in effect: {off}")


RACE = OP | {"source": "model.py:9", "position": 1}
OTHER_RACE = OP | {"source": "model.py:8", "position": 1}
MUL = OP | {"op": "aten::mul", "differs_in": "inputs", "position": 2}


def suspected(suspects, role, differed):
    """Give the suspect of repeats that found the same, each with one of its own or none."""
    told = {"role": role, "op": MUL, "differed": True}
    findings = [told | {"suspect": found and (found, True)} for found in suspects]
    replayed = FIRED | {"repeats": 3, "differed": differed, "findings": [*findings, None]}
    return suspect_of(replayed, MUL if role == "origin" else None)


@pytest.mark.parametrize("role", ["origin", "elsewhere"])
def test_what_was_equal_in_a_repeat_that_differed_does_not_decide_it(role):
    """Red before: it was told as what may decide it, with a remedy that mends nothing."""
    assert suspected([RACE, RACE], role, 2) == {"op": RACE, "is_read": True, "fired": 2}
    assert suspected([RACE, None], role, 2) is None
    assert suspected([RACE, OTHER_RACE], role, 2) is None


def test_what_was_equal_where_a_change_was_unseen_does_not_decide_it():
    """Red before: of a repeat in which nothing was found the suspect was not asked."""
    assert suspected([RACE, RACE], "elsewhere", 3) is None

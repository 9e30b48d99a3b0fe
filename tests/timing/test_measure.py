"""A timing does the work it says, in pairs, and goes on without what cannot run."""

import itertools
import os
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
import torch
from example_trainings import HERE, VARIANT
from small import Small

from twinrun import artifacts
from twinrun.acceleration import under_trainer
from twinrun.acceleration.compilation import Compiled, traced_only
from twinrun.config.definitions import TimingFiles
from twinrun.errors import TwinrunError
from twinrun.process.fresh_process import rebuilt
from twinrun.timing import initial_state, round_length, rounds, timed_variant
from twinrun.timing.measure import measure
from twinrun.timing.measured import Measured
from twinrun.timing.summary import reason_in
from twinrun.training import remembered_proofs
from twinrun.training.prove import prove

WORKLOAD = {
    "module": "small:Small",
    "data": "small:Points",
    "dataset": None,
    "hyperparameters": {"size": 70},
    "epochs": 1,
}
PLAIN = {**VARIANT, "deterministic": False}
TIMING = {
    "workload": "small",
    "variants": [],
    "rounds": 12,
    "steps": 20,
    "phases": ["train", "predict"],
}


def measured(folder, variants, *, timing=TIMING, workload=WORKLOAD):
    files = TimingFiles(rounds=str(folder / "small.csv"), summary=str(folder / "small.json"))
    asked = {"timing": timing, "workload": workload, "variants": variants}
    measure(
        name="small",
        **rebuilt(measure, asked),
        dataset=None,
        search_path=[HERE],
        files=files,
    )
    return pd.read_csv(files.rounds), artifacts.read_json(files.summary)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """The same variant under two names."""
    return measured(tmp_path_factory.mktemp("timing"), {"a": PLAIN, "b": PLAIN})


def test_every_round_of_every_variant_is_a_row(twice):
    rounds, summary = twice
    counts = rounds.groupby(["variant", "phase"])["round"].agg(["min", "max", "count"])
    for variant in "ab":
        assert counts.loc[(variant, "first_call")].tolist() == [0, 0, 1]
        assert counts.loc[(variant, "train")].tolist() == [1, 12, 12]
        assert counts.loc[(variant, "predict")].tolist() == [1, 12, 12]
    assert (rounds.seconds > 0).all()
    names = [
        "timing",
        "workload",
        "variant",
        "device",
        "size",
        "phase",
        "round",
        "steps",
        "seconds",
    ]
    assert rounds.columns.tolist() == names
    assert (summary["baseline"], summary["skipped"]) == ("a", [])
    assert {"identity", "context", "packages"} == summary["environment"].keys()


def test_a_round_of_short_steps_has_as_many_as_make_it_long_enough(twice):
    rounds, summary = twice
    rounds = rounds[rounds["round"] > 0]
    assert (rounds.steps % TIMING["steps"] == 0).all()
    # On a loaded machine a single round may be long enough at once; not all of them are.
    assert rounds.steps.max() > TIMING["steps"]
    (total,) = {
        m["steps"] for m in summary["medians"] if (m["variant"], m["phase"]) == ("a", "train")
    }
    assert total == rounds.query("variant == 'a' and phase == 'train'").steps.sum()


class Clocked(Small):
    """Its steps alone move the clock: the first of an object by 50 seconds, others by about 1.

    Each takes a little longer than the one before, whichever module it is of: a machine that slows
    down, by a twentieth in all.
    """

    steps, seconds = 0, 0.0

    def _tick(self, phase):
        Clocked.steps += 1
        is_first, self.__dict__[phase] = not hasattr(self, phase), True
        Clocked.seconds += 50 if is_first else self._cost() * (1 + Clocked.steps / 20_000)

    def _cost(self):
        return 1.0

    def training_step(self, batch, batch_idx):
        self._tick("has_trained")
        return super().training_step(batch, batch_idx)

    def predict_step(self, batch, batch_idx):
        self._tick("has_predicted")
        return super().predict_step(batch, batch_idx)


class Half(Clocked):
    """Takes half as long on two threads as on one."""

    def _cost(self):
        return 1 / torch.get_num_threads()


@pytest.mark.parametrize(("module", "threads", "expected"), [(Clocked, 1, 1.0), (Half, 2, 0.5)])
def test_a_ratio_is_that_of_what_steps_take(monkeypatch, tmp_path, module, threads, expected):
    # By a clock of its own: a fault of pairing, of order or of a warm-up inside the clock shows
    # however busy the machine is, and nothing else does.
    monkeypatch.setattr(Clocked, "steps", 0)
    looks = itertools.count()
    monkeypatch.setattr(timed_variant, "timer", lambda: Clocked.seconds + next(looks) * 1e-6)
    workload = {**WORKLOAD, "module": f"{__name__}:{module.__name__}"}
    variants = {"a": {**PLAIN, "threads": 1}, "b": {**PLAIN, "threads": threads}}
    _, summary = measured(tmp_path, variants, workload=workload)
    assert summary["skipped"] == []
    ratios = {row["phase"]: row for row in summary["ratios"] if row["variant"] == "b"}
    assert {"train", "predict"} <= ratios.keys()
    for row in ratios.values():
        assert row["low"] <= expected <= row["high"], row
        assert row["high"] / row["low"] < 1.05, row


def test_the_work_is_done(monkeypatch, tmp_path):
    modules = []

    def kept(self):
        modules.append(Small())
        modules[-1].load_state_dict(self._module.state_dict())
        return modules[-1]

    monkeypatch.setattr(initial_state.InitialState, "module", kept)
    monkeypatch.setattr(round_length, "MOST_SECONDS", 0.0)
    measured(tmp_path, {"a": PLAIN, "b": PLAIN})
    first, second = (module.state_dict() for module in modules)
    # The first call, a warm-up over the other 4 of 5 batches, and 12 rounds of 20 steps.
    assert first["calls"] == 1 + 4 + 12 * 20
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_sizes_are_values_of_a_hyperparameter(tmp_path):
    timing = {**TIMING, "rounds": 2, "phases": ["train"], "size": "width", "sizes": [4, 16]}
    rounds, summary = measured(tmp_path, {"a": PLAIN, "b": PLAIN}, timing=timing)
    assert rounds["size"].unique().tolist() == [4, 16]
    assert [row["size"] for row in summary["ratios"]] == [4, 16]


def shifted(batch):
    return batch + 1


def test_each_size_is_compiled_as_the_only_one(monkeypatch, tmp_path):
    """Torch would make one graph, a slower one, for the second size and all that follow."""
    graphs = []

    def compile_for(training, *_, **__):
        with traced_only():
            compiled = Compiled(shifted)
        for size in (1, 2):
            compiled(torch.ones(10 * size * training.workload.hyperparameters["width"]))
        graphs.append(compiled.compilations)
        return Measured()

    monkeypatch.setattr("twinrun.timing.measure.measure_size", compile_for)
    timing = {**TIMING, "size": "width", "sizes": [1, 3]}
    measured(tmp_path, {"a": PLAIN}, timing=timing)
    assert graphs == [2, 2]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("phases", "compared"),
    [(["train", "trainer"], [16]), (["train", "trainer", "predict"], [16, 4])],
)
def test_what_is_the_same_at_any_size_is_left_to_the_largest(tmp_path, phases, compared):
    sizes = {"size": "width", "sizes": [16, 4]}
    timing = {**TIMING, "rounds": 2, "phases": phases, **sizes}
    rounds, summary = measured(tmp_path, {"a": PLAIN, "b": PLAIN}, timing=timing)
    assert [(row["size"], row["variant"]) for row in summary["agreement"]] == [
        (size, "b") for size in compared
    ]
    assert rounds.query("phase == 'trainer'")["size"].unique().tolist() == [16]
    assert rounds.query("phase == 'train'")["size"].unique().tolist() == [16, 4]


def test_what_cannot_run_is_said_and_the_others_are_measured(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    variants = {
        "gpu": {**PLAIN, "accelerator": "gpu"},
        "scaled": {**PLAIN, "precision": "16-mixed"},
        "plain": PLAIN,
    }
    rounds, summary = measured(tmp_path, variants, timing={**TIMING, "rounds": 2})
    assert rounds.variant.unique().tolist() == ["plain"]
    assert summary["skipped"] == [
        {
            "variant": "gpu",
            "size": None,
            "phase": None,
            "reason": "no GPU: torch sees none on this machine",
        },
        {
            "variant": "scaled",
            "size": None,
            "phase": None,
            "reason": "precision: Lightning computes bf16-mixed here, in place of 16-mixed",
        },
    ]
    assert summary["ratios"] == []  # the baseline is among the missing


def test_a_failure_on_the_way_leaves_no_half_measured_variant(monkeypatch, tmp_path):
    def failing(self, phase, number, steps, *, stretch, whole=timed_variant.TimedVariant.round):
        if self._variant.deterministic and number == 2:
            raise MemoryError("no more room")
        return whole(self, phase, number, steps, stretch=stretch)

    monkeypatch.setattr(timed_variant.TimedVariant, "round", failing)
    variants = {"plain": PLAIN, "failing": {**PLAIN, "deterministic": True}}
    rounds, summary = measured(tmp_path, variants, timing={**TIMING, "rounds": 3})
    assert rounds.variant.unique().tolist() == ["plain"]
    assert "out of memory (no more room)" in summary["skipped"][0]["reason"]


def named(tensor, name):
    return tensor + len(name)


def compiling_in(monkeypatch, kind, name):
    """Have each call of a method compile one graph more; a round has no more steps than asked."""
    monkeypatch.setattr(rounds, "steps_of_round", lambda steps, seconds: steps)
    compiled, number = torch.compile(named, backend="eager"), itertools.count(1)
    original = getattr(kind, name)

    def compiling(self, *arguments):
        with torch._dynamo.config.patch(recompile_limit=64):
            compiled(torch.ones(2), "x" * next(number))  # a text is a constant of its graph
        return original(self, *arguments)

    monkeypatch.setattr(kind, name, compiling)


def compiled_in(summary):
    return {m["phase"]: m["compiled"] for m in summary["medians"] if "compiled" in m}


def test_what_is_compiled_inside_the_clock_is_counted(monkeypatch, tmp_path):
    """Red before: rounds that spread by 31,248 %, and not a word of why."""
    compiling_in(monkeypatch, Small, "training_step")
    timing = {**TIMING, "rounds": 1, "steps": 1}
    _, summary = measured(tmp_path, {"plain": PLAIN}, timing=timing)
    (of,) = compiled_in(summary).values()
    assert compiled_in(summary) == {"train": of}
    assert of["graphs"] == 1, "not those of the warm-up"
    assert "name" in of["reason"]


@pytest.mark.parametrize("phase", ["train", "trainer"])
def test_what_is_compiled_outside_of_the_clock_is_not_counted(monkeypatch, tmp_path, phase):
    """Red before: "compiled 1 graph inside the clock", of a hook between the epochs."""
    name = {"train": "on_train_epoch_end", "trainer": "on_validation_end"}[phase]
    calls = []
    # A hook that reads what validation logs has one done.
    for hook in (name, "on_train_epoch_end"):
        monkeypatch.setattr(Small, hook, lambda self: calls.append(1))
    compiling_in(monkeypatch, Small, name)
    timing = {**TIMING, "rounds": 4, "steps": 2, "phases": [phase]}
    _, summary = measured(tmp_path, {"plain": PLAIN}, timing=timing)
    assert len(calls) > 1
    assert compiled_in(summary) == {}


def test_each_phase_that_fails_is_named_by_its_own_reason_first(monkeypatch, tmp_path):
    """Red before: of training "no predict_dataloader" came first."""

    def failing(self, phase, **_):
        raise TwinrunError(f"{phase} fails")

    monkeypatch.setattr(timed_variant.TimedVariant, "warm_up", failing)
    _, summary = measured(tmp_path, {"a": PLAIN}, timing={**TIMING, "rounds": 2})
    (row,) = summary["skipped"]
    assert row["phase"] is None
    assert row["reason"] == "train fails; predict fails"
    assert reason_in(row, "predict") == "predict fails; train fails"
    whole = {"reason": "a; b", "reasons": {"predict": "a", "None": "b"}}
    assert reason_in(whole, "train") == "b; a"
    assert reason_in({"reason": "c"}, "train") == "c"


@pytest.mark.parametrize("key", ["rounds", "steps"])
def test_nothing_to_measure_is_refused(tmp_path, key):
    with pytest.raises(TwinrunError, match=rf"small\.{key}: 0 is out of range"):
        measured(tmp_path, {"a": PLAIN}, timing={**TIMING, key: 0})


def test_no_variant_at_all_leaves_the_reasons(tmp_path):
    rounds, summary = measured(tmp_path, {"scaled": {**PLAIN, "precision": "16-mixed"}})
    assert rounds.empty
    assert "in place of 16-mixed" in summary["skipped"][0]["reason"]
    assert (summary["medians"], summary["ratios"]) == ([], [])


def test_a_size_that_cannot_be_or_does_not_fit_leaves_the_others(tmp_path):
    # A layer of 10**12 numbers fits nowhere, one of -1 is none.
    timing = {**TIMING, "rounds": 2, "phases": ["train"], "size": "width"}
    timing["sizes"] = [4, 10**11, -1]
    rounds, summary = measured(tmp_path, {"a": PLAIN, "b": PLAIN}, timing=timing)
    assert rounds["size"].unique().tolist() == [4]
    reasons = {(row["variant"], row["size"]): row["reason"] for row in summary["skipped"]}
    assert reasons.keys() == {(v, size) for v in "ab" for size in (10**11, -1)}
    assert "memory" in reasons["a", 10**11]
    assert "constructing it with" in reasons["b", -1]


def test_through_the_trainer_the_steps_are_done_too(monkeypatch, tmp_path):
    modules = []

    def kept(self, *arguments, whole=initial_state.InitialState.module):
        modules.append(whole(self))
        return modules[-1]

    monkeypatch.setattr(initial_state.InitialState, "module", kept)
    monkeypatch.setattr(round_length, "MOST_SECONDS", 0.0)
    timing = {**TIMING, "rounds": 6, "phases": ["train", "trainer"]}
    rounds, summary = measured(tmp_path, {"a": PLAIN}, timing=timing)
    through = rounds.query("phase == 'trainer'")
    assert through[["round", "steps"]].to_numpy().tolist() == [[n, 20] for n in range(1, 7)]
    # The first one is the Trainer's. Its warm-up is 1 step and 2 more.
    assert modules[0].calls == 1 + 2 + 6 * 20
    assert modules[0].trainer.current_epoch == 0  # begun again after each epoch of this workload
    (ratio,) = summary["trainer"]
    assert ratio["variant"] == "a"
    assert ratio["low"] <= ratio["time_ratio"] <= ratio["high"]


def test_what_the_trainer_is_told_counts_in_a_timing(monkeypatch, tmp_path):
    """A step is a mini-batch, with the part of an update that belongs to it."""
    modules, updates, batches = [], [], []

    def kept(self, *arguments, whole=initial_state.InitialState.module):
        modules.append(whole(self))
        return modules[-1]

    def update(self, *arguments, plain=torch.optim.SGD.step, **options):
        updates.append(self)
        return plain(self, *arguments, **options)

    def seen(self, batch, index, plain=Small.training_step):
        batches.append((self, index))
        return plain(self, batch, index)

    monkeypatch.setattr(initial_state.InitialState, "module", kept)
    monkeypatch.setattr(round_length, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(torch.optim.SGD, "step", update)
    monkeypatch.setattr(Small, "training_step", seen)
    told = {"accumulate_grad_batches": 2, "max_steps": 3, "limit_train_batches": 4}
    told |= {"limit_predict_batches": 2, "reload_dataloaders_every_n_epochs": 1}
    timing = {**TIMING, "rounds": 6, "steps": 7, "phases": ["train", "trainer", "predict"]}
    workload = {**WORKLOAD, "epochs": -1, "trainer": told}
    rounds, summary = measured(tmp_path, {"a": PLAIN}, timing=timing, workload=workload)
    assert rounds.query("phase == 'train'")["steps"].unique().tolist() == [8]
    extent = {"size": None, "train": 4, "predict": 2}
    assert summary["extents"] == [extent]
    # The bare step's is the third: with an accumulation it is not the lean one, of the second.
    loop, bare = ([i for module, i in batches if module is modules[n]] for n in (0, 2))
    assert len(updates) == sum(index % 2 for index in loop + bare)
    # Three updates, and the training begins again in the middle of its second epoch.
    assert loop[:8] == [0, 1, 2, 3, 0, 1, 0, 1]
    assert {*bare} == {0, 1, 2, 3}


def test_a_schedule_of_accumulation_is_not_timed(tmp_path):
    workload = {**WORKLOAD, "trainer": {"accumulate_grad_batches": {"1": 2}}}
    _, summary = measured(tmp_path, {"a": PLAIN}, workload=workload)
    (skipped,) = summary["skipped"]
    assert "changes what a step is from epoch to epoch" in skipped["reason"]


@pytest.mark.exhaustive
def test_fast_variants_predict_what_the_baseline_predicts(monkeypatch, tmp_path):
    monkeypatch.setattr(timed_variant, "empty_cache", nullcontext)  # seconds do not matter here
    variants = {"plain": PLAIN, "compiled": {**PLAIN, "compile": "step"}}
    timing = {**TIMING, "rounds": 2, "phases": ["train", "trainer"]}
    _, summary = measured(tmp_path, variants, timing=timing)
    assert summary["skipped"] == []
    assert {row["variant"] for row in summary["trainer"]} == {"plain", "compiled"}
    (row,) = summary["agreement"]
    assert row["variant"] == "compiled"
    assert row["distance"] <= row["tolerance"] == 100 * torch.finfo(torch.float32).eps


def test_a_fast_variant_is_proven_before_it_is_timed(monkeypatch, tmp_path):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    happened = []
    proof_of, round_of = rounds.proof_of, timed_variant.TimedVariant.round

    def proven(training):
        happened.append(f"proof of {training.variant.optimizer}")
        # What deterministic algorithms on a GPU refuse to go without.
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        return proof_of(training)

    def clocked(self, phase, number, steps, *, stretch):
        happened.append(f"round of {self._variant.optimizer}")
        return round_of(self, phase, number, steps, stretch=stretch)

    monkeypatch.setattr(rounds, "proof_of", proven)
    monkeypatch.setattr(timed_variant.TimedVariant, "round", clocked)
    variants = {"plain": PLAIN, "fast": {**VARIANT, "optimizer": "foreach"}}
    timing = {**TIMING, "rounds": 1, "phases": ["train"]}
    _, summary = measured(tmp_path, variants, timing=timing)
    assert happened == ["proof of foreach", "round of foreach", "round of default"]
    (row,) = summary["proofs"]
    assert (row["variant"], row["size"], row["refused"]) == ("fast", None, None)
    assert row["proof"]["steps"] == 6
    assert [leg["precision"] for leg in row["proof"]["legs"]] == ["64-true", "32-true"]


def test_a_variant_that_computes_something_else_is_refused_and_the_others_are_timed(
    monkeypatch, tmp_path
):
    """The planted fault leaves the predictions before training as they are."""
    # It is planted in this process alone.
    monkeypatch.setattr(remembered_proofs, "prove_apart", lambda training: (prove(training), {}))
    set_up = under_trainer.set_up

    def forgetting(optimizer, variant):
        set_up(optimizer, variant)
        for group in optimizer.param_groups:
            group["lr"] *= 1 if variant.optimizer == "default" else 1.001

    monkeypatch.setattr(under_trainer, "set_up", forgetting)
    variants = {"plain": PLAIN, "fast": {**PLAIN, "optimizer": "foreach"}}
    found, summary = measured(tmp_path, variants, timing={**TIMING, "rounds": 1})
    assert found["variant"].unique().tolist() == ["plain"]
    ((row,), (skipped,)) = summary["proofs"], summary["skipped"]
    assert row["proof"] is None
    assert row["refused"].startswith("optimizer: foreach does not compute what the plain step")
    assert skipped == {
        "variant": "fast",
        "size": None,
        "phase": None,
        "reason": f"refused: {row['refused']}",
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"optimizer": "fused"}, "optimizer is for-loop (OwnStep), where the variant says fused"),
        ({"layout": "channels_last"}, "layout is default, where the variant says channels_last: "),
    ],
)
def test_a_form_of_the_step_that_never_was_is_not_timed(tmp_path, changes, reason):
    variants = {"plain": PLAIN, "fast": {**PLAIN, **changes}}
    timing = TIMING | {"rounds": 1, "steps": 1, "phases": ["train", "trainer"]}
    workload = WORKLOAD | {"module": "stubborn:UpdatesItself"}
    table, summary = measured(tmp_path, variants, timing=timing, workload=workload)
    assert set(table["variant"]) == {"plain"}
    (skipped,) = summary["skipped"]
    assert skipped["reason"].startswith(reason)


def test_a_module_that_changes_the_working_directory_is_measured_where_it_belongs(
    tmp_path, monkeypatch
):
    (tmp_path / "moves_away.py").write_text(
        "import os, small\n\nclass Net(small.Small):\n    def setup(self, stage):\n"
        "        os.chdir('/')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    timing = {**TIMING, "rounds": 1, "steps": 1, "phases": ["train"]}
    measured(Path(), {"a": PLAIN}, timing=timing, workload={**WORKLOAD, "module": "moves_away:Net"})
    assert (tmp_path / "small.json").exists()

"""Ordinary modules are timed as they are trained; what cannot be timed costs a phase and no more.

All but `Plain` were seen skipped, or timed without what they bring along, at 1c62e3e.
"""

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from example_trainings import VARIANT
from faithfulness import table

from twinrun import artifacts
from twinrun.acceleration.compilation import compiler_switches, traced_only
from twinrun.config.definitions import (
    Timing,
    TimingFiles,
    TrainerArguments,
    Training,
    Variant,
    Workload,
)
from twinrun.errors import TwinrunError
from twinrun.timing import round_length, timed_variant
from twinrun.timing.bare_step import HookedStep, LeanStep, bare_step
from twinrun.timing.conditions import conditions
from twinrun.timing.initial_state import InitialState
from twinrun.timing.measure import measure
from twinrun.timing.timed_variant import TimedVariant
from twinrun.timing.trainer_loop import TrainerLoop

HERE = Path(__file__).parents[1]
FOLDERS = [str(HERE / "faithfulness"), str(HERE / "timing")]
PLAIN = Variant(**{**VARIANT, "deterministic": False})
PHASES = ["train", "trainer", "predict"]
NO_PREDICTION = ("predict", "Points has no predict_dataloader")
ORDINARY = "ordinary_modules"


def workload_of(module, data="Points", epochs=2, file="modules_to_time"):
    return Workload(
        module=f"{file}:{module}",
        data=f"{file}:{data}",
        dataset=None,
        hyperparameters={},
        epochs=epochs,
    )


def initial_of(*module, trainer=TrainerArguments(), **of_workload):  # noqa: B008
    workload = replace(workload_of(*module, **of_workload), trainer=trainer)
    return InitialState(
        Training(workload=workload, variant=PLAIN, seed=1, dataset=None, search_path=FOLDERS)
    )


def timed(folder, *module, phases=PHASES, variants=None, **of_workload):
    files = TimingFiles(rounds=str(folder / "timing.csv"), summary=str(folder / "timing.json"))
    measure(
        name="timing",
        timing=Timing(workload="one", variants=[], rounds=3, steps=4, phases=phases),
        workload=workload_of(*module, **of_workload),
        variants=variants or {"plain": PLAIN},
        dataset=None,
        search_path=FOLDERS,
        files=files,
    )
    rounds = pd.read_csv(files.rounds)
    summary = artifacts.read_json(files.summary)
    phases = [phase for phase in rounds["phase"].unique() if phase in PHASES]
    return phases, [(row["phase"], row["reason"]) for row in summary["skipped"]], summary


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch):
    monkeypatch.setattr(round_length, "MOST_SECONDS", 0.0)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", table.NAMES)
def test_training_is_timed_bare_and_through_the_trainer(name, tmp_path):
    # 3 rounds of 4 steps are more than the 2 epochs of 3 batches.
    assert timed(tmp_path, name, file=ORDINARY)[:2] == (["train", "trainer"], [NO_PREDICTION])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name",
    [
        *("AsksTheTrainer", "StopsEarly", "KeepsTheBest", "PlateauOfValidation", "MadeLate"),
        *("MadeForPrediction", "AveragesItsWeights"),
    ],
)
def test_what_asks_the_trainer_is_answered(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert timed(tmp_path, name)[:2] == (PHASES, [])
    assert not list(tmp_path.rglob("*.ckpt"))


def test_what_needs_a_logger_is_timed_where_its_runs_have_one(tmp_path, monkeypatch):
    """Red before: its times were skipped, also under variants with a logger."""
    monkeypatch.chdir(tmp_path)
    variants = {"logged": replace(PLAIN, logging=True)}
    assert timed(tmp_path, "DrawsByItsLogger", variants=variants)[:2] == (PHASES, [])
    assert {path.name for path in tmp_path.iterdir()} == {"timing.csv", "timing.json"}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_each_variant_has_a_module_of_its_own(tmp_path):
    variants = {"plain": PLAIN, "deterministic": replace(PLAIN, deterministic=True)}
    assert timed(tmp_path, "CannotBeCopied", variants=variants)[:2] == (PHASES, [])
    with closing(initial_of("CannotBeCopied")) as initial:
        one, other = initial.module(), initial.module()
    assert one is not other
    for name, value in initial._module.state_dict().items():
        assert torch.equal(one.state_dict()[name], value), name
        assert torch.equal(other.state_dict()[name], value), name


@pytest.mark.parametrize("name", ["LossOfItself", "KeepsFeatures"])
def test_what_a_constructor_gives_to_functions_is_each_variants_own(name):
    """Red before: copies called the functions of the original, whose weights had the gradients."""
    with closing(initial_of(name)) as initial:
        timed = TimedVariant(initial, PLAIN)
        timed.prepare("train")
        timed.warm_up("train")
        found = timed._fits["train"].module.state_dict()
        assert all(p.grad is None for p in initial._module.parameters())
        assert not any(torch.equal(found[k], v) for k, v in initial._module.state_dict().items())


def test_what_can_be_neither_copied_nor_constructed_again_is_refused():
    refused = pytest.raises(TwinrunError, match="can neither be copied nor constructed a second")
    with closing(initial_of("LossOfItselfOnce")) as initial, refused:
        initial.module()


def test_every_layer_is_trained_in_the_mode_that_the_module_has_given_it():
    """Red before: a backbone in evaluation mode was put into training mode in bare steps alone."""
    with closing(initial_of("FrozenBackbone")) as initial:
        timed = TimedVariant(initial, PLAIN)
        for phase in ("train", "predict"):
            timed.prepare(phase)
        timed.output()
        for phase in ("train", "predict", "train"):
            timed.warm_up(phase)
            timed.round(phase, 1, 2, stretch=2)
        found = timed._fits["train"].module
    assert found.modes == {"train": {(True, False, False)}, "predict": {(False, False, False)}}
    start = initial._module.backbone[0].running_mean
    assert torch.equal(found.backbone[0].running_mean, start)


def rounds_of(name, data="Points", rounds=3):
    """Time bare steps; return the module."""
    with closing(initial_of(name, data)) as initial:
        timed = TimedVariant(initial, PLAIN)
        timed.prepare("train")
        timed.warm_up("train")
        for number in range(1, 1 + rounds):
            timed.round("train", number, 30, stretch=15)
        return timed._fits["train"].module


def test_every_step_is_given_its_batch_as_a_loader_gives_it(tmp_path):
    """Red before: KeyError at the second time round; 4 became 67,760,472 in two rounds."""
    assert timed(tmp_path, "TakesFromItsBatch", "Dictionaries")[:2] == (PHASES, [])
    found = rounds_of("ChangesItsBatch", "Dictionaries")
    assert len(found.largest) == 3  # one of each batch
    with pytest.raises(TwinrunError, match="changes its batch in place, which no first call did"):
        rounds_of("ChangesLate", "Dictionaries")


@pytest.mark.parametrize("name", ["AsksForGradients", "ByStep"])
def test_a_step_finds_its_batch_and_its_number_as_in_a_training(name, tmp_path):
    """Red before: the phase was lost."""
    assert timed(tmp_path, name)[:2] == (PHASES, [])


def test_variants_begin_with_the_same_weights_though_no_seed_decides_them(tmp_path):
    variants = {"plain": PLAIN, "deterministic": replace(PLAIN, deterministic=True)}
    _, _, summary = timed(tmp_path, "Unseeded", variants=variants)
    (found,) = summary["agreement"]
    assert found["distance"] <= found["tolerance"]


def test_a_metric_that_is_logged_begins_anew_with_each_epoch():
    """Red before: it grew with every step, and the steps took longer."""
    assert rounds_of("LogsAMetric").most <= 3 + 15  # of an epoch, and of a stretch that ends it


def test_the_last_batch_is_told_and_a_schedule_ends_with_its_training():
    """Red before: no batch was the last one, and a schedule was stepped beyond its end."""
    found = rounds_of("ByHand")
    assert found.steps > 2 * 3  # than the training has
    assert found.lasts == {(8, False), (5, True)}


def test_several_loaders_in_one(tmp_path):
    found = timed(tmp_path, "TakesBoth", "SeveralLoaders", phases=["train", "trainer"])
    assert found[:2] == (["train", "trainer"], [])


@pytest.mark.parametrize(
    ("name", "lost", "why"),
    [
        ("FailsToPredict", "predict", "RuntimeError: predicts nothing"),
        ("FailsAtTheEndOfAnEpoch", "trainer", "RuntimeError: ends badly"),
        ("TakesTheIterator", "train", "training_step takes the argument dataloader_iter: a step"),
    ],
)
def test_a_phase_is_lost_rather_than_the_variant(name, lost, why, tmp_path):
    phases, skipped, _ = timed(tmp_path, name)
    assert phases == [phase for phase in PHASES if phase != lost]
    ((phase, reason),) = skipped
    assert phase == lost
    assert reason.startswith(why)


def test_what_loses_all_phases_keeps_every_reason_once(tmp_path):
    phases, skipped, _ = timed(tmp_path, "FailsInEachPhase")
    assert phases == []
    ((phase, reason),) = skipped
    assert phase is None
    assert reason == "RuntimeError: predicts nothing; RuntimeError: trains nothing"


def test_a_hook_that_needs_the_trainers_loop_leaves_the_bare_steps_without_it(tmp_path):
    """What the steps log belongs to the Trainer's loop."""
    phases, skipped, summary = timed(tmp_path, "ReadsItsLogs")
    assert (phases, skipped) == (PHASES, [])
    assert summary["without_epoch_hooks"] == [
        {"variant": "plain", "size": None, "phase": "train", "reason": "KeyError: 'of_steps'"}
    ]


def test_a_module_without_an_optimizer_is_named(tmp_path):
    phases, skipped, _ = timed(tmp_path, "NoOptimizer")
    assert phases == []
    ((phase, reason),) = skipped
    assert phase is None
    assert "NoOptimizer.configure_optimizers gives 0 optimizers" in reason


# Those that do at each step what they do at all: no schedule of epochs, no random numbers.
EACH_STEP = [
    *("Plain", "ClippedByTrainer", "ClippedByHook", "ClippedBeforeStep", "ClippedByCallback"),
    *("WarmUp", "AverageByCallback", "AverageByOptimizerHook", "AverageBeforeZeroGrad"),
    *("DecayGroups", "OwnBackward", "AroundBackward", "ParameterHook", "Tied", "BatchNorm"),
    *("Buffers", "MadeInSetup", "MadeInConfigureModel", "UsesOutputs", "Lbfgs", "OwnOptimizer"),
    *("OutsideOptimizer", "TwoOptimizers", "ReadsBack", "StepsEverySecond"),
]
LEAN = {"Plain", "DecayGroups", "Tied", "BatchNorm", "Buffers", "MadeInSetup"}
LEAN |= {"MadeInConfigureModel", "ReadsBack", "AverageByOptimizerHook", "ParameterHook"}
# Red before: their step was timed without the closure that every run gives them.
CLOSURES = ["TwoPasses", "ReplacedStep"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [*EACH_STEP, *CLOSURES])
def test_a_bare_step_trains_what_the_trainers_step_trains(name):
    file = "modules_to_time" if name in CLOSURES else ORDINARY
    with closing(initial_of(name, "OneBatch", epochs=100, file=file)) as initial:
        fit, step = bare_step(initial, PLAIN)
        (batch,) = initial.batches("train", fit.trainer)
        for _ in range(6):
            step(batch, 0)
        loop = TrainerLoop(initial, PLAIN)
        loop.seconds(6)
    expected = loop._fit.module.state_dict()
    found = fit.module.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in found)
    moved = initial.module().state_dict()
    assert any(not torch.equal(found[key], moved[key]) for key in moved)
    assert isinstance(step, LeanStep if name in LEAN else HookedStep)
    assert fit.module.global_step == loop._fit.module.global_step > 0


def test_a_bare_step_clips_as_the_workloads_trainer_does():
    trained = {}
    for bound in (None, 0.05):
        arguments = TrainerArguments(gradient_clip_val=bound)
        with closing(initial_of("Plain", "OneBatch", file=ORDINARY, trainer=arguments)) as initial:
            fit, step = bare_step(initial, PLAIN)
            (batch,) = initial.batches("train", fit.trainer)
            before = fit.module.state_dict(keep_vars=True)
            start = {name: value.detach().clone() for name, value in before.items()}
            step(batch, 0)
            moved = [(before[n] - start[n]).detach().abs().sum().item() for n in start]
        trained[bound] = sum(moved), type(step)
    assert trained[None][1] is LeanStep
    assert trained[0.05][1] is HookedStep
    assert 0 < trained[0.05][0] != trained[None][0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("changes", [{"compile": "step"}, {"compile": "module"}])
@pytest.mark.parametrize("name", ["Plain", "ClippedByHook", "WarmUp", "BatchNorm", "MadeInSetup"])
def test_a_fast_bare_step_trains_what_the_plain_one_trains(name, changes):
    """The proof goes through the Trainer; a bare step has a loop of its own."""
    exact = replace(PLAIN, precision="64-true")
    trained = []
    with closing(initial_of(name, "OneBatch", epochs=100, file=ORDINARY)) as initial:
        for variant in (exact, replace(exact, **changes)):
            with traced_only(), compiler_switches(), conditions(variant):
                fit, step = bare_step(initial, variant)
                (batch,) = initial.batches("train", fit.trainer)
                double = fit.trainer.precision_plugin.convert_input(batch)
                for _ in range(6):
                    step(double, 0)
            trained.append(fit.module.state_dict())
        start = initial.module().state_dict()
    assert step.counts()["calls"] > 0
    plain, fast = trained
    for key, value in plain.items():
        torch.testing.assert_close(fast[key], value, rtol=1e-8, atol=1e-10, msg=key)
    assert any(not torch.equal(plain[key].to(start[key]), start[key]) for key in start)


def test_after_its_epochs_a_training_begins_again():
    with closing(initial_of("AsksTheTrainer")) as initial:
        loop = TrainerLoop(initial, PLAIN)
        trainer = loop._fit.trainer
        seen = []
        for _ in range(14):
            loop.seconds(1)
            seen.append((trainer.current_epoch, trainer.global_step))
    once = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6)]
    assert seen == [*once, *once, *once[:2]]


def test_the_batches_of_a_training_that_began_again_are_those_of_its_epoch():
    with closing(initial_of("Plain", epochs=1, file=ORDINARY)) as initial:
        loop = TrainerLoop(initial, PLAIN)
        sizes = []
        module = loop._fit.module
        whole = module.training_step

        def kept(batch, batch_idx):
            sizes.append(len(batch[0]))
            return whole(batch, batch_idx)

        module.training_step = kept
        loop.seconds(7)
    assert sizes == [8, 8, 5, 8, 8, 5, 8]


@pytest.mark.parametrize("changes", [{}, {"compile": "module"}])
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["Gathers", "GathersHooked"])
def test_epochs_of_bare_steps_end_outside_of_the_clock(name, changes, monkeypatch):
    """Red before: no epoch ended, so that what a module gathers in one had no end either."""
    clock = []
    monkeypatch.setattr(timed_variant, "timer", lambda: float(len(clock)))
    variant = replace(PLAIN, **changes)
    with closing(initial_of(name, epochs=2)) as initial, traced_only(), compiler_switches():
        timed = TimedVariant(initial, variant)
        timed.prepare("train")
        module = timed._fits["train"].module
        timed.warm_up("train")
        monkeypatch.setattr(
            type(module), "on_train_epoch_end", ticking(type(module).on_train_epoch_end, clock)
        )
        before = module.ended
        for number in range(1, 6):
            assert (
                timed.round("train", number, 4, stretch=4)["seconds"] == 0.0
            )  # no hook is on the clock
    # An epoch has three batches. It ends at the next pause of the clock: before a stretch of four
    # steps, unless the warm-up has just begun one.
    assert module.ended - before == len(clock) == 4
    assert module.begun == module.ended + 1
    assert module.most < 3 + 4
    assert module.current_epoch == 0
    assert module.log.__name__ == "_log_nothing"


def ticking(hook, clock):
    def ticked(self):
        clock.append(None)
        hook(self)

    return ticked


@pytest.mark.parametrize("name", ["MadeLate", "MadeForPrediction"])
def test_layers_made_late_have_the_same_weights_in_every_variant(name, tmp_path):
    variants = {"one": PLAIN, "other": PLAIN}
    _, _, summary = timed(tmp_path, name, variants=variants)
    (row,) = summary["agreement"]
    assert row["distance"] == 0.0


def test_validation_is_done_only_where_training_needs_it_and_outside_the_clock(monkeypatch):
    seconds = iter(range(10**6))
    for module in ("timing.fit", "timing.trainer_loop"):
        monkeypatch.setattr(f"twinrun.{module}.timer", lambda: float(next(seconds)))
    for name, validations in (("StopsEarly", 2), ("Predicts", 0)):
        with closing(initial_of(name, epochs=4)) as initial:
            loop = TrainerLoop(initial, PLAIN)
            # Every look at the clock takes a second: what is left is the second look of each,
            # and of the two looks around the seeding of each of the three epochs, one each.
            assert loop.seconds(7) == 1 + 2 * 3 + validations
            assert loop._fit.untimed_seconds == 2 * 3 + validations


def test_the_transfer_of_every_variant_moves_what_was_loaded_before(monkeypatch):
    """Loading is no transfer, and a batch that moves in place is moved anew for each variant."""
    with closing(initial_of("Predicts", "OwnBatches")) as initial:
        batches = sys.modules[type(initial.data).__module__]
        looks = []
        monkeypatch.setattr(
            timed_variant, "timer", lambda: looks.append(list(batches.LOADED)) or 0.0
        )
        for _ in range(2):
            TimedVariant(initial, PLAIN).prepare("predict")
    assert batches.MOVED == [False] * 6
    assert looks == [[0, 1, 2]] * 4

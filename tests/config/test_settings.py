"""The config check: defaults, all errors at once, what a machine can run."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from standard_config import resolved

from twinrun.config import sweep_trials
from twinrun.config.reference import SCHEMA, reference
from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def changed(*changes):
    """Give the standard config with values set: ("variants.deterministic.threads", 3)."""
    config = copy.deepcopy(CONFIG)
    for key, value in changes:
        *parents, last = key.split(".")
        place = config
        for parent in parents:
            place = place[parent]
        place[last] = value
    return config


def errors(*changes):
    with pytest.raises(TwinrunError) as raised:
        resolve(changed(*changes), SCHEMA, gpus=0)
    return [line for line in str(raised.value).split("\n") if line.startswith("  ")]


def test_the_standard_config_is_valid():
    settings = resolve(CONFIG, SCHEMA, gpus=0)
    assert settings.studies == [
        "reproducibility",
        "devices",
        "acceleration",
        "parallel",
        "sweep",
        "contest",
        "matrix",
        "resume",
        "noise",
    ]
    assert len(settings.cells) == 23
    used = ["denoiser", "factorization", "peaks", "digits", "digits-short", "digits-few"]
    used += ["digits-few-quick", "denoiser-short"]
    assert settings.active_workloads() == used
    assert list(settings.timings) == [
        "determinism_denoiser",
        "determinism_factorization",
        "devices_peaks",
        "acceleration_digits",
    ]


def test_a_study_without_its_gpu_times_the_other_device_at_every_size():
    settings = resolve(CONFIG, SCHEMA, gpus=0)
    timing = settings.timings["devices_peaks"]
    assert (timing.variants, timing.phases) == (["cpu", "cpu-fast"], ["train", "trainer"])
    assert (timing.size, timing.sizes) == ("points", [100, 200, 1000, 10000, 40000])
    reason = "no GPU on this machine"
    assert settings.not_run_of("devices") == {"gpu": reason, "gpu-fast": reason}
    assert settings.timings_of("devices") == ["devices_peaks"]


def test_a_ratio_takes_two_variants():
    settings = resolve(changed(("acceleration.variants", ["eager"])), SCHEMA, gpus=0)
    assert settings.timings_of("acceleration") == []


def test_with_a_gpu_both_devices_are_timed():
    settings = resolve(CONFIG, SCHEMA, gpus=1)
    assert settings.timings["devices_peaks"].variants == ["cpu", "cpu-fast", "gpu", "gpu-fast"]
    assert settings.timings["acceleration_digits"].phases == ["train", "trainer", "predict"]


def test_defaults_are_filled_at_every_level():
    settings = resolve({"studies": ["reproducibility"], **minimal()}, SCHEMA, gpus=0)
    assert settings.config["reproducibility"]["cost"] == {"rounds": 12, "steps": 5}
    assert settings.variants["plain"].threads == 2
    assert settings.workloads["mine"].hyperparameters == {}


def minimal():
    return {
        "workloads": {"mine": {"module": "a.b:C", "data": "a.b:D", "epochs": 1}},
        "variants": {"plain": {}},
        "reproducibility": {"workloads": ["mine"], "variants": ["plain"]},
    }


def test_the_config_given_is_not_changed():
    before = copy.deepcopy(CONFIG)
    resolve(CONFIG, SCHEMA, gpus=0)
    assert before == CONFIG


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("studys", ["reproducibility"], "studys: unknown key, did you mean studies?"),
        ("studies", [], "studies: the list is empty, name at least one"),
        ("studies", "reproducibility", "'reproducibility' is of the wrong type, expected a list"),
        (
            "studies",
            ["reproducability"],
            "is not one of reproducibility, .*, did you mean reproducibility",
        ),
        ("studies", ["reproducibility"] * 2, "'reproducibility' is named twice"),
        ("accelerator", "cuda", "accelerator: 'cuda' is not one of auto, cpu, gpu; write gpu"),
        ("variants.serial.precision", 16, "16 is not one of .*, bf16-true; write 16-mixed$"),
        ("variants.serial.precision", "bf16", "'bf16' is not one of .*; write bf16-mixed$"),
        ("sweep.best", "max", "'max' is not one of highest, lowest, null; write highest$"),
        (
            "sweep.metric",
            "val_loss",
            "sweep.best: say whether the highest or the lowest 'val_loss'",
        ),
        ("contest.metric", "val_loss", "contest.best: say whether the highest or the lowest"),
        ("contest.a", "digits-fex", "contest.a: no workload or variant is called 'digits-fex', .*"),
        ("contest.b", "digits-few", "contest.b: 'digits-few' is a, too; name another candidate"),
        ("contest.b", "serial", "'serial' is a variant and a, 'digits-few', a workload"),
        ("variants.deterministic.threads", 0, "threads: 0 is out of range, allowed are 1 to 1024"),
        ("variants.deterministic.threads", 10**30, "is out of range"),
        (
            "variants.deterministic.threads",
            "two",
            "'two' is of the wrong type, expected a whole number",
        ),
        (
            "variants.deterministic.threads",
            1.5,
            "1.5 is of the wrong type, expected a whole number",
        ),
        ("variants.deterministic.deterministic", "yes", "expected true or false"),
        ("variants.deterministic.treads", 1, "treads: unknown key, did you mean threads?"),
        ("variants", {"a/../b": {}}, "'a/../b' is not a name"),
        ("variants", {"$(touch x)": {}}, "is not a name"),
        ("variants", {"x" * 41: {}}, "is not a name"),
        ("variants", [], r"variants: \[\] is of the wrong type, expected a mapping"),
        ("reproducibility.repeats", 1, "repeats: 1 is out of range, allowed are 2 to 1000"),
        ("devices.sizes", [0], "devices.sizes.0: 0 is out of range, allowed are 1 to 1000000000"),
        ("acceleration.rounds", 0, "acceleration.rounds: 0 is out of range, allowed are 6 to"),
        ("variants.compiled.compile", "all", "'all' is not one of none, module, step"),
        ("variants.eager.layout", "features_first", "eager.layout: features_first needs `compile:"),
        (
            "variants.compiled.optimizer",
            "fused",
            "compiled.optimizer: `compile: step` fuses it by itself",
        ),
        (
            "variants.compiled.devices",
            2,
            "compiled.devices: compile: step takes a step in one piece and",
        ),
        (
            "variants.eager.cuda_graph",
            1,
            "cuda_graph: 1 is of the wrong type, expected true or false",
        ),
        (
            "variants.compiled.precision",
            "16-mixed",
            "compiled.precision: 16-mixed scales gradients, for which",
        ),
        ("reproducibility.seeds", [-1], "seeds.0: -1 is out of range, allowed are 0 to 4294967295"),
        ("reproducibility.seeds", [1, 1], "1 is named twice"),
        ("reproducibility.workloads", ["denoisr"], "no workload is called 'denoisr', did you mean"),
        ("reproducibility.variants", ["swift"], "no variant is called 'swift'; known: nondeterm"),
        ("reproducibility.cost.rounds", 0, "rounds: 0 is out of range, allowed are 6 to 100000"),
        (
            "workloads.denoiser.dataset",
            "digit",
            "no dataset is called 'digit', did you mean",
        ),
        ("workloads.denoiser.epochs", 0, "epochs: 0 is out of range"),
        (
            "workloads.denoiser.module",
            "a.b",
            "'a.b' is not an import path like",
        ),
        ("workloads.denoiser.module", "a;b:C", "is not an import path"),
        ("workloads.mine", {"module": "a:B"}, "workloads.mine: the key epochs is missing"),
        ("datasets.mine", {}, "needs exactly one of `make` and `file`"),
        ("datasets.mine", {"make": "a:b", "file": "c"}, "needs exactly one of `make` and `file`"),
        ("datasets.mine", {"file": "absent.csv"}, "'absent.csv' is neither a file nor a folder"),
        ("checkpoint_minutes", -1, "checkpoint_minutes: -1 is out of range, allowed are 0 to"),
        (
            "variants.two-workers.nodes",
            3,
            "two-workers.nodes: 3 machines cannot evenly share 2 workers",
        ),
        (
            "variants.two-workers",
            {"devices": 3, "nodes": 2},
            "two-workers.nodes: 2 machines cannot evenly share 3 workers",
        ),
        (
            "variants.eager",
            {"stop": "before_validation", "validation": False},
            "eager.stop: before_validation never comes with validation: false",
        ),
        (
            "variants.eager",
            {"stop": "after_validation", "validation": False},
            "eager.stop: after_validation never comes with validation: false",
        ),
        (
            "variants.two-workers",
            {"devices": 2, "accelerator": "gpu", "stop": "mid_epoch"},
            "stop: mid_epoch needs devices: 1 or the CPUs of one machine",
        ),
        (
            "variants.two-workers",
            {"devices": 2, "nodes": 2, "stop": "mid_epoch"},
            "stop: mid_epoch needs devices: 1 or the CPUs of one machine",
        ),
        (
            "resume",
            {"workloads": ["denoiser-short"], "variants": ["two-workers"]},
            "resume.variants.0: accumulate: 2 needs devices: 1, not 2; leave mid_accumulation, "
            "which accumulates, out of resume.stops",
        ),
        ("resume.workloads", ["once"], "no workload is called 'once'"),
        ("workloads.denoiser-short.epochs", 1, "resume.workloads.0: denoiser-short trains 1 epoch"),
        ("sweep.trials", [], "sweep.trials: the list is empty"),
        ("sweep.trials", [{"lr": [1, 1]}], "sweep.trials: the trial 'digits~lr~1' is there twice"),
        (
            "sweep.trials",
            [{"lr": ["../a"]}],
            "is not a number, true, false or a word of .*, nor a list",
        ),
        ("sweep.trials", [{"x" * 99: 1, "y" * 99: 1}], "is too long for a folder's name"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(key, value, message):
    (line,) = errors((key, value))
    assert re.search(message, line), line
    assert key.split(".")[0] in line


def test_all_mistakes_come_at_once():
    lines = errors(
        ("studys", 1), ("reproducibility.repeats", 0), ("variants.deterministic.threads", -1)
    )
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("name", "key", "value", "gpus", "reason"),
    [
        ("eager", "cuda_graph", True, 0, "a CUDA graph needs a GPU"),
        ("cpu-fast", "accelerator", "gpu", 1, "features_first is a layout for CPUs"),
        ("two-workers", "stop", "mid_epoch", 2, "several workers can be resumed on CPUs only"),
    ],
)
def test_settings_that_need_another_device_are_not_run(name, key, value, gpus, reason):
    settings = resolve(changed((f"variants.{name}.{key}", value)), SCHEMA, gpus=gpus)
    assert settings.not_run[name] == reason


@pytest.mark.parametrize(
    ("top", "variant", "gpus", "accelerator", "runs"),
    [
        ("auto", "auto", 0, "cpu", True),
        ("auto", "auto", 1, "gpu", True),
        ("cpu", "auto", 1, "cpu", True),
        ("gpu", "auto", 0, "gpu", True),  # the user promises that the jobs will find one
        ("auto", "gpu", 0, "gpu", False),
        ("auto", "cpu", 1, "cpu", True),
    ],
)
def test_accelerators_are_resolved(top, variant, gpus, accelerator, runs):
    config = changed(("accelerator", top), ("variants.deterministic.accelerator", variant))
    settings = resolve(config, SCHEMA, gpus=gpus)
    assert settings.variants["deterministic"].accelerator == accelerator
    assert ("deterministic" not in settings.not_run) is runs
    assert ("deterministic" in settings.variants_of("reproducibility")) is runs


def trials_of(*trials):
    return resolve(changed(("sweep.trials", list(trials))), SCHEMA, gpus=0)


def test_lists_of_a_trial_are_crossed_and_others_stand_beside_them():
    settings = trials_of({"learning_rate": [0.1, 0.01], "batch_size": [8, 16]}, {"fast": True})
    assert list(settings.trials) == [
        "digits~learning_rate~0.1~batch_size~8",
        "digits~learning_rate~0.1~batch_size~16",
        "digits~learning_rate~0.01~batch_size~8",
        "digits~learning_rate~0.01~batch_size~16",
        "digits~fast~true",
    ]
    assert settings.trials_of("digits") == list(settings.trials)


def test_a_trial_is_its_workload_with_other_hyperparameters_and_epochs():
    settings = trials_of({"learning_rate": [0.1]})
    digits, trial = settings.workloads["digits"], settings.workloads["digits~learning_rate~0.1"]
    assert trial.hyperparameters == {**digits.hyperparameters, "learning_rate": 0.1}
    assert (trial.module, digits.epochs, trial.epochs) == (digits.module, 20, 2)


def test_each_trial_has_a_name_of_its_values_as_yaml_writes_them():
    """The name is a part of paths: another spelling would train every trial again."""
    crossed = [{"flag": [True, False], "rate": [0.1, 1e-05]}, {"width": 8}]
    config = {"studies": ["sweep"], "sweep": {"workloads": ["digits"], "trials": crossed}}
    found = list(sweep_trials.trials(config))
    assert [name for name, _, _ in found] == [
        "digits~flag~true~rate~0.1",
        "digits~flag~true~rate~1e-05",
        "digits~flag~false~rate~0.1",
        "digits~flag~false~rate~1e-05",
        "digits~width~8",
    ]
    assert found[1][1:] == ("digits", {"flag": True, "rate": 1e-05})


def test_a_sweep_that_is_not_asked_for_has_no_trials():
    settings = resolve(changed(("studies", ["parallel"])), SCHEMA, gpus=0)
    assert settings.trials == {}
    assert "digits~learning_rate~0.001~batch_size~32" not in settings.workloads


@pytest.mark.parametrize(
    ("workload", "variant", "at_once", "cores"),
    [
        ("denoiser", "deterministic", 1, 2),  # no study limits it
        ("digits-short", "one-worker", 1, 8),
        ("digits-short", "one-worker", 3, 3),  # two of 3 cores, not three of 2.7
        ("digits-short", "two-workers", 8, 2),
        ("digits-short", "two-workers", None, 2),
    ],
)
def test_runs_ask_for_so_many_cores_that_few_run_at_once(workload, variant, at_once, cores):
    settings = resolve(changed(("parallel.at_once", at_once)), SCHEMA, gpus=0)
    assert settings.cores_of(workload, variant, available=8) == cores


def test_trials_run_side_by_side_or_one_after_the_other():
    for at_once, cores in ((None, 1), (1, 8), (4, 2)):
        settings = resolve(changed(("sweep.at_once", at_once)), SCHEMA, gpus=0)
        trial = next(iter(settings.trials))
        assert settings.cores_of(trial, "one-worker", available=8) == cores


def test_the_reference_page_is_up_to_date():
    page = reference(yaml.safe_load(SCHEMA.read_text()))
    assert (ROOT / "docs/config.md").read_text() == page


def test_a_study_has_one_default_said_in_two_places():
    """In the schema, and in config.yaml, which every config is merged into."""
    schema = yaml.safe_load(SCHEMA.read_text())["properties"]
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    differing = {
        f"{study}.{key}"
        for study in schema["studies"]["items"]["enum"]
        for key, value in schema[study]["properties"].items()
        if key in config[study] and key != "cost" and config[study][key] != value["default"]
    }
    # Full-size lists and lengths that are no default for another's workload.
    assert differing == {"matrix.changes", "sweep.epochs"}


def test_environments_hold_the_pins_of_the_lock():
    lock = {line for line in (ROOT / "requirements.lock").read_text().split() if "==" in line}
    files = sorted((ROOT / "envs").glob("*.yaml"))
    assert [file.stem for file in files] == ["report", "training"]
    for file in files:
        dependencies = yaml.safe_load(file.read_text())["dependencies"]
        (pins,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
        assert set(pins) <= lock, file.name
        assert len(pins) >= 8


def test_names_that_python_takes_are_taken():
    """Red before: refused, as no import path and no argument's name."""
    config = changed(
        ("workloads.denoiser.module", "modèle:Réseau"),
        ("workloads.denoiser.hyperparameters", {"λ": 0.02}),
        ("sweep.trials", [{"λ": 0.01}, {"λ": 0.02}]),
    )
    config["studies"], config["sweep"]["workloads"] = ["sweep"], ["denoiser"]
    settings = resolve(config, SCHEMA, gpus=0)
    assert "denoiser~λ~0.01" in settings.trials


@pytest.mark.parametrize(
    "path", ["my-model:Net", "model:2Net", "model:", "model/net:Net", "a..b:C"]
)
def test_paths_that_python_does_not_take_are_refused(path):
    (found,) = errors(("workloads.denoiser.module", path))
    assert "import path" in found


@pytest.mark.parametrize("page", ["config.md", "audit-your-module.md"])
def test_accumulation_by_epochs_is_taken_as_the_docs_write_it(page):
    """Red before: its keys were tagged as numbers, and refused."""
    text = (ROOT / "docs" / page).read_text()
    (shown,) = re.findall(r"accumulate_grad_batches.*(\{0: [^}]*\})", text)
    schedule = yaml.safe_load(shown)
    config = changed(("workloads.denoiser.trainer", {"accumulate_grad_batches": schedule}))
    found = resolve(config, SCHEMA, gpus=0).workloads["denoiser"]
    assert found.trainer.accumulation() == schedule


def test_what_no_timing_measures_is_said_before_any_job():
    """Red before: in the results alone, which take hours."""
    variants = {"loads": {"data_workers": 2}, "cut": {"accumulate": 4}}
    settings = resolved(
        studies=["acceleration"],
        variants=variants,
        acceleration={"variants": ["nondeterministic", "deterministic", "cut"]},
    )
    assert settings.notes == [
        "acceleration: the variant cut is trained and not timed: a timing is one process that does "
        "whole steps, without accumulate: 4"
    ]


def test_what_a_variant_has_from_a_built_in_one_is_said_before_any_job():
    """Red before: a variant of one's own was compiled because one of ours has its name."""
    own = {"compiled": {"threads": 1, "data_workers": 2}, "mine": {"threads": 1}}
    (note,) = resolved(studies=["reproducibility"], variants=own).notes
    assert note == (
        "variants.compiled: changes the built-in variant of this name, which also says threads: 1, "
        "compile: step, layout: channels_last; a variant of another name is yours alone"
    )
    whole = {"serial": {"deterministic": False, "threads": 4}}
    assert resolved(studies=["reproducibility"], variants=whole).notes == []


def test_a_workload_that_no_study_names_is_said_before_any_job():
    """Red before: the built-in ones were trained in its place, without a word."""
    mine = {"module": "my:Net", "epochs": 1}
    (note,) = resolved(studies=["reproducibility"], workloads={"mine": mine}).notes
    assert note == (
        "workloads.mine: not trained, since no study names it (chosen: reproducibility); put it "
        "under reproducibility.workloads"
    )
    named = {"workloads": ["mine"]}
    found = resolved(studies=["reproducibility"], workloads={"mine": mine}, reproducibility=named)
    assert found.notes == []


def test_a_study_that_trains_none_of_the_users_workloads_is_said_before_any_job():
    """Red before: 24 runs of a built-in one, for which nobody had asked."""
    mine = {"mine": {"module": "my:Net", "epochs": 2}}
    studies, named = ["reproducibility", "matrix"], {"workloads": ["mine"]}
    (note,) = resolved(studies=studies, workloads=mine, reproducibility=named).notes
    assert note == (
        "matrix: trains digits-few, built in, and none of yours; name them under "
        "matrix.workloads, such as [mine]"
    )
    of_both = {"reproducibility": named, "matrix": named}
    assert resolved(studies=studies, workloads=mine, **of_both).notes == []


UNDECIDED = {
    "acceleration": {"variants": ["eager"]},
    "parallel": {"variants": ["one-worker"]},
    "sweep": {"trials": [{"learning_rate": 0.1}]},
    "contest": {"seeds": [4]},
    "matrix": {"changes": []},
    "noise": {"seeds": [1, 2]},
}


@pytest.mark.parametrize("study", UNDECIDED)
def test_a_question_without_an_answer_is_said_before_any_job(study):
    """Red before: trained, and said on the page."""
    (note,) = resolved(studies=[study], **{study: UNDECIDED[study]}).notes
    assert note.startswith(f"{study}: ")
    assert resolved(studies=[study]).notes == []


def test_trials_of_one_number_are_said_before_any_job():
    """Red before: ranked against each other. Code may tell 1 from 1.0, so they are no mistake."""
    trials = [{"learning_rate": [1, 1.0, True, 2.0]}]
    (note,) = resolved(studies=["sweep"], sweep={"trials": trials}).notes
    one, other = (f"digits~learning_rate~{value}" for value in ("1.0", "1"))
    assert note.startswith(f"sweep.trials: {one} and {other} differ as 1.0 and 1 do")


def test_no_variant_takes_the_place_of_a_baseline_that_cannot_be_timed():
    """Red at a14b1c7: the second one did, without a word, and the gate judged its ratios."""
    variants = {"det-env": {"deterministic": True, "environment": {"MKL_CBWR": "COMPATIBLE"}}}
    variants |= {"cut": {"accumulate": 4}}
    of_env = "a timing is one process that does whole steps, without environment"
    of_cut = "a timing is one process that does whole steps, without accumulate: 4"

    def left_out(study, *names):
        settings = resolved(studies=[study], variants=variants, **{study: {"variants": [*names]}})
        timed = {name for timing in settings.timings.values() for name in timing.variants}
        assert not timed & settings.untimed_of(study).keys()
        return timed, settings.untimed_of(study)

    two = {"nondeterministic", "deterministic"}
    assert left_out("reproducibility", *sorted(two), "det-env") == (two, {"det-env": of_env})
    assert left_out("reproducibility", "det-env", "deterministic", "cut") == (
        set(),
        {
            "det-env": of_env,
            "deterministic": f"the baseline, det-env, cannot be timed: {of_env}",
            "cut": of_cut,
        },
    )
    assert left_out("acceleration", "eager", "cut") == (set(), {"cut": of_cut})
    assert left_out("devices", "cpu", "cut") == ({"cpu"}, {"cut": of_cut})
    # A first one that no machine of this kind runs leaves its place, as in the comparisons.
    assert left_out("devices", "gpu", "cpu", "cut") == ({"cpu"}, {"cut": of_cut})
    # One variant alone has nobody to be compared with, and parallel takes its times from its runs.
    assert left_out("reproducibility", "det-env") == (set(), {})
    assert left_out("parallel", "one-worker", "two-workers") == (set(), {})


def test_a_stop_behind_the_last_step_is_noted_before_any_job():
    """Red before: "not run" when all had been trained."""
    mine = {"module": "a:B", "epochs": 2}
    asked = {"workloads": ["mine"], "stops": ["mid_epoch", "last_batch", "epoch_end"]}
    found = {"studies": ["resume"], "resume": asked}
    (note,) = resolved(workloads={"mine": mine}, **found).notes
    assert note == (
        "resume: mine trains 2 epochs, and a stop is in the second: after last_batch and epoch_end "
        "Lightning's checkpoint leaves no step to train, so that equal bits show nothing; give it "
        "another epoch"
    )
    assert resolved(workloads={"mine": {**mine, "epochs": 3}}, **found).notes == []


@pytest.mark.parametrize("study", ["reproducibility", "matrix"])
@pytest.mark.parametrize("resume", ["lightning", "twinrun"])
def test_so_is_that_of_a_variant_and_of_a_change(study, resume):
    """Red before: of the study `resume` alone."""
    stop = {"stop": "epoch_end", "resume": resume}
    asked = {"variants": ["own"]} if study == "reproducibility" else {"changes": [stop]}
    found = resolved(
        studies=[study],
        workloads={"mine": {"module": "a:B", "epochs": 2}},
        variants={"own": stop},
        **{study: {"workloads": ["mine"], **asked}},
    )
    note = (
        f"{study}: mine trains 2 epochs, and a stop is in the second: after epoch_end Lightning's "
        f"checkpoint leaves no step to train, so that equal bits show nothing; give it another "
        f"epoch"
    )
    assert found.notes == ([note] if resume == "lightning" else [])


def test_data_of_a_workload_may_be_null():
    """Red before: "expected a text", and not that the key may be left out."""
    mine = {"module": "a:B", "data": None, "epochs": 2}
    asked = {"studies": ["reproducibility"], "reproducibility": {"workloads": ["mine"]}}
    assert resolved(workloads={"mine": mine}, **asked).workloads["mine"].data is None

"""One step of everything, before any job: mistakes in words, sizes, nothing left."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from twinrun import artifacts
from twinrun.config import memory
from twinrun.config.config_files import mistakes_of
from twinrun.config.definitions import Dataset
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA
from twinrun.config.with_standard import merged
from twinrun.errors import JobError, TwinrunError
from twinrun.process.forked import death
from twinrun.process.launching import launch
from twinrun.training import rehearsal, start_rehearsal
from twinrun.training.rehearsal_plan import Rehearsed, parts_of

ROOT = Path(__file__).parents[2]
BAD = sorted((ROOT / "tests/configs/bad/rehearsed").glob("*.yaml"))


def words_of(file):
    """The first line of each file is a comment with the words that the message must have."""
    return file.read_text().partition("\n")[0].removeprefix("# ").split(" | ")


def rehearsed(settings_by_name, folder, search_path):
    """Rehearse the parts of several configs in one process; return what came of each."""
    parts, datasets = [], {}
    for name, settings in settings_by_name.items():
        for part in parts_of(settings, [str(search_path)]):
            dataset = part.dataset and f"{name}-{part.dataset}"
            if dataset:
                datasets[dataset] = settings.datasets[part.dataset]
            parts.append(replace(part, label=f"{name}/{part.label}", dataset=dataset))
    arguments = {"parts": parts, "datasets": datasets, "search_path": [str(search_path)]}
    report = folder / "report.json"
    launch("twinrun.training.rehearsal:rehearse", {**arguments, "report": str(report)}, {})
    found = artifacts.read_record(report, list[Rehearsed])
    return {
        name: [part for part in found if part["label"].startswith(f"{name}/")]
        for name in settings_by_name
    }


@pytest.fixture(scope="module")
def bad_ones(tmp_path_factory, request):
    """All that are asked for in one process, from an empty folder."""
    cases = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    files = [file for file in BAD if any(case.get("file") == file for case in cases)]
    folder, before = tmp_path_factory.mktemp("bad"), Path.cwd()
    os.chdir(ROOT)
    try:
        settings = {file.stem: resolve(merged([file])[0], SCHEMA, gpus=0) for file in files}
        return rehearsed(settings, folder, BAD[0].parent)
    finally:
        os.chdir(before)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_mistake_is_a_sentence_before_any_job(bad_ones, file):
    assert not mistakes_of(file)
    mistakes = [mistake for part in bad_ones[file.stem] for mistake in part["mistakes"]]
    text = "\n".join(mistakes).replace(f"{file.stem}/", "").replace(f"{file.stem}-", "")
    for word in words_of(file):
        assert word in text
    assert all(len(mistake) < 500 for mistake in mistakes)
    assert all("\n" not in mistake for mistake in mistakes)
    expected = 2 if file.stem in ("two_things_are_wrong", "module_and_data_are_absent") else 1
    assert len(set(mistakes)) == expected, text


# What is right


def config_of(folder, *, widths=(), variant=None, others=None, **change):
    """A config of one workload, swept over widths; `change` has its module, data and the like."""
    variants = {"serial": variant or {}, **(others or {})}
    workload = {
        "module": "wrong_modules:Net",
        "data": "wrong_modules:Points",
        "epochs": 3,
        "hyperparameters": {"width": 3},
        **change,
    }
    config = {
        "studies": ["reproducibility"],
        "workloads": {"mine": workload},
        "reproducibility": {"workloads": ["mine"], "variants": list(variants)},
        "variants": variants,
    }
    if widths:
        trials = [{"width": widths}]
        config["studies"] = ["sweep"]
        config["sweep"] = {"workloads": ["mine"], "trials": trials, "metric": "train_loss"}
        config["sweep"]["best"] = "lowest"
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(config))
    return resolve(merged([file])[0], SCHEMA, gpus=0)


NEEDING = """
import os
import time

import torch
import wrong_modules
from torch.utils.data import DataLoader


class Net(wrong_modules.Net):
    def __init__(self, path: str, **kwargs):
        super().__init__(width=kwargs["width"])
        self.save_hyperparameters()
        assert (path, kwargs["depth"]) == ("weights.pt", 2)

    def setup(self, stage):
        assert os.environ["NEEDED_BY_A_MODULE"] == "3"

    def training_step(self, batch, index):
        self.logger.log_metrics({"seen": index})
        return super().training_step((batch[0].to_dense(), batch[1]), index)


class Cached(wrong_modules.Validated):
    # Keeps a table that is longer for training; logs by itself.
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.table = None

    def forward(self, inputs):
        if self.table is None or len(self.table) < len(inputs):
            self.table = torch.arange(float(len(inputs))).cos()
        return super().forward(inputs + self.table[: len(inputs), None])

    def training_step(self, batch, index):
        self.logger.experiment.add_scalar("seen", index)
        return super().training_step(batch, index)


class Warming(wrong_modules.Net):
    # Does once what takes long: in training, in validation, in test and prediction.
    def training_step(self, batch, index):
        self.warm("training")
        return super().training_step(batch, index)

    def validation_step(self, batch, index):
        self.warm("validation")

    def test_step(self, batch, index):
        self.warm("test")

    def predict_step(self, batch, index):
        self.warm("prediction")
        return self(batch[0])

    def warm(self, what):
        self.warmed = getattr(self, "warmed", set())
        time.sleep(0.0 if what in self.warmed else 1.5)
        self.warmed.add(what)


class Steady(Warming):
    # Takes as long each time.
    def warm(self, what):
        time.sleep(0.05)


class Loading(wrong_modules.Points):
    # Has workers of its own.
    def train_dataloader(self):
        data = super().train_dataloader().dataset
        return DataLoader(data, batch_size=2, num_workers=2, prefetch_factor=3)

    def val_dataloader(self):
        return DataLoader(super().train_dataloader().dataset, num_workers=1)


class Sparse(wrong_modules.Points):
    def train_dataloader(self):
        return DataLoader(
            list(super().train_dataloader().dataset),
            batch_size=2,
            collate_fn=lambda found: (
                torch.stack([x for x, _ in found]).to_sparse(),
                torch.stack([y for _, y in found]),
            ),
        )
"""


RIGHT = {
    "plain": {},
    "planning": {"module": "wrong_modules:Planning"},
    "summed": {"trainer": {"accumulate_grad_batches": 2}},
    "untested": {"module": "wrong_modules:Untested", "data": "wrong_modules:Tested"},
    "frozen": {"module": "wrong_modules:Frozen"},
    "kept": {"module": "wrong_modules:Kept", "others": {"blind": {"validation": False}}},
    "with best": {"module": "wrong_modules:EndsWithBest"},
    "stopped": {
        "others": {
            "middle": {"stop": "mid_epoch"},
            "parts": {"stop": "mid_accumulation", "accumulate": 2},
            "end": {"stop": "epoch_end", "optimizer": "fused"},
        },
        "trainer": {"max_steps": 6},
    },
    "loading": {"module": "wrong_modules:Validated", "data": "needing:Loading"},
    "sweep": {"module": "wrong_modules:Ending", "widths": [99, 4, 5]},
    "cached": {
        "module": "needing:Cached",
        "data": "needing:Loading",
        "variant": {"logging": True},
    },
    "needing": {
        "module": "needing:Net",
        "data": "needing:Sparse",
        "hyperparameters": {"width": 3, "path": "weights.pt", "depth": 2},
        "variant": {"logging": True, "environment": {"NEEDED_BY_A_MODULE": "3"}},
    },
}
SUMMED = {"accumulate_grad_batches": 2}
FURTHER_RIGHT = {
    "skipping": {"module": "wrong_modules:Skipping"},
    "streamed": {"data": "wrong_modules:Stream"},
    "drawing": {"data": "wrong_modules:Drawing"},
    "infinite": {"module": "wrong_modules:Infinite"},
    "by hand": {"module": "wrong_modules:OwnSteps"},
    "plateau by hand": {
        "module": "wrong_modules:OnPlateauByHand",
        "others": {"blind": {"validation": False}},
    },
    "rarely by plateau": {
        "module": "wrong_modules:OnPlateau",
        "trainer": {"check_val_every_n_epoch": 2, "max_steps": 4},
    },
    "warming": {"module": "needing:Warming", "data": "wrong_modules:Tested"},
    "steady": {"module": "needing:Steady", "data": "wrong_modules:Tested"},
    "filled": {"module": "wrong_modules:FilledFirst", "data": "wrong_modules:Uneven"},
    "one cycle, stopping": {
        "module": "wrong_modules:MayStop",
        "hyperparameters": {"width": 3, "steps": 4},
    },
}
FITTING = {
    "careful": {"module": "wrong_modules:Careful", "data": "wrong_modules:Uneven"},
    "normalised": {"module": "wrong_modules:Normalised", "data": "wrong_modules:Points"},
    **{
        name: {"module": f"wrong_modules:{kind}", "hyperparameters": {"width": 3, **given}, **more}
        for name, kind, given, more in (
            ("one cycle", "OneCycle", {"steps": 15}, {}),
            ("one cycle of epochs", "OneCycle", {"steps": 3, "interval": "epoch"}, {}),
            ("one cycle of sums", "OneCycle", {"steps": 9}, {"trainer": SUMMED}),
            ("one cycle, cut", "OneCycle", {"steps": 7}, {"trainer": {"max_steps": 7}}),
        )
    },
}


def rehearsed_in(folder, changes):
    before = Path.cwd()
    os.chdir(folder)
    (folder / "needing.py").write_text(NEEDING)
    try:
        settings = {name: config_of(folder, **change) for name, change in changes.items()}
        found = rehearsed(settings, folder, BAD[0].parent)
        found["left"] = sorted(path.name for path in folder.iterdir())
        return found
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def right_ones(tmp_path_factory):
    return rehearsed_in(tmp_path_factory.mktemp("right"), RIGHT)


@pytest.fixture(scope="module")
def further_right_ones(tmp_path_factory):
    return rehearsed_in(tmp_path_factory.mktemp("further"), FURTHER_RIGHT)


def test_a_step_is_a_mini_batch(right_ones):
    """Red before: the optimizer's steps, where answers count mini-batches."""
    (summed,) = right_ones["summed"]
    assert summed["steps_per_epoch"] == 5


def test_sizes_and_metrics_are_measured(right_ones):
    ((plain,), (planning,)) = right_ones["plain"], right_ones["planning"]
    assert plain["mistakes"] == plain["notes"] == planning["mistakes"] == []
    assert (plain["steps_per_epoch"], plain["logged"]) == (5, ["train_loss"])
    sizes = plain["sizes"]
    assert sizes["parameters"] == 5 * 3 + 4
    assert (sizes["parameters_bytes"], sizes["optimizer_bytes"]) == (4 * 19, 0)
    assert sizes["batch_bytes"] == 4 * (2 * 4 + 2)
    assert 100 < sizes["peak_memory_mb"] < 4000
    assert sizes["step_seconds"] > 0
    assert (sizes["threads"], sizes["validation_batches"]) == (1, 0)
    foreseen = plain["foreseen"]
    assert foreseen["precision"] == "32-true"
    assert 100 < foreseen["base_memory_mb"] <= sizes["peak_memory_mb"]
    assert (foreseen["gradients_bytes"], foreseen["optimizer_bytes"]) == (0, 0)


def test_data_workers_of_the_loaders_own_are_measured(right_ones):
    """Red before: jobs asked for none, since the variant said 0."""
    ((found,), (plain,)) = right_ones["loading"], right_ones["plain"]
    assert found["mistakes"] == []
    sizes = found["sizes"]
    assert (sizes["loader_workers"], sizes["loader_batches"]) == (3, 8)
    assert 2**20 < sizes["worker_bytes"] < 2**30
    names = ("loader_workers", "loader_batches", "worker_bytes")
    assert [plain["sizes"][name] for name in names] == [0, 0, 0]


@pytest.mark.exhaustive
def test_what_is_slow_once_is_clocked_again(right_ones, further_right_ones):
    """Red before: the first of each counted for all."""
    ((found,), (plain,)) = further_right_ones["warming"], right_ones["plain"]
    assert found["mistakes"] == []
    assert all("num_sanity_val_steps: 2" in note for note in found["notes"])
    for what in ("step", "validation", "evaluation"):
        later = found["sizes"][f"later_{what}_seconds"]
        assert later < 1.5 < found["sizes"][f"{what}_seconds"]
    assert plain["sizes"]["later_validation_seconds"] is None


@pytest.mark.exhaustive
def test_what_is_short_is_clocked_again(further_right_ones):
    """Red before: of a step of 0.05 s a tenth was asked for, and of one of 0.22 s a tenth, too."""
    (found,) = further_right_ones["steady"]
    assert found["mistakes"] == found["notes"] == []
    for what in ("step", "validation", "evaluation"):
        least = 0.1 if what == "evaluation" else 0.05  # of test and prediction both
        assert found["sizes"][f"{what}_seconds"] >= least
        assert found["sizes"][f"later_{what}_seconds"] >= least


@pytest.mark.exhaustive
def test_a_module_may_skip_its_first_batches(further_right_ones):
    (found,) = further_right_ones["skipping"]
    assert found["mistakes"] == found["notes"] == []
    assert found["logged"] == ["train_loss", "val_loss"]


def test_what_other_variants_ask_for_is_met(right_ones):
    for (found,) in (right_ones["kept"], right_ones["stopped"]):
        assert found["mistakes"] == found["notes"] == []
    assert right_ones["kept"][0]["logged"] == ["train_loss", "val_loss"]


@pytest.mark.exhaustive
def test_a_schedule_that_is_never_stepped_without_its_metric_is_right(further_right_ones):
    """By hand, Lightning steps none; and a training may end within its first epoch."""
    for name in ("plateau by hand", "rarely by plateau"):
        (found,) = further_right_ones[name]
        assert found["mistakes"] == [], name


def test_a_module_may_read_its_checkpoints(right_ones):
    """Red before: refused, as 'NoneType' object has no attribute 'best_model_path'."""
    (found,) = right_ones["with best"]
    assert found["mistakes"] == found["notes"] == []


@pytest.mark.exhaustive
def test_manual_optimization_needs_no_optimizer_of_lightnings(further_right_ones):
    """Red before: refused, though it trains."""
    (found,) = further_right_ones["by hand"]
    assert found["mistakes"] == found["notes"] == []


def test_what_a_training_can_do_without_is_a_note(right_ones):
    (untested,), (frozen,) = right_ones["untested"], right_ones["frozen"]
    assert untested["mistakes"] == frozen["mistakes"] == []
    assert all(note.startswith("untested/mine: ") for note in untested["notes"])
    assert frozen["notes"][0].startswith("frozen/mine: ")
    assert "test: KeyError: 'labels'" in untested["notes"][0]
    assert "a builtins.object, which cannot be looked into" in untested["notes"][1]
    assert "the first step of Frozen changes no parameter" in frozen["notes"][0]


@pytest.mark.exhaustive
def test_each_note_names_its_workload(further_right_ones):
    """Red before: "train_dataloader has no length", of which workload nobody knew."""
    for name in ("streamed", "infinite", "drawing"):
        (found,) = further_right_ones[name]
        assert found["mistakes"] == []
        assert found["notes"]
        assert all(note.startswith(f"{name}/mine: ") for note in found["notes"])
    assert "train_dataloader has no length" in further_right_ones["streamed"][0]["notes"][0]
    assert "the first loss of Infinite is inf" in further_right_ones["infinite"][0]["notes"][0]
    assert further_right_ones["drawing"][0]["notes"] == [
        "drawing/mine: wrong_modules:Drawing draws random numbers when it is made, which is before "
        "the module; a script that makes the module first starts from other weights"
    ]


def test_a_schedule_that_may_end_too_soon_is_a_note(further_right_ones):
    (found,) = further_right_ones["one cycle, stopping"]
    (note,) = [note for note in found["notes"] if "OneCycleLR" in note]
    assert "made for 4 steps (" in note
    assert "takes 15, " in note


def test_a_last_batch_that_could_not_be_the_first_is_right(further_right_ones):
    """Red before: it was taken for the first one."""
    assert further_right_ones["filled"][0]["mistakes"] == []


@pytest.mark.exhaustive
def test_last_batches_and_schedules_that_fit_are_right(tmp_path):
    found = rehearsed_in(tmp_path, FITTING)
    assert all(found[name][0]["mistakes"] == [] for name in FITTING)


def test_a_trial_that_fails_is_a_result_and_does_not_end_the_others(right_ones):
    parts = right_ones["sweep"]
    assert [part["mistakes"] for part in parts] == [[]] * 4
    assert [part["sizes"] is None for part in parts] == [False, True, False, False]
    assert "constructing the module ended its process (exit code 3)" in parts[1]["notes"][0]


def test_what_a_module_needs_of_its_variant_is_there(right_ones):
    """A logger, a variable of the environment, any keyword, and a `path` of the module's own."""
    (needing,) = right_ones["needing"]
    assert needing["mistakes"] == []
    assert needing["sizes"]["batch_bytes"] > 0


def test_a_table_that_grows_with_batches_is_tried_on_copies(right_ones):
    """Red before: the first call of all sets table, and training may be otherwise."""
    (found,) = right_ones["cached"]
    assert found["mistakes"] == found["notes"] == []


def test_nothing_is_left(right_ones):
    """The checkpoints of the module's own callback neither."""
    assert right_ones["left"] == ["mine.yaml", "needing.py", "report.json"]


# What is chosen


def test_each_value_of_a_sweep_is_tried_once():
    config = merged([])[0]
    config["sweep"]["trials"] = [{"learning_rate": [0.1, 0.2, 0.3], "batch_size": [8, 16]}]
    parts = parts_of(resolve(config, SCHEMA, gpus=0), [])
    trials = [part.label for part in parts if part.key == "sweep.trials"]
    assert trials == [
        "digits~learning_rate~0.1~batch_size~8",
        "digits~learning_rate~0.1~batch_size~16",
        "digits~learning_rate~0.2~batch_size~8",
        "digits~learning_rate~0.3~batch_size~8",
    ]
    (size,) = [part for part in parts if part.key == "devices.size"]
    assert size.training.workload.hyperparameters["points"] == 100


def test_trials_and_sizes_have_a_logger_where_their_runs_have_one():
    """Red before: what needs one was said to fail, and the training had it."""
    config = merged([])[0] | {"studies": ["sweep", "devices"]}
    for variant in config["variants"].values():
        variant["logging"] = True
    parts = parts_of(resolve(config, SCHEMA, gpus=0), [])
    assert {part.key for part in parts} >= {"sweep.trials", "devices.size"}
    assert [part.label for part in parts if not part.training.variant.logging] == []


def test_a_workload_without_a_variant_that_can_run_is_left_out():
    config = merged([])[0]
    config |= {"studies": ["devices"], "devices": {**config["devices"], "variants": ["gpu"]}}
    assert parts_of(resolve(config, SCHEMA, gpus=0), []) == []
    assert len(parts_of(resolve(config, SCHEMA, gpus=1), [])) == 2


# What is remembered


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """A user's folder; a function that rehearses and says how many parts were launched."""
    shutil.copy(BAD[0].parent / "wrong_modules.py", tmp_path / "mine_model.py")
    (tmp_path / "mine.csv").write_text("1,2\n")
    monkeypatch.chdir(tmp_path)
    launched = []

    def fake(parts, *_):
        launched.extend(parts)
        for name in fake.leaves:
            Path(name).write_text("half of the digits")
        found = {"mistakes": fake.mistakes, "sizes": fake.sizes, "foreseen": fake.foreseen}
        return [{**part.outcome(), **found} for part in parts]

    def count(is_anew=False, **change):
        launched.clear()
        change = {"module": "mine_model:Net", "data": "mine_model:Points", **change}
        start_rehearsal.rehearse(config_of(tmp_path, **change), ["."], is_anew=is_anew)
        return len(launched)

    fake.mistakes, fake.leaves, fake.sizes, fake.foreseen = [], [], None, None
    monkeypatch.setattr(start_rehearsal, "_launched", fake)
    count.fake = fake
    return count


@pytest.fixture
def code(monkeypatch):
    """Code that stays as it is: to find what a module imports takes a process."""
    monkeypatch.setattr(start_rehearsal, "hash_of_code", lambda *_: "code")


@pytest.mark.exhaustive
def test_it_is_remembered_until_code_config_or_data_change(counted, tmp_path):
    assert counted() == 1
    assert counted() == 0
    assert counted(hyperparameters={"width": 4}) == 1
    assert counted() == 0, "the other config is remembered too"
    model = tmp_path / "mine_model.py"
    model.write_text(model.read_text() + "\n# a comment\n")
    assert counted() == 0
    model.write_text(model.read_text() + "\nCONSTANT = 4\n")
    assert counted() == 1
    assert counted(is_anew=True) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == [".snakemake"]


@pytest.mark.usefixtures("code")
def test_files_that_a_rehearsal_leaves_are_said(counted, monkeypatch):
    """Red before: a cache that the rehearsal wrote was read by all runs, and nothing said so."""
    said = []
    monkeypatch.setattr(start_rehearsal, "say", said.append)
    counted.fake.leaves = ["features.pt"]
    assert counted() == 1
    left = "Rehearsed: in the rehearsal of mine, features.pt changed in the working directory"
    assert any(line.startswith(left) for line in said)


@pytest.mark.usefixtures("code")
def test_what_was_measured_is_kept_for_the_jobs(counted):
    """Of what is remembered, too: another config may have been rehearsed since."""
    sizes = dict.fromkeys(memory.Sizes.__annotations__, 5)
    foreseen = dict.fromkeys(memory.Foreseen.__annotations__, 5) | {"precision": "32-true"}
    counted.fake.sizes, counted.fake.foreseen = sizes, foreseen
    assert counted() == 1
    expected = {"sizes": sizes, "foreseen": foreseen, "steps_per_epoch": None}
    assert memory.measured_of("mine") == expected
    memory.SIZES.unlink()
    assert counted() == 0
    assert memory.measured_of("mine") == expected


@pytest.mark.parametrize(
    ("ends", "asked"),
    [
        ([None], [4000]),
        (["part", None], [4000, 16000]),
        (["job", "part", None], [4000, 16000, 64000]),
        (["part", "job", "part"], [4000, 16000, 64000]),
    ],
)
def test_a_rehearsal_on_slurm_asks_for_more_memory_where_it_ran_out(ends, asked):
    """Red before: a network that needs 5 GB could not be rehearsed, and so not trained."""
    given, waiting = [], list(ends)

    def launched(resources):
        given.append(resources["mem_mb"])
        match waiting.pop(0):
            case "job":
                raise JobError(death(-9))
            case end:
                mistakes = [f"workloads.mine: {death(-9)}"] if end else []
                return [{"mistakes": mistakes}]

    start_rehearsal._with_enough(launched, {"mem_mb": 4000})
    assert given == asked


def test_another_data_file_is_rehearsed_again(counted, tmp_path):
    config = merged([])[0]
    config["datasets"]["own"] = {"file": "mine.csv"}
    settings = resolve(config, SCHEMA, gpus=0)
    workload = replace(settings.workloads["peaks"], dataset="own")
    settings.workloads["peaks"] = workload
    part = parts_of(settings, [])[0]
    part = replace(part, training=replace(part.training, workload=workload))
    memory = tmp_path / ".snakemake/twinrun/rehearsal.json"
    first = start_rehearsal._key(part, settings, [], memory)
    assert start_rehearsal._key(part, settings, [], memory) == first
    (tmp_path / "mine.csv").write_text("1,2,3\n")
    assert start_rehearsal._key(part, settings, [], memory) != first


@pytest.mark.usefixtures("code")
def test_a_mistake_is_not_remembered(counted):
    counted.fake.mistakes = ["workloads.mine: is wrong"]
    for _ in range(2):
        with pytest.raises(TwinrunError, match="1 error met in the rehearsal, before any job"):
            counted()
    counted.fake.mistakes = []
    assert counted() == 1


@pytest.mark.usefixtures("code")
def test_a_corrupt_memory_is_as_none(counted, tmp_path):
    assert counted() == 1
    (tmp_path / ".snakemake/twinrun/rehearsal.json").write_text("{")
    assert counted() == 1


# What is said


def test_what_takes_long_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(rehearsal, "report_progress", said.append)
    monkeypatch.setattr(rehearsal, "SILENT_SECONDS", 0.0)
    passed = list(rehearsal._with_progress(iter(["importing slow", None, None, 3]), lambda: "mine"))
    assert passed == ["importing slow", 3]
    assert said[0] == "mine: importing slow, 0 s so far"


def test_a_loader_that_gives_no_batch_is_not_waited_for_for_ever(monkeypatch, tmp_path):
    """Red before: the rehearsal never ended."""
    monkeypatch.setattr(rehearsal, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(rehearsal, "BATCH_SECONDS", 1.0)
    settings = config_of(
        tmp_path, module="streams:Reads", data="streams:Blocks", hyperparameters={}
    )
    (part,) = parts_of(settings, [str(ROOT / "tests")])
    ((_, found),) = rehearsal._in_processes([part])
    assert found["mistakes"] == [
        "workloads.mine: the first batch of train_dataloader did not come within 0 minutes; a "
        "loader that needs longer is trained with `rehearsal: false`"
    ]


def test_a_dataset_that_takes_long_to_make_is_not_made_twice(monkeypatch, tmp_path):
    (tmp_path / "slow_maker.py").write_text("import time\ndef make(): time.sleep(600)\n")
    monkeypatch.setattr(rehearsal, "MAKING_SECONDS", 0.2)
    monkeypatch.setattr(rehearsal, "SILENT_SECONDS", 0.1)
    dataset = Dataset(make="slow_maker:make", parameters={})
    mistakes, notes = rehearsal._make("own", dataset, [str(tmp_path)], str(tmp_path / "own.npz"))
    assert mistakes == []
    assert notes == [
        "datasets.own: making it by slow_maker:make takes more than 0 s: what reads it was not "
        "rehearsed"
    ]

"""A bad config is refused before any job, by plain `snakemake` too, without a traceback.

All of tests/configs/bad are refused in process by tests/config/test_bad_configs.py; here a few that
show where the refusal comes from, since a start of Snakemake takes a second.
"""

import shutil

import pytest

from .conftest import ROOT

# What Snakemake refuses in its own words, before it reads the Snakefile.
BY_SNAKEMAKE = {
    "a_list": "Config file must be given",
    "a_word": "Config file must be given",
    "no_yaml": "not valid",
    "python_object": "not valid",
}
BY_THE_SNAKEFILE = [
    "filling_without_determinism",
    "import_path_with_shell_characters",
    "key_twice",
    "path_traversal",
    "rate_is_a_text",
    "refers_to_itself",
    "repeats_is_a_float",
    "workload_is_no",
]
BY_THE_REHEARSAL = ["argument_is_a_text", "module_is_a_script", "module_raises", "maker_fails"]
# The others differ in words alone, which are tested without Snakemake.
SAMPLE = {"a_list", "no_yaml", *BY_THE_SNAKEFILE[1:3]}


def words_and_config(stem):
    """The first line of each file is a comment with the words that the message must have."""
    folder = ROOT / "tests/configs/bad" / ("rehearsed" if stem in BY_THE_REHEARSAL else "")
    config = (folder / f"{stem}.yaml").read_text()
    return config.splitlines()[0].removeprefix("# ").split(" | "), config


def lines_of(text):
    return [line.strip() for line in text.splitlines()]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "stem",
    [
        pytest.param(stem, marks=() if stem in SAMPLE else pytest.mark.exhaustive)
        for stem in (*BY_SNAKEMAKE, *BY_THE_SNAKEFILE, *BY_THE_REHEARSAL)
    ],
)
def test_snakemake_names_the_key_before_any_job(project, stem):
    words, config = words_and_config(stem)
    for module in (ROOT / "tests/configs/bad/rehearsed").glob("*.py"):
        shutil.copy(module, project.directory)
    before = {path.name for path in project.directory.iterdir()}
    done = project.snakemake(config=config, check=1)
    for word in [BY_SNAKEMAKE[stem]] if stem in BY_SNAKEMAKE else words:
        assert word in done.text
    assert "Traceback" not in done.text
    left = {path.name for path in project.directory.iterdir()} - before
    assert left <= {"config-of-test.yaml", "__pycache__", ".snakemake"}


def test_a_config_that_is_a_folder_is_refused(project):
    done = project.snakemake("--configfile", str(project.directory), check=1)
    assert f"Is a directory: '{project.directory}'" in done.text  # in Snakemake's own words
    assert {path.name for path in project.directory.iterdir()} <= {".snakemake"}


@pytest.mark.exhaustive
def test_a_gate_that_requires_nothing_is_refused_before_any_job(project):
    config = {"studies": ["reproducibility"], "reproducibility": {"workloads": ["factorization"]}}
    done = project.snakemake("gate", config=config, check=1)
    assert "require: the gate has nothing to judge; name what must hold" in done.text
    assert "Rehearsing" not in done.text
    assert "Traceback" not in done.text
    assert not (project.directory / "results").exists()


@pytest.mark.parametrize(
    "stem",
    [
        BY_THE_SNAKEFILE[0],
        pytest.param(BY_THE_REHEARSAL[0], marks=pytest.mark.exhaustive),
        pytest.param("nothing_required", marks=pytest.mark.exhaustive),
    ],
)
def test_a_start_that_is_refused_leaves_no_pass_of_an_earlier_one(project, stem):
    config = "studies: [reproducibility]\nreproducibility: {workloads: [factorization]}\n"
    if stem != "nothing_required":
        _, config = words_and_config(stem)
        config += "\nrequire: {serial_pair: equal}\n" if "require:" not in config else ""
    for module in (ROOT / "tests/configs/bad/rehearsed").glob("*.py"):
        shutil.copy(module, project.directory)
    gate = project.directory / "results/gate.json"
    gate.parent.mkdir()
    gate.write_text('{"outcome": "pass"}')
    done = project.snakemake("gate", "--rerun-triggers", "mtime", config=config, check=1)
    assert "Traceback" not in done.text
    assert not gate.exists(), done.text


@pytest.mark.exhaustive  # tests/training/test_rehearsal.py sees what is remembered
def test_the_rehearsal_is_remembered_and_can_be_switched_off(project):
    config = {
        "studies": ["reproducibility"],
        "datasets": {"ratings": {"parameters": {"ratings": 400, "users": 40, "items": 20}}},
        "workloads": {"factorization": {"epochs": 1, "hyperparameters": {"batch_size": 100}}},
        "reproducibility": {"workloads": ["factorization"], "variants": ["serial"]},
    }
    target = "results/data/ratings.npz"
    first = project.snakemake(target, config=config, check=0)
    assert "Rehearsing one step of factorization" in first.text
    again = project.snakemake(target, "--forceall", config=config, check=0)
    assert "Rehearsing" not in again.text
    changed = {**config, "rehearsal": False}
    changed["workloads"] = {"factorization": {"epochs": 2}}
    off = project.snakemake(target, "--forceall", config=changed, check=0)
    assert "Rehearsing" not in off.text


def test_three_mistakes_are_three_lines(project):
    config = {
        "studys": ["reproducibility"],
        "reproducibility": {"repeats": 0},
        "variants": {"deterministic": {"threads": "two"}},
    }
    done = project.snakemake(config=config, check=1)
    start = lines_of(done.text).index("3 errors in the config:")
    assert lines_of(done.text)[start + 1 : start + 4] == [
        "studys: unknown key, did you mean studies?",
        "reproducibility.repeats: 0 is out of range, allowed are 2 to 1000",
        "variants.deterministic.threads: 'two' is of the wrong type, expected a whole number",
    ]


@pytest.mark.exhaustive
def test_a_variant_with_more_threads_than_cores_is_refused_not_clipped(project, demo_config):
    target = "results/runs/factorization/nondeterministic/seed1/repeat1/run.json"
    done = project.snakemake(target, config=demo_config, cores="1", check=1)
    # Red before: "this job", of all that there are.
    job = "train workload=factorization variant=nondeterministic seed=1 repeat=1"
    assert f"{job} needs 2 threads but was given 1" in done.text
    # Red before: by the job itself, behind all that came ahead of it.
    assert "Rehearsing" not in done.text
    assert "localrule" not in done.text
    assert not (project.directory / target).exists()

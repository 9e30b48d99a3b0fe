"""A bad config is refused before any job, with a sentence for each mistake."""

import pytest
import yaml

from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError

from .conftest import ROOT, merged

BAD = sorted((ROOT / "tests/configs/bad").glob("*.yaml"))
# What the config check cannot know, and a few of the rest: a start of Snakemake takes a second.
THROUGH_SNAKEMAKE = [
    "a_list",
    "a_word",
    "import_path_with_shell_characters",
    "missing_class",
    "missing_module",
    "module_raises",
    "no_yaml",
    "path_traversal",
    "python_object",
    "refers_to_itself",
    "wrong_base_class",
    "wrong_hyperparameter",
]
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


def words_and_config(file):
    """The first line of each file is a comment with the words that the message must have."""
    first, _, config = file.read_text().partition("\n")
    return first.removeprefix("# ").split(" | "), config


def lines_of(text):
    return [line.strip() for line in text.splitlines()]


def test_there_are_many_bad_configs():
    assert len(BAD) >= 60
    assert set(THROUGH_SNAKEMAKE) <= {file.stem for file in BAD}


@pytest.mark.parametrize(
    "file",
    [file for file in BAD if file.stem not in THROUGH_SNAKEMAKE],
    ids=lambda file: file.stem,
)
def test_the_config_check_names_the_key(file):
    words, text = words_and_config(file)
    standard = yaml.safe_load((ROOT / "config.yaml").read_text())
    with pytest.raises(TwinrunError) as raised:
        resolve(merged(standard, yaml.safe_load(text)), SCHEMA, gpus=0)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("stem", THROUGH_SNAKEMAKE)
def test_snakemake_names_the_key_before_any_job(project, stem):
    words, config = words_and_config(ROOT / f"tests/configs/bad/{stem}.yaml")
    (project.directory / "raises.py").write_text('raise RuntimeError("as a test wants it")\n')
    done = project.snakemake(config=config, check=1)
    for word in words:
        assert word in done.text
    assert "Traceback" not in done.text
    assert {path.name for path in project.directory.iterdir()} <= {
        "config-of-test.yaml",
        "raises.py",
        "__pycache__",
        ".snakemake",
    }


def test_a_config_that_is_a_folder_is_refused(project):
    done = project.snakemake("--configfile", str(project.directory), check=1)
    assert f"Is a directory: '{project.directory}'" in done.text  # in Snakemake's own words
    assert {path.name for path in project.directory.iterdir()} <= {".snakemake"}


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
        "variants.deterministic.threads: 'two' is of the wrong type, expected integer",
    ]


def test_a_variant_with_more_threads_than_cores_is_refused_not_clipped(project, demo_config):
    target = "results/runs/factorization/nondeterministic/seed1/repeat1/run.json"
    done = project.snakemake(target, config=demo_config, cores="1", check=1)
    assert "needs 2 threads but was given 1" in done.text
    assert not (project.directory / target).exists()

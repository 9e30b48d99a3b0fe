"""A bad config is refused before any job, with a sentence for each mistake."""

import pytest

from .conftest import ROOT

BAD = sorted((ROOT / "tests/configs/bad").glob("*.yaml"))


def lines_of(text):
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_bad_configs_name_the_key(project, file):
    """The first line of each file is a comment with the words that the message must have."""
    first, _, config = file.read_text().partition("\n")
    done = project.snakemake(config=config, check=1)
    for words in first.removeprefix("# ").split(" | "):
        assert words in done.text
    assert "Traceback" not in done.text
    assert {path.name for path in project.directory.iterdir()} <= {
        "config-of-test.yaml",
        ".snakemake",
    }


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

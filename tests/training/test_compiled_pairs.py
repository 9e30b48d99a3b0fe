"""Whether "equal" of a compiled pair says that compiling repeats, or that one binary does."""

import msgspec
import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import run_files
from twinrun.comparison.compare import compare
from twinrun.comparison.conditions import conditions
from twinrun.comparison.pair_records import read_comparisons
from twinrun.config.definitions import Run
from twinrun.training.run import run

COMPILED = {**VARIANT, "compile": "step"}


def pair(folder, workload=WORKLOAD, **environment):
    """Train twice as the rule does; return the manifests and what is said of the pair."""
    variant = {**COMPILED, "environment": environment}
    runs = []
    for repeat in (1, 2):
        place = folder / f"repeat{repeat}"
        place.mkdir()
        asked = arguments(place, workload, variant)["run"]
        asked["identity"]["repeat"] = repeat
        run(msgspec.convert(asked, Run), {})
        runs.append(place / "run.json")
    files = {name: folder / name for name in ("summary", "tensors", "steps")}
    compare(runs, **files)
    (compared,) = read_comparisons(files["summary"])
    return [run_files.read_run(path) for path in runs], compared


@pytest.mark.exhaustive
def test_a_compiler_that_does_not_choose_the_same_again_is_seen(tmp_path):
    hyperparameters = {"size": 70, "tally": str(tmp_path / "tally")}
    workload = WORKLOAD | {"module": "choosing:Choosing", "hyperparameters": hyperparameters}
    manifests, compared = pair(tmp_path, workload)
    assert compared["answer"] == "differs"
    assert "each run compiled for itself, into an empty cache" in conditions(compared)
    caches = [manifest["compiler_cache"] for manifest in manifests]
    assert caches[0]["folder"] != caches[1]["folder"]


@pytest.mark.exhaustive
def test_in_a_shared_cache_it_is_not_and_that_is_said(tmp_path):
    hyperparameters = {"size": 70, "tally": str(tmp_path / "tally")}
    workload = WORKLOAD | {"module": "choosing:Choosing", "hyperparameters": hyperparameters}
    cache = str(tmp_path / "cache")
    _, compared = pair(tmp_path, workload, TORCHINDUCTOR_CACHE_DIR=cache)
    assert compared["answer"] == "equal"
    assert any("whether compiling repeats is not shown" in text for text in conditions(compared))

"""What all studies together and the report ask for."""

from standard_config import resolved

from twinrun.config.inputs import Inputs
from twinrun.config.studies import STUDIES
from twinrun.config.targets import Targets


def of(**sections):
    inputs = Inputs(resolved(**sections))
    return Targets(inputs.settings, {name: kind(name, inputs) for name, kind in STUDIES.items()})


def names(paths, folder):
    """Name the files in a folder of results/, without their suffix."""
    start = f"results/{folder}/"
    return sorted(p.removeprefix(start).rpartition(".")[0] for p in paths if p.startswith(start))


def test_all_joins_the_chosen_studies_in_their_order():
    """The standard config chooses all of them."""
    targets = of()
    assert targets.settings.studies == list(STUDIES)
    assert targets.results({}) == [p for name in STUDIES for p in targets.studies[name].results({})]
    chosen = of(studies=["sweep", "devices"])
    joined = [*chosen.studies["sweep"].results({}), *chosen.studies["devices"].results({})]
    assert chosen.results({}) == joined


def test_datasets_that_are_made_and_used():
    asked = of(studies=["reproducibility"]).datasets({})
    assert names(asked, "data") == ["digits", "ratings"]
    assert names(asked, "figures/data") == ["digits"]
    assert of(studies=["devices"]).datasets({}) == []  # peaks computes its own


def test_the_report_reads_run_json_alone_of_runs():
    targets = of()
    read, asked = targets.read_by_report({}), {*targets.results({})}
    assert {path.rpartition(".")[2] for path in read} == {"json", "svg"}
    runs = [path for path in read if path.startswith("results/runs/")]
    assert {path.rpartition("/")[2] for path in runs} == {"run.json"}
    folders_of_runs = {path.rpartition("/")[0] for path in asked if "/runs/" in path}
    assert {path.rpartition("/")[0] for path in runs} == folders_of_runs
    others = {path for path in asked if path.endswith((".json", ".svg"))}
    assert {*read} - others <= {*runs}


def test_a_run_that_two_studies_rest_on_is_named_once():
    asked = {"workloads": ["digits-few"], "variants": ["deterministic"], "seeds": [1]}
    matrix = {"workloads": ["digits-few"], "baseline": "deterministic", "seed": 1}
    targets = of(
        studies=["reproducibility", "matrix"],
        reproducibility=asked,
        matrix=matrix | {"changes": [{"threads": 1}], "other_seed": 2},
    )
    read = [path for path in targets.read_by_report({}) if path.endswith("/run.json")]
    assert len(read) > len({*read})
    assert targets.runs() == sorted({*read}, key=read.index)


def test_a_dataset_of_the_users_own_has_no_manifest_to_ask_for(tmp_path):
    (tmp_path / "mine.npz").write_bytes(b"anything")
    targets = of(
        studies=["matrix"],
        datasets={"mine": {"file": str(tmp_path / "mine.npz")}},
        workloads={"own": {"module": "m:M", "data": "m:D", "dataset": "mine", "epochs": 2}},
        matrix={"workloads": ["own"], "changes": [{"threads": 4}]},
    )
    assert targets.datasets({}) == []

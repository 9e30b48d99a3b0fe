"""What a job is told, as plain values, and what it asks for."""

import json
from pathlib import Path

import pytest
from standard_config import resolved

from twinrun.config.inputs import Inputs
from twinrun.config.minutes import Minutes
from twinrun.config.params import Params

RUN = {"workload": "denoiser", "variant": "deterministic", "seed": "3", "repeat": "2"}


def of(**sections):
    return Params(Inputs(resolved(**sections)), ["folder"])


def test_a_run_is_told_all_that_it_is_made_of():
    params = of()
    told = params.settings_of_run(RUN)
    assert told["identity"] == {**RUN, "seed": 3, "repeat": 2, "perturbation": 0}
    training = told["training"]
    assert training["workload"]["module"] == "twinrun.workloads.denoiser:Denoiser"
    assert training["variant"]["deterministic"] is True
    assert training["dataset"] == "results/data/digits.npz"
    assert training["seed"] == 3
    assert told["cores"] == training["variant"]["threads"] == 2
    assert json.loads(json.dumps(told)) == told


def test_runs_share_what_they_are_told():
    """Of thousands of runs each would have a copy of its own."""
    params = of()
    told = [params.settings_of_run({**RUN, "seed": seed}) for seed in ("1", "2")]
    first, second = (entry["training"] for entry in told)
    assert first["workload"] is second["workload"]
    assert first["variant"] is second["variant"]


def test_a_replay_is_told_what_its_runs_were():
    params = of()
    told, of_run = params.settings_of_replay(RUN), params.settings_of_run(RUN)["training"]
    # Where the user's modules lie is no part of a run.
    assert "search_path" not in told
    assert params.folders == "folder"
    assert of_run == {**told, "seed": 3}


def test_a_timing_is_told_its_workload_and_its_variants_in_order():
    params, timing = of(), {"timing": "determinism_denoiser"}
    assert params.workload_of_timing(timing) == params.settings_of_replay(RUN)["workload"]
    assert [*params.variants_of_timing(timing)] == ["nondeterministic", "deterministic"]


def test_sources_are_those_of_network_data_and_dataset():
    params = of(workloads={"denoiser": {"module": "mine.nets:Net", "data": "loaders:Data"}})
    assert params.modules_of_workload(RUN) == ["mine.nets", "loaders"]
    assert params.modules_of_timing({"timing": "determinism_denoiser"}) == ["mine.nets", "loaders"]
    assert params.modules_of_dataset({"dataset": "digits"}) == ["twinrun.data.digits"]


def resources(params, variant):
    """Return the resources as Snakemake sees them: None is no resource."""
    asked = {
        key: value({"variant": variant}) if callable(value) else value
        for key, value in params.resources_of_devices().items()
    }
    return {key: value for key, value in asked.items() if value is not None}


def test_without_gpus_and_nodes_no_function_is_called():
    on_cpu = {"accelerator": "cpu", "cuda_graph": False}
    params = of(variants={"gpu": on_cpu, "gpu-fast": on_cpu})
    assert params.resources_of_devices() == {"gpu": 0}


def test_a_run_asks_for_a_gpu_for_each_of_its_workers():
    params = of(variants={"gpu": {"devices": 2}, "cpu": {"devices": 2}})
    assert resources(params, "gpu") == {"gpu": 2}
    assert resources(params, "cpu") == {"gpu": 0}
    assert params.gpus_of_replay({"variant": "gpu"}) == 1  # one process
    assert params.gpus_of_replay({"variant": "cpu"}) == 0


def test_a_run_on_several_nodes_tells_slurm_so():
    params = of(variants={"gpu": {"devices": 4, "nodes": 2, "threads": 3}})
    assert resources(params, "gpu") == {
        "gpu": 4,
        "nodes": 2,
        "tasks": 4,
        "cpus_per_task": 3,
        "mpi": "srun",
    }
    assert resources(params, "cpu") == {"gpu": 0}


def test_a_run_needs_the_cores_of_its_workers_on_each_node():
    several = {"gpu": {"devices": 4, "threads": 3, "nodes": 1}}
    named = {"workload": "peaks", "variant": "gpu", "seed": "1", "repeat": "1"}
    for nodes, cores in ((1, 12), (2, 6), (4, 3)):
        several["gpu"]["nodes"] = nodes
        assert of(variants=several).settings_of_run(named)["cores"] == cores


@pytest.mark.parametrize(("variants", "gpus"), [(["cpu", "gpu"], 1), (["cpu", "cpu-fast"], 0)])
def test_a_timing_asks_for_a_gpu_if_any_variant_needs_one(variants, gpus):
    params = of(gpus=1, devices={"variants": variants})
    assert params.gpus_of_timing({"timing": "devices_peaks"}) == gpus


def test_each_seed_has_two_minutes_more_with_each_attempt_as_much_again():
    minutes = Minutes(of(reproducibility={"seeds": [*range(10)]}, devices={"seeds": [1]}))
    named = {"workload": "no_rehearsal"}
    assert minutes.of_seeds({"study": "reproducibility", **named}, attempt=1) == 50
    assert minutes.of_seeds({"study": "reproducibility", **named}, attempt=2) == 100
    assert minutes.of_seeds({"study": "devices", **named}, attempt=1) == 32


def test_a_seed_that_is_added_trains_only_what_is_new():
    """The other runs are asked for by the same paths, and told the same."""
    few, more = (of(sweep={"seeds": seeds}, contest={"seeds": seeds}) for seeds in ([1], [1, 2]))
    trial = {"workload": "digits~learning_rate~0.003~batch_size~32", "variant": "one-worker"}
    trial |= {"seed": "1", "repeat": "1"}
    assert few.settings_of_run(trial) == more.settings_of_run(trial)
    asked = [params.inputs.runs_of_sweep({"workload": "digits"}) for params in (few, more)]
    assert [len(runs) for runs in asked] == [6, 12]
    assert {*asked[0]} < {*asked[1]}
    contest = {"workload": "digits-few", "variant": "serial"}
    asked = [params.inputs.runs_of_contest(contest) for params in (few, more)]
    assert {*asked[0]} < {*asked[1]}


REPEATS = [f"results/runs/denoiser/{{}}/seed1/repeat{repeat}/run.json" for repeat in (1, 2)]


def runs_behind(require, gpus=0, **sections):
    of_one = {
        "reproducibility": {"workloads": ["denoiser"], "seeds": [1], "repeats": 2},
        "matrix": {"workloads": ["denoiser"]},
        "resume": {
            "workloads": ["denoiser"],
            "variants": ["deterministic"],
            "stops": ["epoch_end"],
        },
        "studies": ["reproducibility", "matrix", "contest", "resume"],
    }
    params = Params(Inputs(resolved(gpus, **{**of_one, **sections}, require=require)), [])
    return params.planned_of_gate([])["runs"]


def test_the_gate_is_told_which_runs_are_behind_each_requirement():
    """A training that failed fails what is required of it, and nothing else."""
    required = {"deterministic_pair": "equal", "determinism_cost": "<= 2", "fingerprint": "f.json"}
    found = runs_behind({**required, "matrix": ["threads-2"], "contest": "better"})
    of_variant = [path.format("deterministic") for path in REPEATS]
    assert found["deterministic_pair"] == of_variant
    both = [*(path.format("nondeterministic") for path in REPEATS), *of_variant]
    assert found["determinism_cost"] == both
    assert found["fingerprint"] == of_variant[:1]
    assert len(found["matrix"]) == 2
    assert len(found["contest"]) == 10
    assert set(found) == {*required, "matrix", "contest"}


def test_behind_what_a_machine_cannot_run_there_is_no_run():
    variants = {"deterministic": {"accelerator": "gpu"}}
    assert runs_behind({"deterministic_pair": "equal"}, variants=variants) == {
        "deterministic_pair": []
    }


def test_behind_resumes_are_whole_runs_and_those_from_our_own_checkpoints():
    """What Lightning's own checkpoints lose is for the report."""
    runs = runs_behind({"resume": "equal"})["resume"]
    assert len(runs) == 2
    assert not [run for run in runs if "lightning" in run]


@pytest.mark.parametrize(
    ("epochs", "said"),
    [(None, None), (20, None), (2, "after 2 of 20 epochs"), (30, "after 30 epochs")],
)
def test_a_sweep_says_how_long_it_trains_if_not_as_long_as_the_workload(epochs, said):
    params = of(workloads={"digits": {"epochs": 20}}, sweep={"epochs": epochs})
    assert params.trained_in_sweep({"workload": "digits"}) == said


def test_the_gate_knows_the_configs_that_workloads_are(tmp_path, monkeypatch):
    """Red before: it passed after the file of a LightningCLI workload was edited, or was gone."""
    monkeypatch.chdir(tmp_path)
    Path("train.yaml").write_text(
        "model: {class_path: m.Net}\ndata: data.yaml\ntrainer: {max_epochs: 2}\n"
    )
    Path("data.yaml").write_text("class_path: m.Points\n")
    studies = {"studies": ["reproducibility"], "reproducibility": {"workloads": ["mine"]}}
    config = resolved(0, workloads={"mine": {"cli": "train.yaml"}}, **studies)
    planned = Params(Inputs(config), []).planned_of_gate(["train.yaml"])
    assert [*planned["configs"]] == ["train.yaml", "data.yaml"]

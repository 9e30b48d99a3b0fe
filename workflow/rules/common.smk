# What every stage shares: the checked settings, wildcard constraints, input functions.

import os
from dataclasses import asdict

from snakemake.exceptions import WorkflowError

from twinrun.environment import count_gpus, versions
from twinrun.jobs import TwinrunError
from twinrun.launching import launch
from twinrun.settings import resolve
from twinrun.sources import package_files

try:
    SETTINGS = resolve(
        config,
        f"{workflow.basedir}/workflow/schemas/config.schema.yaml",
        gpus=count_gpus(),
    )
except TwinrunError as error:
    raise WorkflowError(str(error)) from None

# A user's own modules lie beside his config file.
SEARCH_PATH = [os.path.relpath(file.parent) for file in workflow.overwrite_configfiles]

# An upgrade of what computes a result reruns what depends on it.
VERSIONS = versions()


wildcard_constraints:
    dataset="[A-Za-z][A-Za-z0-9_-]*",
    workload="[A-Za-z][A-Za-z0-9_-]*",
    variant="[A-Za-z][A-Za-z0-9_-]*",
    timing="[A-Za-z][A-Za-z0-9_-]*",
    study="[a-z]+",
    seed="[0-9]+",
    repeat="[0-9]+",


def check_workloads():
    """Import and match the workloads of the config in a process of its own, before any job."""
    workloads = {
        name: asdict(SETTINGS.workloads[name]) for name in SETTINGS.active_workloads()
    }
    try:
        launch(
            "twinrun.loading:check_workloads",
            {"workloads": workloads, "search_path": SEARCH_PATH},
            {},
        )
    except TwinrunError as error:
        raise WorkflowError(str(error)) from None


def code_of(import_path):
    """List the files behind an import path."""
    return package_files(import_path.partition(":")[0], SEARCH_PATH)


def code_of_dataset(wildcards):
    return code_of(SETTINGS.datasets[wildcards.dataset].make)


def code_of_workload(wildcards):
    workload = SETTINGS.workloads[wildcards.workload]
    return sorted({*code_of(workload.module), *code_of(workload.data)})


def workload_of_timing(wildcards):
    return asdict(SETTINGS.workloads[SETTINGS.timings[wildcards.timing].workload])


def variants_of_timing(wildcards):
    names = SETTINGS.timings[wildcards.timing].variants
    return {name: asdict(SETTINGS.variants[name]) for name in names}


def gpus_of_timing(wildcards):
    variants = variants_of_timing(wildcards).values()
    return int(any(variant["accelerator"] == "gpu" for variant in variants))


def code_of_timing(wildcards):
    workload = workload_of_timing(wildcards)
    return sorted({*code_of(workload["module"]), *code_of(workload["data"])})


def dataset_of(workload):
    """Give the file of a workload's dataset, made or the user's own; none is []."""
    name = SETTINGS.workloads[workload].dataset
    if name is None:
        return []
    return SETTINGS.datasets[name].file or f"results/data/{name}.npz"


def identity_of_run(wildcards):
    numbers = {key: int(wildcards[key]) for key in ("seed", "repeat")}
    return {"workload": wildcards.workload, "variant": wildcards.variant, **numbers}


def runs_of_comparison(wildcards):
    return collect(
        "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json",
        workload=wildcards.workload,
        variant=wildcards.variant,
        seed=wildcards.seed,
        repeat=range(1, SETTINGS.config["reproducibility"]["repeats"] + 1),
    )


def runs_of_workload(wildcards):
    """List every run of a workload in the study reproducibility."""
    return collect(
        "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json",
        workload=wildcards.workload,
        variant=SETTINGS.variants_of("reproducibility"),
        seed=SETTINGS.seeds_of("reproducibility"),
        repeat=range(1, SETTINGS.config["reproducibility"]["repeats"] + 1),
    )


def comparisons_of_workload(wildcards):
    return collect(
        "results/comparisons/{workload}/{variant}/seed{seed}.json",
        workload=wildcards.workload,
        variant=SETTINGS.variants_of("reproducibility"),
        seed=SETTINGS.seeds_of("reproducibility"),
    )


def results_of_reproducibility(pattern):
    """Fill a pattern of comparisons or runs for the whole study."""
    return collect(
        pattern,
        workload=SETTINGS.config["reproducibility"]["workloads"],
        variant=SETTINGS.variants_of("reproducibility"),
        seed=SETTINGS.seeds_of("reproducibility"),
        repeat=range(1, SETTINGS.config["reproducibility"]["repeats"] + 1),
    )


def timings_of_reproducibility():
    workloads = SETTINGS.config["reproducibility"]["workloads"]
    names = [f"determinism_{workload}" for workload in workloads]
    return [f"results/timings/{name}.json" for name in names if name in SETTINGS.timings]


def figures_of_reproducibility():
    if not SETTINGS.variants_of("reproducibility"):
        return []
    return [
        *collect(
            "results/figures/reproducibility/{workload}/{figure}.svg",
            workload=SETTINGS.config["reproducibility"]["workloads"],
            figure=["first_layer", "layers", "growth", "curves"],
        ),
        *(
            f"results/figures/reproducibility/{timing.workload}/cost.svg"
            for timing in SETTINGS.timings.values()
        ),
        *(
            f"results/figures/reproducibility/{name}/strip.svg"
            for name in SETTINGS.config["reproducibility"]["workloads"]
            if SETTINGS.workloads[name].module == "twinrun.workloads.denoiser:Denoiser"
        ),
        *contact_sheets(),
    ]


def contact_sheets():
    """Name the contact sheets of the digits that active workloads are given."""
    datasets = {SETTINGS.workloads[name].dataset for name in SETTINGS.active_workloads()}
    return [
        f"results/figures/data/{name}.svg"
        for name, dataset in SETTINGS.datasets.items()
        if name in datasets and dataset.make == "twinrun.data.digits:make"
    ]

# What every stage shares: the checked settings, wildcard constraints, input functions.

import os
import sys
from dataclasses import asdict
from pathlib import Path

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

REPORT_FOLDER = Path(workflow.basedir, "workflow/report")
TEMPLATES = [
    os.path.relpath(file)
    for ending in ("j2", "css")
    for file in REPORT_FOLDER.rglob(f"*.{ending}")
]

# An upgrade of what computes a result reruns what depends on it.
VERSIONS = versions()


wildcard_constraints:
    dataset="[A-Za-z][A-Za-z0-9_-]*",
    workload="[A-Za-z][A-Za-z0-9_-]*",
    variant="[A-Za-z][A-Za-z0-9_-]*",
    other="[A-Za-z][A-Za-z0-9_-]*",
    timing="[A-Za-z][A-Za-z0-9_-]*",
    study="[a-z]+",
    seed="[0-9]+",
    repeat="[0-9]+",


# Before any job


def check_workloads():
    """Import and match the workloads of the config in a process of its own."""
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


def show_verdicts():
    """Print the verdicts where the workflow made them."""
    from twinrun.verdicts import summary_lines  # pandas, which no parse should wait for

    verdicts = Path("results/verdicts.csv")
    if verdicts.exists():
        print("", *summary_lines(verdicts), "", sep="\n", file=sys.stderr)


# What code and data a job depends on


def code_of(import_path):
    """List the files behind an import path."""
    return package_files(import_path.partition(":")[0], SEARCH_PATH)


def code_of_dataset(wildcards):
    return code_of(SETTINGS.datasets[wildcards.dataset].make)


def code_of_workload(wildcards):
    workload = SETTINGS.workloads[wildcards.workload]
    return sorted({*code_of(workload.module), *code_of(workload.data)})


def code_of_timing(wildcards):
    return code_of_workload(SETTINGS.timings[wildcards.timing])


def dataset_of(workload):
    """Give the file of a workload's dataset, made or the user's own; none is []."""
    name = SETTINGS.workloads[workload].dataset
    if name is None:
        return []
    return SETTINGS.datasets[name].file or f"results/data/{name}.npz"


# Runs, comparisons and timings


def identity_of_run(wildcards):
    numbers = {key: int(wildcards[key]) for key in ("seed", "repeat")}
    return {"workload": wildcards.workload, "variant": wildcards.variant, **numbers}


def variants_of_timing(wildcards):
    names = SETTINGS.timings[wildcards.timing].variants
    return {name: asdict(SETTINGS.variants[name]) for name in names}


def gpus_of_timing(wildcards):
    variants = variants_of_timing(wildcards).values()
    return int(any(variant["accelerator"] == "gpu" for variant in variants))


def of_study(study, pattern, fixed=()):
    """Fill a pattern with the workloads, variants, seeds and repeats of a study, or fixed ones."""
    asked = SETTINGS.config[study]
    values = {
        "workload": asked["workloads"],
        "variant": SETTINGS.variants_of(study),
        "seed": asked.get("seeds", []),
        "repeat": range(1, asked.get("repeats", 1) + 1),
    }
    return collect(pattern, **{**values, **dict(fixed)})


def runs_of_comparison(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return of_study("reproducibility", pattern, wildcards)


def runs_of_workload(wildcards):
    return runs_of_comparison({"workload": wildcards.workload})


def first_run_of_workload(wildcards):
    return runs_of_workload(wildcards)[0]


def runs_of_contrast(wildcards):
    """Give the run of the yardstick, then the other's."""
    variants = [wildcards.other, wildcards.variant]
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    names = {"workload": wildcards.workload, "seed": wildcards.seed}
    return collect(pattern, variant=variants, **names)


def contrasts_of_study(study):
    """List the comparisons of each variant of a study with its first."""
    first, *others = SETTINGS.variants_of(study) or [None]
    pattern = "results/comparisons/{workload}/{variant}/against/{other}/seed{seed}.json"
    return of_study(study, pattern, {"variant": others, "other": [first]})


def comparisons_of_study(wildcards):
    if wildcards.study == "resume":
        return of_study("resume", "results/resumes/{workload}/{variant}.json")
    if wildcards.study != "reproducibility":
        return contrasts_of_study(wildcards.study)
    pattern = "results/comparisons/{workload}/{variant}/seed{seed}.json"
    return of_study(wildcards.study, pattern)


def comparisons_of_workload(wildcards):
    pattern = "results/comparisons/{workload}/{variant}/seed{seed}.json"
    return of_study("reproducibility", pattern, {"workload": wildcards.workload})


def pairs_of_resume(wildcards):
    """Give the pairs of runs that show what resuming loses, by their run.json."""
    seed = SETTINGS.config["resume"]["seed"]
    pattern = f"results/runs/{wildcards.workload}/{{}}/seed{seed}/repeat1/run.json"
    return [
        {**pair, **{key: pattern.format(pair[key]) for key in ("whole", "stopped")}}
        for pair in SETTINGS.stops_of(wildcards.variant)
    ]


def runs_of_resume(wildcards):
    pairs = pairs_of_resume(wildcards)
    return sorted({pair[key] for pair in pairs for key in ("whole", "stopped")})


def timings_of_study(wildcards):
    names = SETTINGS.timings_of(wildcards.study)
    return collect("results/timings/{timing}.json", timing=names)


def first_runs_of_devices(wildcards):
    """List a run of each device, all of the first seed."""
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    seeds = SETTINGS.config["devices"]["seeds"][:1]
    return of_study("devices", pattern, {"workload": wildcards.workload, "seed": seeds})


# The report


def figures_of_reproducibility():
    if not SETTINGS.variants_of("reproducibility"):
        return []
    pattern = "results/figures/reproducibility/{workload}/{figure}.svg"
    workloads = SETTINGS.config["reproducibility"]["workloads"]
    timed = [name for name in workloads if f"determinism_{name}" in SETTINGS.timings]
    denoisers = [
        name
        for name in workloads
        if SETTINGS.workloads[name].module == "twinrun.workloads.denoiser:Denoiser"
    ]
    return [
        *collect(
            pattern,
            workload=workloads,
            figure=["first_layer", "layers", "growth", "curves"],
        ),
        *collect(pattern, workload=timed, figure="cost"),
        *collect(pattern, workload=denoisers, figure="strip"),
    ]


def results_of_reproducibility():
    """List what the study leaves, so that whatever is missing of it is made again."""
    runs = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}"
    files = ["weights.safetensors", "steps.csv", "fingerprints.npz", "run.json"]
    workloads = SETTINGS.config["reproducibility"]["workloads"]
    timed = [name for name in workloads if f"determinism_{name}" in SETTINGS.timings]
    return [
        *(
            path
            for file in files
            for path in of_study("reproducibility", f"{runs}/{file}")
        ),
        *of_study(
            "reproducibility",
            "results/comparisons/{workload}/{variant}/seed{seed}.json",
        ),
        *collect("results/timings/determinism_{workload}.json", workload=timed),
        *figures_of_reproducibility(),
    ]


def datasets_of_report():
    """List the manifests and contact sheets of the datasets in use."""
    used = {
        SETTINGS.workloads[name].dataset for name in SETTINGS.active_workloads()
    } - {None}
    made = sorted(name for name in used if SETTINGS.datasets[name].make)
    digits = [
        name
        for name in made
        if SETTINGS.datasets[name].make == "twinrun.data.digits:make"
    ]
    return [
        *collect("results/data/{dataset}.json", dataset=made),
        *collect("results/figures/data/{dataset}.svg", dataset=digits),
    ]


def results_of_variants(study, figures):
    """List what a study leaves that holds its variants against the first of them."""
    run = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    names = SETTINGS.timings_of(study)
    return [
        *of_study(study, run),
        *contrasts_of_study(study),
        *collect("results/timings/{timing}.json", timing=names),
        *figures,
    ]


def results_of_devices():
    workloads = SETTINGS.config["devices"]["workloads"]
    surfaces = [
        name
        for name in workloads
        if SETTINGS.workloads[name].module == "twinrun.workloads.peaks:Peaks"
    ]
    timed = [name for name in workloads if f"devices_{name}" in SETTINGS.timings]
    if not SETTINGS.variants_of("devices"):
        surfaces = []
    pattern = "results/figures/devices/{workload}/{figure}.svg"
    return results_of_variants(
        "devices",
        [
            *collect(pattern, workload=timed, figure="sizes"),
            *collect(pattern, workload=surfaces, figure="surfaces"),
        ],
    )


def results_of_acceleration():
    workloads = SETTINGS.config["acceleration"]["workloads"]
    timed = [name for name in workloads if f"acceleration_{name}" in SETTINGS.timings]
    pattern = "results/figures/acceleration/{workload}/speeds.svg"
    return results_of_variants("acceleration", collect(pattern, workload=timed))


def results_of_resume():
    pattern = "results/resumes/{workload}/{variant}.json"
    runs = "results/runs/{workload}/{stopped}/seed{seed}/repeat1/run.json"
    stopped = [
        pair[key]
        for variant in SETTINGS.variants_of("resume")
        for pair in SETTINGS.stops_of(variant)
        for key in ("whole", "stopped")
    ]
    seed = SETTINGS.config["resume"]["seed"]
    return [
        *of_study("resume", pattern),
        *of_study("resume", runs, {"stopped": sorted(set(stopped)), "seed": seed}),
    ]


RESULTS = {
    "reproducibility": results_of_reproducibility,
    "devices": results_of_devices,
    "acceleration": results_of_acceleration,
    "resume": results_of_resume,
}


def results_of_studies():
    return [path for study in SETTINGS.studies for path in RESULTS[study]()]

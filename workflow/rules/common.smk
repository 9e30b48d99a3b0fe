# What every stage shares: the checked settings, wildcard constraints, input functions.

import os
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from twinrun.environment import count_gpus, versions
from twinrun.jobs import TwinrunError
from twinrun.launching import launch
from twinrun.settings import TIMINGS, resolve
from twinrun.sources import package_files

# A job on a cluster parses this file again, on its node: what `auto` means is settled once, here.
os.environ.setdefault("TWINRUN_GPUS", str(count_gpus()))


envvars:
    "TWINRUN_GPUS",


try:
    SETTINGS = resolve(
        config,
        f"{workflow.basedir}/workflow/schemas/config.schema.yaml",
        gpus=int(os.environ["TWINRUN_GPUS"]),
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
    workload="[A-Za-z][A-Za-z0-9_~.+-]*",  # a trial's name carries values
    variant="[A-Za-z][A-Za-z0-9_-]*",
    other="[A-Za-z][A-Za-z0-9_-]*",
    timing="[A-Za-z][A-Za-z0-9_-]*",
    cell="[A-Za-z][A-Za-z0-9_-]*",
    study="[a-z]+",
    seed="[0-9]+",
    repeat="[0-9]+",


# Before any job


def check_workloads():
    """Import and match the workloads of the config in a process of its own."""
    names = [*SETTINGS.active_workloads(), *SETTINGS.trials]
    workloads = {name: asdict(SETTINGS.workloads[name]) for name in names}
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


@cache  # asked for each of thousands of runs
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


def cores_of_run(wildcards):
    return SETTINGS.cores_of(
        wildcards.workload, wildcards.variant, available=workflow.cores
    )


def of_nodes(wildcards, key="nodes"):
    """Give what Slurm must know of a variant on several nodes; None of others."""
    variant = SETTINGS.variants[wildcards.variant]
    return getattr(variant, key) if variant.nodes > 1 else None


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
    asked, variants = SETTINGS.config[study], SETTINGS.variants_of(study)
    if not variants:
        return []
    values = {
        "workload": asked["workloads"],
        "variant": variants,
        "seed": asked.get("seeds", []),
        "repeat": range(1, asked.get("repeats", 1) + 1),
    }
    return collect(pattern, **{**values, **dict(fixed)})


def settings_of_replay(wildcards):
    """Give what the runs of a comparison are made of."""
    return {
        "seed": int(wildcards.seed),
        "workload": asdict(SETTINGS.workloads[wildcards.workload]),
        "variant": asdict(SETTINGS.variants[wildcards.variant]),
        "dataset": dataset_of(wildcards.workload) or None,
        "search_path": SEARCH_PATH,
    }


def locations_of_study(wildcards):
    """List where the repeats of each pair part; only one study has repeats."""
    if wildcards.study != "reproducibility":
        return []
    return of_study(
        "reproducibility", "results/locations/{workload}/{variant}/seed{seed}.json"
    )


def locations_of_workload(wildcards):
    pattern = "results/locations/{workload}/{variant}/seed{seed}.json"
    return of_study("reproducibility", pattern, {"workload": wildcards.workload})


def runs_of_comparison(wildcards):
    workload, variant, seed = wildcards.workload, wildcards.variant, int(wildcards.seed)
    repeats = range(1, SETTINGS.repeats_of(workload, variant, seed) + 1)
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return collect(pattern, **wildcards, repeat=repeats)


def runs_of_workload(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return of_study("reproducibility", pattern, wildcards)


def runs_of_scaling(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return of_study("parallel", pattern, wildcards)


def runs_of_sweep(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    trials = SETTINGS.trials_of(wildcards["workload"])
    return of_study("sweep", pattern, {"workload": trials})


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


def repeats_of_study(study):
    """List the comparisons of the repeats of each variant of a study."""
    return of_study(study, "results/comparisons/{workload}/{variant}/seed{seed}.json")


def rankings_of_sweep():
    return of_study("sweep", "results/sweeps/{workload}.json")


def matrices_of_study():
    workloads = SETTINGS.config["matrix"]["workloads"]
    return collect("results/matrix/{workload}.json", workload=workloads)


COMPARISONS = {
    "reproducibility": lambda: repeats_of_study("reproducibility"),
    "devices": lambda: contrasts_of_study("devices"),
    "acceleration": lambda: contrasts_of_study("acceleration"),
    "parallel": lambda: [
        *repeats_of_study("parallel"),
        *contrasts_of_study("parallel"),
    ],
    "sweep": rankings_of_sweep,
    "matrix": matrices_of_study,
    "resume": lambda: of_study("resume", "results/resumes/{workload}/{variant}.json"),
}


def comparisons_of_study(wildcards):
    return COMPARISONS[wildcards.study]()


def runs_of_cell(wildcards):
    """Give the run of the matrix's baseline, then the cell's."""
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return [
        pattern.format(workload=wildcards.workload, **run)
        for run in SETTINGS.pair_of_cell(wildcards.cell)
    ]


def cells_of_matrix(wildcards):
    """List the comparisons of the cells that can run here."""
    pattern = "results/matrix/{workload}/{cell}.json"
    return collect(pattern, workload=wildcards.workload, cell=SETTINGS.cells_that_run())


def comparisons_of_workload(wildcards):
    pattern = "results/comparisons/{workload}/{variant}/seed{seed}.json"
    return of_study("reproducibility", pattern, {"workload": wildcards.workload})


def pairs_of_resume(wildcards):
    """Give the pairs of runs that show what resuming loses, by their run.json."""
    seed = SETTINGS.config["resume"]["seed"]
    pattern = "results/runs/{}/{}/seed{}/repeat1/run.json"
    workload = wildcards["workload"]
    return [
        {
            **pair,
            **{
                key: pattern.format(workload, pair[key], seed)
                for key in ("whole", "stopped")
            },
        }
        for pair in SETTINGS.stops_of(wildcards["variant"])
    ]


def runs_of_resume(wildcards):
    pairs = pairs_of_resume(wildcards)
    return sorted({pair[key] for pair in pairs for key in ("whole", "stopped")})


def timings_of_study(wildcards):
    if wildcards.study == "parallel":
        return of_study("parallel", "results/scaling/{workload}.json")
    if wildcards.study not in TIMINGS:
        return []
    names = SETTINGS.timings_of(wildcards.study)
    return collect("results/timings/{timing}.json", timing=names)


def first_runs_of_devices(wildcards):
    """List a run of each device, all of the first seed."""
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    seeds = SETTINGS.config["devices"]["seeds"][:1]
    return of_study("devices", pattern, {"workload": wildcards.workload, "seed": seeds})


# The gate


def runs_of_fingerprint(wildcards):
    """List the runs whose weights are expected."""
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    variants = SETTINGS.fingerprinted_variants()
    return of_study("reproducibility", pattern, {"variant": variants, "repeat": [1]})


def expected_fingerprint(wildcards):
    """Give the user's file, if there is one yet."""
    file = SETTINGS.config["require"].get("fingerprint")
    return [file] if file and Path(file).exists() else []


def matrices_of_gate(wildcards):
    if "matrix" not in SETTINGS.config["require"]:
        return []
    workloads = SETTINGS.config["matrix"]["workloads"]
    return collect("results/matrix/{workload}.json", workload=workloads)


def timings_of_gate(wildcards):
    if "determinism_cost" not in SETTINGS.config["require"]:
        return []
    names = SETTINGS.timings_of("reproducibility")
    return collect("results/timings/{timing}.json", timing=names)


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
            figure=["first_layer", "layers", "growth", "curves", "way"],
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
        *of_study(
            "reproducibility",
            "results/locations/{workload}/{variant}/seed{seed}.json",
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


def results_of_parallel():
    runs = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return [
        *of_study("parallel", runs),
        *COMPARISONS["parallel"](),
        *of_study("parallel", "results/scaling/{workload}.json"),
        *of_study("parallel", "results/figures/parallel/{workload}/speedup.svg"),
    ]


def results_of_sweep():
    workloads = SETTINGS.config["sweep"]["workloads"]
    return [
        *(path for name in workloads for path in runs_of_sweep({"workload": name})),
        *rankings_of_sweep(),
        *of_study("sweep", "results/figures/sweep/{workload}/trials.svg"),
    ]


def results_of_matrix():
    workloads = SETTINGS.config["matrix"]["workloads"]
    run = "results/runs/{{workload}}/{variant}/seed{seed}/repeat{repeat}/run.json"
    pairs = map(SETTINGS.pair_of_cell, SETTINGS.cells_that_run())
    runs = dict.fromkeys(run.format(**identity) for pair in pairs for identity in pair)
    return [
        *collect([*runs], workload=workloads),
        *matrices_of_study(),
        *collect("results/figures/matrix/{workload}/cells.svg", workload=workloads),
    ]


def results_of_resume():
    asked = SETTINGS.config["resume"]
    pairs = [
        {"workload": workload, "variant": variant}
        for workload in asked["workloads"]
        for variant in SETTINGS.variants_of("resume")
    ]
    return [
        *(run for pair in pairs for run in runs_of_resume(pair)),
        *COMPARISONS["resume"](),
    ]


RESULTS = {
    "reproducibility": results_of_reproducibility,
    "devices": results_of_devices,
    "acceleration": results_of_acceleration,
    "parallel": results_of_parallel,
    "sweep": results_of_sweep,
    "matrix": results_of_matrix,
    "resume": results_of_resume,
}


def results_of_studies():
    return [path for study in SETTINGS.studies for path in RESULTS[study]()]

# What a study and the report ask for, as lists of files.


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
            figure=["first_layer", "layers", "growth", "curves", "operations"],
        ),
        *collect(pattern, workload=timed, figure="cost"),
        *collect(pattern, workload=denoisers, figure="strip"),
    ]


def results_of_reproducibility():
    """List what the study leaves, so that whatever is missing of it is made again.

    Each path costs time in a workflow of thousands of runs: who compares lists run.json.
    """
    runs = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}"
    files = ["weights.safetensors", "steps.csv", "fingerprints.npz"]
    workloads = SETTINGS.config["reproducibility"]["workloads"]
    timed = [name for name in workloads if f"determinism_{name}" in SETTINGS.timings]
    return [
        *(
            path
            for file in files
            for path in of_study("reproducibility", f"{runs}/{file}")
        ),
        *repeats_of_study("reproducibility"),
        *of_study("reproducibility", "results/locations/{workload}/{variant}.json"),
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
        *comparisons_with_baseline(study),
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


def read_by_report():
    """List the results that the page reads: of thousands of runs, run.json alone."""
    read = [path for path in results_of_studies() if path.endswith((".json", ".svg"))]
    if "reproducibility" in SETTINGS.studies:
        pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
        read += of_study("reproducibility", pattern)
    return read

# Input functions and parameters of the rules: which runs, comparisons and timings belong to what.


def cores_of_run(wildcards):
    return SETTINGS.cores_of(
        wildcards.workload, wildcards.variant, available=workflow.cores
    )


def resources_of_devices():
    """Give the GPUs of a run, and what Slurm must know of one on several nodes.

    What no variant needs has no function, which would be called for each of thousands of runs.
    """

    def of_variant(give):
        return lambda wildcards: give(SETTINGS.variants[wildcards.variant])

    def of_nodes(give):  # None is no resource
        return of_variant(lambda variant: give(variant) if variant.nodes > 1 else None)

    variants, resources = SETTINGS.variants.values(), {"gpu": 0}
    if any(variant.gpus for variant in variants):
        resources["gpu"] = of_variant(lambda variant: variant.gpus)
    if any(variant.nodes > 1 for variant in variants):
        resources["nodes"] = of_nodes(lambda variant: variant.nodes)
        resources["tasks"] = of_nodes(lambda variant: variant.devices)
        resources["cpus_per_task"] = of_nodes(lambda variant: variant.threads)
        resources["mpi"] = of_nodes(lambda variant: "srun")
    return resources


@cache  # asked for each of thousands of runs
def entries_of(kind, name):
    return asdict(getattr(SETTINGS, kind)[name])


def settings_of_run(wildcards):
    """Give all that a run is made of, at once: there may be thousands of them."""
    repeat, variant = int(wildcards["repeat"]), SETTINGS.variants[wildcards.variant]
    seed = int(wildcards["seed"])
    return {
        "identity": {
            "workload": wildcards.workload,
            "variant": wildcards.variant,
            "seed": seed,
            "repeat": repeat,
        },
        "training": {**settings_of_replay(wildcards), "seed": seed},
        "cores": variant.cores,
        "is_trial": wildcards.workload in SETTINGS.trials,
    }


def variants_of_timing(wildcards):
    names = SETTINGS.timings[wildcards.timing].variants
    return {name: asdict(SETTINGS.variants[name]) for name in names}


def gpus_of_timing(wildcards):
    variants = variants_of_timing(wildcards).values()
    return int(any(variant["accelerator"] == "gpu" for variant in variants))


def of_study(study, pattern, fixed=()):
    """Fill a pattern with a study, its workloads, variants, seeds and repeats, or fixed ones."""
    asked, variants = SETTINGS.config[study], SETTINGS.variants_of(study)
    if not variants:
        return []
    values = {
        "study": [study],
        "workload": asked["workloads"],
        "variant": variants,
        "seed": asked.get("seeds", []),
        "repeat": range(1, asked.get("repeats", 1) + 1),
    }
    return collect(pattern, **{**values, **dict(fixed)})


def settings_of_replay(wildcards):
    """Give what the runs of a comparison are made of."""
    return {
        "workload": entries_of("workloads", wildcards.workload),
        "variant": entries_of("variants", wildcards.variant),
        "dataset": dataset_of(wildcards.workload) or None,
        "search_path": SEARCH_PATH,
    }


def locations_of_study(wildcards):
    """List where the repeats of each pair part; only one study has repeats."""
    if wildcards.study != "reproducibility":
        return []
    return of_study("reproducibility", "results/locations/{workload}/{variant}.json")


def locations_of_workload(wildcards):
    pattern = "results/locations/{workload}/{variant}.json"
    return of_study("reproducibility", pattern, {"workload": wildcards.workload})


def runs_of_comparison(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    names = {key: wildcards[key] for key in ("workload", "variant")}
    return of_study(wildcards.study, pattern, names)


def minutes_of_seeds(wildcards, attempt):
    """Allow half an hour, and two minutes for each seed."""
    study = dict(wildcards).get("study", "reproducibility")
    return (30 + 2 * len(SETTINGS.config[study]["seeds"])) * attempt


def runs_of_workload(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return of_study("reproducibility", pattern, wildcards)


def runs_of_first_seed(wildcards):
    """List the runs of the pairs that are drawn: of the lowest seed."""
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    seeds = [min(SETTINGS.config["reproducibility"]["seeds"])]
    names = {"workload": wildcards.workload, "seed": seeds}
    return of_study("reproducibility", pattern, names)


def runs_of_scaling(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
    return of_study("parallel", pattern, wildcards)


def runs_of_sweep(wildcards):
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    trials = SETTINGS.trials_of(wildcards["workload"])
    return of_study("sweep", pattern, {"workload": trials})


def first_run_of_workload(wildcards):
    return runs_of_workload(wildcards)[0]


def runs_of_variants(wildcards):
    """Give the runs of the baseline, then the variant's."""
    variants = [wildcards.baseline, wildcards.variant]
    pattern = "results/runs/{workload}/{variant}/seed{seed}/repeat1/run.json"
    names = {"workload": wildcards.workload, "variant": variants}
    return of_study(wildcards.study, pattern, names)


def comparisons_with_baseline(study):
    """List the comparisons of each variant of a study with its first."""
    first, *others = SETTINGS.variants_of(study) or [None]
    pattern = "results/comparisons/{study}/{workload}/{variant}/against/{baseline}.json"
    return of_study(study, pattern, {"variant": others, "baseline": [first]})


def repeats_of_study(study):
    """List the comparisons of the repeats of each variant of a study."""
    return of_study(study, "results/comparisons/{study}/{workload}/{variant}.json")


def rankings_of_sweep():
    return of_study("sweep", "results/sweeps/{workload}.json")


def matrices_of_study():
    workloads = SETTINGS.config["matrix"]["workloads"]
    return collect("results/matrix/{workload}.json", workload=workloads)


COMPARISONS = {
    "reproducibility": lambda: repeats_of_study("reproducibility"),
    "devices": lambda: comparisons_with_baseline("devices"),
    "acceleration": lambda: comparisons_with_baseline("acceleration"),
    "parallel": lambda: [
        *repeats_of_study("parallel"),
        *comparisons_with_baseline("parallel"),
    ],
    "sweep": rankings_of_sweep,
    "matrix": matrices_of_study,
    "resume": lambda: of_study("resume", "results/resumes/{workload}/{variant}.json"),
}


def comparisons_of_study(wildcards):
    return COMPARISONS[wildcards.study]()


def runs_of_change(wildcards):
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
    pattern = "results/comparisons/{study}/{workload}/{variant}.json"
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

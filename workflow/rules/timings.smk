"""Timings: variants of one workload measured in turn, to results/timings/."""


rule timing:
    """Measure the variants of a timing round by round, alone on the machine."""
    input:
        dataset=INPUTS.dataset_of_timing,
    output:
        rounds="results/timings/{timing}.csv",
        summary="results/timings/{timing}.json",
    log:
        "results/logs/timing/{timing}.log",
    # No benchmark: its sampling holds up the process that is timed.
    conda:
        "../../envs/training.yaml"
    # A function, or `snakemake --report` would ask for --cores.
    threads: lambda wildcards: workflow.cores
    resources:
        mem_mb=PARAMS.memory_of_timing,
        runtime=MINUTES.of_timing,
        gpu=PARAMS.gpus_of_timing,
        # A resource, not a param: where the folders lie is no part of a result.
        folders=PARAMS.folders,
    params:
        source=lambda wildcards: hash_of(
            "scripts/timing.py",
            "twinrun.timing.measure",
            "twinrun.process.import_log",
            "twinrun.process.launching",
            "twinrun.process.gpu_locks",
            *PARAMS.modules_of_timing(wildcards),
        ),
        imports=lambda wildcards: state_of(TIMING.format_map(wildcards), SEARCH_PATH),
        timing=lambda wildcards: asdict(SETTINGS.timings[wildcards.timing]),
        workload=PARAMS.workload_of_timing,
        variants=PARAMS.variants_of_timing,
        dataset=lambda wildcards: INPUTS.dataset_of(
            SETTINGS.timings[wildcards.timing].workload
        ),
        most_threads=lambda wildcards: SETTINGS.most_threads(wildcards.timing),
        versions=versions_of,
        data=PARAMS.data_of_timing,
    script:
        "../scripts/timing.py"

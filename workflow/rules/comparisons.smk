"""Comparisons of the runs of a seed, to results/comparisons/.

One job for all seeds of a variant: of thousands of runs, half the jobs would be comparisons.
"""


rule compare_repeats:
    """Compare the repeats of each seed with the first one, byte by byte and step by step."""
    input:
        runs=INPUTS.runs_of_repeats,
    output:
        summary="results/comparisons/{study}/{workload}/{variant}.json",
        tensors="results/comparisons/{study}/{workload}/{variant}.tensors.csv",
        steps="results/comparisons/{study}/{workload}/{variant}.steps.csv",
    log:
        "results/logs/compare_repeats/{study}/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/compare_repeats/{study}/{workload}/{variant}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=MINUTES.of_seeds,
    params:
        source=hash_of("scripts/compare_repeats.py", "twinrun.comparison.compare"),
    script:
        "../scripts/compare_repeats.py"


rule locate:
    """Find the operation from which the difference of a pair flows, by replaying its step."""
    input:
        dataset=INPUTS.dataset_of_run,
        comparisons="results/comparisons/{study}/{workload}/{variant}.json",
    output:
        location="results/locations/{study}/{workload}/{variant}.json",
        operations="results/locations/{study}/{workload}/{variant}.operations.csv",
    log:
        "results/logs/locate/{study}/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/locate/{study}/{workload}/{variant}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: lambda wildcards: SETTINGS.variants[wildcards.variant].threads
    resources:
        mem_mb=PARAMS.memory_of_replay,
        runtime=MINUTES.of_location,
        gpu=PARAMS.gpus_of_replay,
        # A resource, not a param: where the folders lie is no part of a result.
        folders=PARAMS.folders,
    params:
        source=lambda wildcards: hash_of(
            "scripts/locate.py",
            "twinrun.comparison.locate",
            "twinrun.comparison.replay",
            "twinrun.process.fresh_process",
            "twinrun.process.gpu_locks",
            *PARAMS.modules_of_workload(wildcards),
        ),
        run=PARAMS.settings_of_replay,
        versions=versions_of,
    script:
        "../scripts/locate.py"


rule compare_variants:
    """Compare the runs of a variant with those of the baseline, seed by seed."""
    input:
        runs=INPUTS.runs_of_variants,
    output:
        summary="results/comparisons/{study}/{workload}/{variant}/against/{baseline}.json",
        tensors="results/comparisons/{study}/{workload}/{variant}/against/{baseline}.tensors.csv",
        steps="results/comparisons/{study}/{workload}/{variant}/against/{baseline}.steps.csv",
    log:
        "results/logs/compare_variants/{study}/{workload}/{variant}/against/{baseline}.log",
    benchmark:
        "results/benchmarks/compare_variants/{study}/{workload}/{variant}/against/{baseline}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=MINUTES.of_seeds,
    params:
        source=hash_of("scripts/compare_variants.py", "twinrun.comparison.compare"),
    script:
        "../scripts/compare_variants.py"

"""Comparisons: the runs of one seed held against each other, to results/comparisons/."""


rule compare:
    """Hold the repeats of a run against the first, byte by byte and step by step."""
    input:
        runs=runs_of_comparison,
    output:
        summary="results/comparisons/{workload}/{variant}/seed{seed}.json",
        tensors="results/comparisons/{workload}/{variant}/seed{seed}.tensors.csv",
        steps="results/comparisons/{workload}/{variant}/seed{seed}.steps.csv",
    log:
        "results/logs/compare/{workload}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/compare/{workload}/{variant}/seed{seed}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
    params:
        source=hash_of("twinrun.comparison"),
    script:
        "../scripts/compare.py"


rule locate:
    """Find the first operation that differs in a pair that does, by replaying its step."""
    input:
        dataset=lambda wildcards: dataset_of(wildcards.workload),
        runs=runs_of_comparison,
        comparison="results/comparisons/{workload}/{variant}/seed{seed}.json",
    output:
        location="results/locations/{workload}/{variant}/seed{seed}.json",
        way="results/locations/{workload}/{variant}/seed{seed}.csv",
    log:
        "results/logs/locate/{workload}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/locate/{workload}/{variant}/seed{seed}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: lambda wildcards: SETTINGS.variants[wildcards.variant].threads
    resources:
        mem_mb=4000,
        gpu=lambda wildcards: min(SETTINGS.variants[wildcards.variant].gpus, 1),
    params:
        source=lambda wildcards: hash_of(
            "twinrun.locating", "twinrun.replaying", *modules_of_workload(wildcards)
        ),
        run=settings_of_replay,
        versions=VERSIONS,
    script:
        "../scripts/locate.py"


rule contrast:
    """Hold the run of a variant against that of another, from the same seed."""
    input:
        runs=runs_of_contrast,
    output:
        summary="results/comparisons/{workload}/{variant}/against/{other}/seed{seed}.json",
        tensors="results/comparisons/{workload}/{variant}/against/{other}/seed{seed}.tensors.csv",
        steps="results/comparisons/{workload}/{variant}/against/{other}/seed{seed}.steps.csv",
    log:
        "results/logs/contrast/{workload}/{variant}/against/{other}/seed{seed}.log",
    benchmark:
        "results/benchmarks/contrast/{workload}/{variant}/against/{other}/seed{seed}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
    params:
        source=hash_of("twinrun.comparison"),
    script:
        "../scripts/contrast.py"

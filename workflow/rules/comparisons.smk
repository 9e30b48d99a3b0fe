"""Comparisons: the runs of one seed held against each other, to results/comparisons/."""


rule compare:
    """Hold the repeats of a run against the first, byte by byte and step by step."""
    input:
        source=package_files("twinrun.comparison"),
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
    script:
        "../scripts/compare.py"


rule contrast:
    """Hold the run of a variant against that of another, from the same seed."""
    input:
        source=package_files("twinrun.comparison"),
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
    script:
        "../scripts/contrast.py"

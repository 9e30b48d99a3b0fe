"""Summaries of runs: by the number of workers, to results/scaling/; by a metric, to results/sweeps/."""


rule scaling:
    """Summarise the times of the epochs of one and of several workers."""
    input:
        runs=INPUTS.runs_of_scaling,
    output:
        epochs="results/scaling/{workload}.csv",
        summary="results/scaling/{workload}.json",
    log:
        "results/logs/scaling/{workload}.log",
    benchmark:
        "results/benchmarks/scaling/{workload}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/scaling.py", "twinrun.timing.epoch_times"),
    script:
        "../scripts/scaling.py"


rule rank:
    """Rank the trials of a sweep by a metric; a failed one comes last."""
    input:
        runs=INPUTS.runs_of_sweep,
    output:
        table="results/sweeps/{workload}.csv",
        summary="results/sweeps/{workload}.json",
    log:
        "results/logs/rank/{workload}.log",
    benchmark:
        "results/benchmarks/rank/{workload}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/rank.py", "twinrun.comparison.ranking"),
        metric=SETTINGS.config["sweep"]["metric"],
        best=SETTINGS.config["sweep"]["best"],
    script:
        "../scripts/rank.py"

"""Summaries of runs: by the number of workers, to results/scaling/; by a metric, to results/sweeps/ and contests/."""


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
        **PARAMS.ranked_by("sweep"),
        trained=PARAMS.trained_in_sweep,
        source=hash_of("scripts/rank.py", "twinrun.comparison.ranking"),
    script:
        "../scripts/rank.py"


rule rank_candidates:
    """Rank the two candidates of a contest by a metric."""
    input:
        runs=INPUTS.runs_of_contest,
    output:
        table="results/contests/{workload}/{variant}.csv",
        summary="results/contests/{workload}/{variant}.json",
    log:
        "results/logs/rank_candidates/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/rank_candidates/{workload}/{variant}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        **PARAMS.ranked_by("contest"),
        margin=SETTINGS.config["contest"]["margin"],
        source=hash_of("scripts/rank_candidates.py", "twinrun.comparison.ranking"),
        contestants=INPUTS.candidates,
    script:
        "../scripts/rank_candidates.py"

"""Resuming: resumed runs compared with uninterrupted ones, to results/resumes/."""


rule diagnose:
    """Find what a training loses when it is stopped and resumed, for each kind of stop."""
    input:
        runs=INPUTS.runs_of_resume,
    output:
        table="results/resumes/{workload}/{variant}.csv",
        summary="results/resumes/{workload}/{variant}.json",
        comparisons=directory("results/resumes/{workload}/{variant}"),
    log:
        "results/logs/diagnose/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/diagnose/{workload}/{variant}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=MINUTES.of_stops,
    params:
        source=hash_of("scripts/diagnose.py", "twinrun.comparison.resume_loss"),
        pairs=INPUTS.pairs_of_resume,
        seed=lambda wildcards: SETTINGS.config["resume"]["seed"],
    script:
        "../scripts/diagnose.py"

"""The scale of rounding and seeds, and the changes on it, to results/noise/."""


rule weigh:
    """Compare perturbed runs, runs from other seeds and changed ones with one reference run."""
    input:
        runs=PARAMS.inputs_of_noise,
    output:
        steps="results/noise/{workload}/{variant}.steps.csv",
        summary="results/noise/{workload}/{variant}.json",
    log:
        "results/logs/weigh/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/weigh/{workload}/{variant}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=MINUTES.of_noise,
    params:
        source=hash_of("scripts/weigh.py", "twinrun.comparison.noise"),
        runs=PARAMS.runs_of_noise,
        left_out=PARAMS.left_out_of_noise,
        seed=SETTINGS.config["noise"]["seeds"][0],
    script:
        "../scripts/weigh.py"

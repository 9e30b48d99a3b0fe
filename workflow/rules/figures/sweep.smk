"""Figures of the study sweep, to results/figures/sweep/."""


rule trials:
    """Draw the curves of the trials of a sweep."""
    input:
        sweep="results/sweeps/{workload}.json",
        runs=INPUTS.runs_of_sweep,
    output:
        figure=report(
            "results/figures/sweep/{workload}/trials.svg",
            caption="../../report/trials.rst",
            category="Sweep",
            subcategory="{workload}",
            labels={"figure": "trials"},
        ),
    log:
        "results/logs/trials/{workload}.log",
    benchmark:
        "results/benchmarks/trials/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/trials.py", "twinrun.figures.sweep"),
    script:
        "../../scripts/trials.py"

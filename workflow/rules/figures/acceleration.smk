"""Figures of the study acceleration, to results/figures/acceleration/."""


rule speeds:
    """Draw the times of training and prediction of each variant."""
    input:
        timing="results/timings/acceleration_{workload}.json",
    output:
        figure=report(
            "results/figures/acceleration/{workload}/speeds.svg",
            caption="../../report/speeds.rst",
            category="Acceleration",
            subcategory="{workload}",
            labels={"figure": "speeds"},
        ),
    log:
        "results/logs/speeds/{workload}.log",
    benchmark:
        "results/benchmarks/speeds/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/speeds.py", "twinrun.figures.acceleration"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/speeds.py"

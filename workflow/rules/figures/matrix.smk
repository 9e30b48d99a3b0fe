"""Figures of the study matrix, to results/figures/matrix/."""


rule cells:
    """Draw the effect of each change of the baseline, in words and colours."""
    input:
        matrix="results/matrix/{workload}.json",
    output:
        figure=report(
            "results/figures/matrix/{workload}/cells.svg",
            caption="../../report/cells.rst",
            category="Matrix",
            subcategory="{workload}",
            labels={"figure": "cells"},
        ),
    log:
        "results/logs/cells/{workload}.log",
    benchmark:
        "results/benchmarks/cells/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/cells.py", "twinrun.figures.matrix"),
    script:
        "../../scripts/cells.py"

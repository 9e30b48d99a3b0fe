"""Figures of the study noise, to results/figures/noise/."""


rule ladder:
    """Draw how far rounding, changes and seeds are from the reference run."""
    input:
        noise="results/noise/{workload}/{variant}.json",
    output:
        figure=report(
            "results/figures/noise/{workload}/{variant}/ladder.svg",
            caption="../../report/ladder.rst",
            category="Noise",
            subcategory="{workload}",
            labels={"figure": "ladder", "variant": "{variant}"},
        ),
    log:
        "results/logs/ladder/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/ladder/{workload}/{variant}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/ladder.py", "twinrun.figures.noise"),
    script:
        "../../scripts/ladder.py"


rule divergence:
    """Draw how rounding and seeds grow from step to step."""
    input:
        noise="results/noise/{workload}/{variant}.json",
        steps="results/noise/{workload}/{variant}.steps.csv",
    output:
        figure=report(
            "results/figures/noise/{workload}/{variant}/divergence.svg",
            caption="../../report/divergence.rst",
            category="Noise",
            subcategory="{workload}",
            labels={"figure": "divergence", "variant": "{variant}"},
        ),
    log:
        "results/logs/divergence/{workload}/{variant}.log",
    benchmark:
        "results/benchmarks/divergence/{workload}/{variant}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/divergence.py", "twinrun.figures.noise"),
    script:
        "../../scripts/divergence.py"

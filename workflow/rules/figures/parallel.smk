"""Figures of the study parallel, to results/figures/parallel/."""


rule speedup:
    """Draw the time of an epoch, the speed-up and the communication by the number of workers."""
    input:
        scaling="results/scaling/{workload}.json",
    output:
        figure=report(
            "results/figures/parallel/{workload}/speedup.svg",
            caption="../../report/speedup.rst",
            category="Parallel",
            subcategory="{workload}",
            labels={"figure": "speed-up"},
        ),
    log:
        "results/logs/speedup/{workload}.log",
    benchmark:
        "results/benchmarks/speedup/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/speedup.py", "twinrun.figures.scaling"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/speedup.py"

"""Figures of the trainings themselves, to results/figures/reproducibility/."""


rule curves:
    """Draw the training and validation curves."""
    input:
        runs=INPUTS.runs_of_workload,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/curves.svg",
            caption="../../report/curves.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "curves"},
        ),
    log:
        "results/logs/curves/{workload}.log",
    benchmark:
        "results/benchmarks/curves/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/curves.py", "twinrun.figures.training"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/curves.py"


rule strip:
    """Draw predicted images beside what they should be."""
    input:
        run=INPUTS.first_run_of_workload,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/strip.svg",
            caption="../../report/strip.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "predicted images"},
        ),
    log:
        "results/logs/strip/{workload}.log",
    benchmark:
        "results/benchmarks/strip/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/strip.py", "twinrun.figures.predictions"),
        names=PARAMS.images_of_workload,
    script:
        "../../scripts/strip.py"

"""Figures of the datasets, to results/figures/data/."""


rule contact_sheet:
    """Draw images of every class of a dataset."""
    input:
        dataset=INPUTS.file_of_dataset,
    output:
        figure=report(
            "results/figures/data/{dataset}.svg",
            caption="../../report/contact_sheet.rst",
            category="Data",
            labels={"figure": "{dataset}"},
        ),
    log:
        "results/logs/contact_sheet/{dataset}.log",
    benchmark:
        "results/benchmarks/contact_sheet/{dataset}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/contact_sheet.py", "twinrun.figures.datasets"),
        shows=PARAMS.images_of_dataset,
    script:
        "../../scripts/contact_sheet.py"

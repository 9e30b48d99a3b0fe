"""Figures of the study reproducibility: pairs of runs, the cost, to results/figures/reproducibility/."""


rule first_layer:
    """Draw the difference of the first layer's weights, parameter by parameter."""
    input:
        runs=INPUTS.runs_of_first_seed,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/first_layer.svg",
            caption="../../report/first_layer.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "first layer"},
        ),
    log:
        "results/logs/first_layer/{workload}.log",
    benchmark:
        "results/benchmarks/first_layer/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/first_layer.py", "twinrun.figures.pairs"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/first_layer.py"


rule layers:
    """Draw the distribution of the differences, tensor by tensor."""
    input:
        runs=INPUTS.runs_of_first_seed,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/layers.svg",
            caption="../../report/layers.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "layers"},
        ),
    log:
        "results/logs/layers/{workload}.log",
    benchmark:
        "results/benchmarks/layers/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/layers.py", "twinrun.figures.pairs"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/layers.py"


rule growth:
    """Draw how a difference grows over the steps."""
    input:
        comparisons=INPUTS.comparisons_of_workload,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/growth.svg",
            caption="../../report/growth.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "growth"},
        ),
    log:
        "results/logs/growth/{workload}.log",
    benchmark:
        "results/benchmarks/growth/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/growth.py", "twinrun.figures.growth"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/growth.py"


rule operations:
    """Draw the operations of the step in which two runs diverge, and how far each differs."""
    input:
        locations=INPUTS.locations_of_workload,
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/operations.svg",
            caption="../../report/operations.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "operations"},
        ),
    log:
        "results/logs/operations/{workload}.log",
    benchmark:
        "results/benchmarks/operations/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/operations.py", "twinrun.figures.operations"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/operations.py"


rule cost:
    """Draw what determinism costs, round by round."""
    input:
        timing="results/timings/determinism_{workload}.json",
    output:
        figure=report(
            "results/figures/reproducibility/{workload}/cost.svg",
            caption="../../report/cost.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "cost"},
        ),
    log:
        "results/logs/cost/{workload}.log",
    benchmark:
        "results/benchmarks/cost/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/cost.py", "twinrun.figures.timings"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/cost.py"

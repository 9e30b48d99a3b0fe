"""Figures of the studies and of the datasets, SVG, to results/figures/."""


rule first_layer:
    """Draw the difference of the first layer's weights, parameter by parameter."""
    input:
        runs=INPUTS.runs_of_first_seed,
    output:
        report(
            "results/figures/reproducibility/{workload}/first_layer.svg",
            caption="../report/first_layer.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "first layer"},
        ),
    log:
        "results/logs/first_layer/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.pairs"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/first_layer.py"


rule layers:
    """Draw the distribution of the differences, tensor by tensor."""
    input:
        runs=INPUTS.runs_of_first_seed,
    output:
        report(
            "results/figures/reproducibility/{workload}/layers.svg",
            caption="../report/layers.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "layers"},
        ),
    log:
        "results/logs/layers/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.pairs"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/layers.py"


rule growth:
    """Draw how a difference grows over the steps."""
    input:
        comparisons=INPUTS.comparisons_of_workload,
    output:
        report(
            "results/figures/reproducibility/{workload}/growth.svg",
            caption="../report/growth.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "growth"},
        ),
    log:
        "results/logs/growth/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.growth"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/growth.py"


rule operations:
    """Draw the operations of the step in which two runs diverge, and how far each differs."""
    input:
        locations=INPUTS.locations_of_workload,
    output:
        report(
            "results/figures/reproducibility/{workload}/operations.svg",
            caption="../report/operations.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "operations"},
        ),
    log:
        "results/logs/operations/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.operations"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/operations.py"


rule curves:
    """Draw the training and validation curves."""
    input:
        runs=INPUTS.runs_of_workload,
    output:
        report(
            "results/figures/reproducibility/{workload}/curves.svg",
            caption="../report/curves.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "curves"},
        ),
    log:
        "results/logs/curves/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.training"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/curves.py"


rule cost:
    """Draw what determinism costs, round by round."""
    input:
        timing="results/timings/determinism_{workload}.json",
    output:
        report(
            "results/figures/reproducibility/{workload}/cost.svg",
            caption="../report/cost.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "cost"},
        ),
    log:
        "results/logs/cost/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.timings"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/cost.py"


rule strip:
    """Draw predicted images beside what they should be."""
    input:
        run=INPUTS.first_run_of_workload,
    output:
        report(
            "results/figures/reproducibility/{workload}/strip.svg",
            caption="../report/strip.rst",
            category="Reproducibility",
            subcategory="{workload}",
            labels={"figure": "predicted images"},
        ),
    log:
        "results/logs/strip/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.predictions"),
        names=PARAMS.images_of_workload,
    script:
        "../scripts/strip.py"


rule contact_sheet:
    """Draw images of every class of a dataset."""
    input:
        dataset=INPUTS.file_of_dataset,
    output:
        report(
            "results/figures/data/{dataset}.svg",
            caption="../report/contact_sheet.rst",
            category="Data",
            labels={"figure": "{dataset}"},
        ),
    log:
        "results/logs/contact_sheet/{dataset}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.datasets"),
        shows=PARAMS.images_of_dataset,
    script:
        "../scripts/contact_sheet.py"


rule sizes:
    """Draw how the time of a step grows with the size, and where devices cross."""
    input:
        timing="results/timings/devices_{workload}.json",
    output:
        report(
            "results/figures/devices/{workload}/sizes.svg",
            caption="../report/sizes.rst",
            category="Devices",
            subcategory="{workload}",
            labels={"figure": "time over size"},
        ),
    log:
        "results/logs/sizes/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.devices"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/sizes.py"


rule surfaces:
    """Draw the surface to fit and what each device's network made of it."""
    input:
        runs=INPUTS.first_runs_of_devices,
    output:
        report(
            "results/figures/devices/{workload}/surfaces.svg",
            caption="../report/surfaces.rst",
            category="Devices",
            subcategory="{workload}",
            labels={"figure": "surfaces"},
        ),
    log:
        "results/logs/surfaces/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.predictions"),
        names=PARAMS.surface_of_workload,
    script:
        "../scripts/surfaces.py"


rule speeds:
    """Draw the time of training and of prediction, variant beside variant."""
    input:
        timing="results/timings/acceleration_{workload}.json",
    output:
        report(
            "results/figures/acceleration/{workload}/speeds.svg",
            caption="../report/speeds.rst",
            category="Acceleration",
            subcategory="{workload}",
            labels={"figure": "speeds"},
        ),
    log:
        "results/logs/speeds/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.acceleration"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/speeds.py"


rule speedup:
    """Draw the time of an epoch and the speed-up over the workers, and what they exchange."""
    input:
        scaling="results/scaling/{workload}.json",
    output:
        report(
            "results/figures/parallel/{workload}/speedup.svg",
            caption="../report/speedup.rst",
            category="Parallel",
            subcategory="{workload}",
            labels={"figure": "speed-up"},
        ),
    log:
        "results/logs/speedup/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.scaling"),
        variants=list(SETTINGS.variants),
    script:
        "../scripts/speedup.py"


rule trials:
    """Draw the curves of the trials of a sweep."""
    input:
        sweep="results/sweeps/{workload}.json",
        runs=INPUTS.runs_of_sweep,
    output:
        report(
            "results/figures/sweep/{workload}/trials.svg",
            caption="../report/trials.rst",
            category="Sweep",
            subcategory="{workload}",
            labels={"figure": "trials"},
        ),
    log:
        "results/logs/trials/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.sweep"),
    script:
        "../scripts/trials.py"


rule cells:
    """Draw what each change of the matrix's baseline does, in words and colours."""
    input:
        matrix="results/matrix/{workload}.json",
    output:
        report(
            "results/figures/matrix/{workload}/cells.svg",
            caption="../report/cells.rst",
            category="Matrix",
            subcategory="{workload}",
            labels={"figure": "cells"},
        ),
    log:
        "results/logs/cells/{workload}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("twinrun.figures.matrix"),
    script:
        "../scripts/cells.py"

"""Figures of the study devices, to results/figures/devices/."""


rule sizes:
    """Draw how the time of a step grows with the size, and where devices cross."""
    input:
        timing="results/timings/devices_{workload}.json",
    output:
        figure=report(
            "results/figures/devices/{workload}/sizes.svg",
            caption="../../report/sizes.rst",
            category="Devices",
            subcategory="{workload}",
            labels={"figure": "time over size"},
        ),
    log:
        "results/logs/sizes/{workload}.log",
    benchmark:
        "results/benchmarks/sizes/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/sizes.py", "twinrun.figures.devices"),
        variants=list(SETTINGS.variants),
    script:
        "../../scripts/sizes.py"


rule surfaces:
    """Draw the target surface and the surfaces that the devices' networks learned."""
    input:
        runs=INPUTS.first_runs_of_devices,
    output:
        figure=report(
            "results/figures/devices/{workload}/surfaces.svg",
            caption="../../report/surfaces.rst",
            category="Devices",
            subcategory="{workload}",
            labels={"figure": "surfaces"},
        ),
    log:
        "results/logs/surfaces/{workload}.log",
    benchmark:
        "results/benchmarks/surfaces/{workload}.tsv"
    conda:
        "../../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/surfaces.py", "twinrun.figures.predictions"),
        names=PARAMS.surface_of_workload,
    script:
        "../../scripts/surfaces.py"

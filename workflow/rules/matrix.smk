"""The matrix: each change of the baseline compared with it, to results/matrix/."""


rule compare_change:
    """Compare the run of a changed baseline with that of the baseline."""
    input:
        runs=INPUTS.runs_of_change,
    output:
        summary="results/matrix/{workload}/{cell}.json",
        tensors="results/matrix/{workload}/{cell}.tensors.csv",
        steps="results/matrix/{workload}/{cell}.steps.csv",
    log:
        "results/logs/compare_change/{workload}/{cell}.log",
    benchmark:
        "results/benchmarks/compare_change/{workload}/{cell}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=MINUTES.of_change,
    params:
        source=hash_of("scripts/compare_change.py", "twinrun.comparison.compare"),
    script:
        "../scripts/compare_change.py"


rule tabulate:
    """Write the table of the matrix: what each change does, in words and numbers."""
    input:
        cells=INPUTS.cells_of_matrix,
    output:
        table="results/matrix/{workload}.csv",
        summary="results/matrix/{workload}.json",
    log:
        "results/logs/tabulate/{workload}.log",
    benchmark:
        "results/benchmarks/tabulate/{workload}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/tabulate.py", "twinrun.comparison.matrix"),
        cells=SETTINGS.listed_cells(),
        baseline=SETTINGS.config["matrix"]["baseline"],
        seed=SETTINGS.config["matrix"]["seed"],
    script:
        "../scripts/tabulate.py"

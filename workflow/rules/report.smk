"""Verdicts and the page to read: results/verdicts/, results/verdicts.csv, results/report.html."""


# Each takes seconds: on a cluster they run where Snakemake runs, and wait in no queue.
localrules:
    judge,
    verdicts,
    report,


rule judge:
    """Answer the questions of a study, one line each."""
    input:
        comparisons=lambda wildcards: STUDIES[wildcards.study].compared(),
        timings=lambda wildcards: STUDIES[wildcards.study].timed(),
        locations=lambda wildcards: STUDIES[wildcards.study].located(),
        runs=lambda wildcards: STUDIES[wildcards.study].clocked(),
    output:
        verdicts="results/verdicts/{study}.csv",
    log:
        "results/logs/judge/{study}.log",
    benchmark:
        "results/benchmarks/judge/{study}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/judge.py", "twinrun.verdicts.judge"),
        not_run=lambda wildcards: SETTINGS.not_run_of(wildcards.study),
        untimed=lambda wildcards: SETTINGS.untimed_of(wildcards.study),
        workloads=lambda wildcards: SETTINGS.config[wildcards.study]["workloads"],
    script:
        "../scripts/judge.py"


rule verdicts:
    """Join the verdicts of all studies."""
    input:
        studies=collect("results/verdicts/{study}.csv", study=SETTINGS.studies),
    output:
        verdicts=report(
            "results/verdicts.csv",
            caption="../report/verdicts.rst",
            category="Verdicts",
            labels={"figure": "verdicts"},
        ),
    log:
        "results/logs/verdicts.log",
    benchmark:
        "results/benchmarks/verdicts.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of("scripts/verdicts.py", "twinrun.verdicts.judge"),
    script:
        "../scripts/verdicts.py"


rule report:
    """Write the page: verdicts, figures, method, settings."""
    input:
        templates=TEMPLATES,
        verdicts="results/verdicts.csv",
        datasets=TARGETS.datasets,
        results=TARGETS.read_by_report,
    output:
        page=report(
            "results/report.html",
            caption="../report/report.rst",
            category="Report",
            labels={"figure": "the page to read"},
        ),
    log:
        "results/logs/report.log",
    benchmark:
        "results/benchmarks/report.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=15,
    params:
        source=hash_of(
            "scripts/report.py",
            "twinrun.report.page",
            *(f"twinrun.report.{study}" for study in SETTINGS.studies),
        ),
        config=SETTINGS.config,
        not_run=SETTINGS.not_run,
        templates=lambda wildcards, input: os.path.commonpath(input.templates),
    script:
        "../scripts/report.py"

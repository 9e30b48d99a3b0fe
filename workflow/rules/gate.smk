"""The gate: does what the config requires hold? To results/gate.json."""


rule require:
    """Check everything that `require` names."""
    input:
        verdicts="results/verdicts.csv",
        timings=INPUTS.timings_of_gate,
        matrices=INPUTS.matrices_of_gate,
        runs=INPUTS.runs_of_fingerprint,
        expected=INPUTS.expected_fingerprint,
        rests_on=lambda wildcards: TARGETS.runs(),
    output:
        gate="results/gate.json",
    log:
        "results/logs/require.log",
    benchmark:
        "results/benchmarks/require.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=15,
    params:
        source=hash_of(
            "scripts/require.py",
            "twinrun.gate.gate",
            "twinrun.process.fresh_process",
        ),
        requirements=SETTINGS.config["require"],
        planned=lambda wildcards: PARAMS.planned_of_gate([STANDARD, *CONFIG_FILES]),
        beside=lambda wildcards: modules_beside(PARAMS.modules_in_use, SEARCH_PATH),
    script:
        "../scripts/require.py"


rule gate:
    """Fail unless everything that `require` names holds."""
    input:
        gate="results/gate.json",
    log:
        "results/logs/gate.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        config=PARAMS.hash_of_config(),
    script:
        "../scripts/gate.py"

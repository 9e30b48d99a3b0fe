"""Runs: one training each, in a fresh process, to results/runs/."""


rule train:
    """Train a workload under a variant from a seed, with a fingerprint of every step."""
    input:
        dataset=INPUTS.dataset_of_run,
    output:
        weights="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/weights.safetensors",
        steps="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/steps.csv",
        epochs="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/epochs.csv",
        fingerprints="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/fingerprints.npz",
        predictions="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/predictions.safetensors",
        manifest="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json",
        checksums="results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/SHA256SUMS",
    log:
        "results/logs/train/{workload}/{variant}/seed{seed}/repeat{repeat}.log",
    benchmark:
        "results/benchmarks/train/{workload}/{variant}/seed{seed}/repeat{repeat}.tsv"
    conda:
        "../../envs/training.yaml"
    threads: cores_of_run
    resources:
        **PARAMS.resources_of_devices(),
        # Not a param either: a run is the same, whatever it is ranked by.
        **PARAMS.resource_of_trials(),
        mem_mb=PARAMS.memory_of_run,
        runtime=MINUTES.of_run,
        # A resource, not a param: changing it must not rerun anything.
        checkpoint_minutes=SETTINGS.config["checkpoint_minutes"],
        folders=PARAMS.folders,  # likewise: where they lie is no part of a result
    params:
        source=lambda wildcards: hash_of(
            "scripts/train.py",
            "twinrun.training.run",
            "twinrun.training.train",
            "twinrun.training.failed_run",
            "twinrun.training.trial_metric",
            "twinrun.process.gpu_locks",
            *PARAMS.modules_of_workload(wildcards),
        ),
        imports=lambda wildcards: state_of(RUN.format_map(wildcards), SEARCH_PATH),
        run=PARAMS.settings_of_run,
        # Not an output: those Snakemake deletes before it starts a killed run again.
        checkpoints="results/checkpoints/{workload}/{variant}/seed{seed}/repeat{repeat}",
        versions=versions_of,
        data=PARAMS.data_of_run,
    script:
        "../scripts/train.py"

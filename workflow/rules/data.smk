"""Datasets, made once: results/data/{dataset}.npz and .json (how made, sha256)."""


rule prepare:
    """Make a dataset; made again, it has the same bytes."""
    output:
        arrays="results/data/{dataset}.npz",
        manifest="results/data/{dataset}.json",
    log:
        "results/logs/prepare/{dataset}.log",
    cache: True  # which excludes a benchmark
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
        # A resource, not a param: where the folders lie is no part of a result.
        folders=PARAMS.folders,
    params:
        source=lambda wildcards: hash_of(
            "scripts/prepare.py",
            "twinrun.training.prepare_dataset",
            "twinrun.training.prepare_beside",
            "twinrun.process.import_log",
            "twinrun.process.fresh_process",
            *PARAMS.modules_of_dataset(wildcards),
        ),
        imports=lambda wildcards: state_of(DATASET.format_map(wildcards), SEARCH_PATH),
        make=lambda wildcards: SETTINGS.datasets[wildcards.dataset].make,
        parameters=lambda wildcards: SETTINGS.datasets[wildcards.dataset].parameters,
        # An upgrade may have the function make something else.
        versions=versions_of,
    script:
        "../scripts/prepare.py"

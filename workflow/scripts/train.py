from twinrun.gpus import own_gpus
from twinrun.jobs import job
from twinrun.launching import environment_of, launch
from twinrun.trials import failure_kept

if __name__ == "__main__":
    identity, variant = snakemake.params.identity, snakemake.params.variant
    outputs = dict(snakemake.output.items())
    with (
        job(snakemake, threads=variant["devices"] * variant["threads"]),
        own_gpus(snakemake.params.gpus) as visible,
        failure_kept(snakemake.params.is_trial, identity, snakemake.params.workload, outputs),
    ):
        launch(
            "twinrun.training:train",
            {
                "identity": identity,
                "workload": snakemake.params.workload,
                "variant": variant,
                "dataset": snakemake.params.dataset,
                "source": list(snakemake.input.source),
                "search_path": snakemake.params.search_path,
                "outputs": outputs,
            },
            visible
            | environment_of(
                seed=identity["seed"],
                deterministic=variant["deterministic"],
                threads=variant["threads"],
                further=variant["environment"],
            ),
            workers=variant["devices"],
        )

from twinrun.jobs import job
from twinrun.launching import environment_of, launch

if __name__ == "__main__":
    variant = snakemake.params.variant
    with job(snakemake, threads=variant["devices"] * variant["threads"]):
        launch(
            "twinrun.training:train",
            {
                "identity": snakemake.params.identity,
                "workload": snakemake.params.workload,
                "variant": variant,
                "dataset": snakemake.params.dataset,
                "source": [*snakemake.input.source, *snakemake.input.workload],
                "search_path": snakemake.params.search_path,
                "outputs": dict(snakemake.output.items()),
                "checkpoints": snakemake.params.checkpoints,
                "checkpoint_minutes": snakemake.resources.checkpoint_minutes,
            },
            environment_of(
                seed=snakemake.params.identity["seed"],
                deterministic=variant["deterministic"],
                threads=variant["threads"],
                further=variant["environment"],
            ),
            workers=variant["devices"],
        )

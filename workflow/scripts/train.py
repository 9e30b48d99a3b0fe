from twinrun.jobs import job
from twinrun.running import run

if __name__ == "__main__":
    variant = snakemake.params.variant
    with job(snakemake, threads=variant["devices"] * variant["threads"]):
        run(
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
            }
        )

from twinrun.gpus import own_gpus
from twinrun.jobs import job
from twinrun.running import run
from twinrun.trials import failure_kept

if __name__ == "__main__":
    identity, variant = snakemake.params.identity, snakemake.params.variant
    outputs = dict(snakemake.output.items())
    with (
        job(snakemake, threads=snakemake.params.cores),
        own_gpus(snakemake.params.gpus) as visible,
        failure_kept(snakemake.params.is_trial, identity, snakemake.params.workload, outputs),
    ):
        run(
            {
                "identity": identity,
                "workload": snakemake.params.workload,
                "variant": variant,
                "dataset": snakemake.params.dataset,
                "source_sha256": snakemake.params.source,
                "search_path": snakemake.params.search_path,
                "outputs": outputs,
                "checkpoints": snakemake.params.checkpoints,
                "checkpoint_minutes": snakemake.resources.checkpoint_minutes,
            },
            visible,
        )

from twinrun.process.gpu_locks import own_gpus
from twinrun.process.job import job
from twinrun.training.failed_trial import failure_kept
from twinrun.training.run import run

if __name__ == "__main__":
    settings, outputs = dict(snakemake.params.run), dict(snakemake.output.items())
    is_trial, cores = settings.pop("is_trial"), settings.pop("cores")
    with (
        job(snakemake, threads=cores),
        own_gpus(snakemake.resources.gpu) as visible,
        failure_kept(is_trial, settings["identity"], settings["workload"], outputs),
    ):
        run(
            {
                **settings,
                "source_sha256": snakemake.params.source,
                "search_path": snakemake.params.search_path,
                "outputs": outputs,
                "checkpoints": snakemake.params.checkpoints,
                "checkpoint_minutes": snakemake.resources.checkpoint_minutes,
            },
            visible,
        )

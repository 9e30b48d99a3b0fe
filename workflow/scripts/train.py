from msgspec import convert

from twinrun.config.definitions import Run
from twinrun.process.gpu_locks import own_gpus
from twinrun.process.job import job
from twinrun.training.failed_run import failure_kept
from twinrun.training.run import run

if __name__ == "__main__":
    settings = dict(snakemake.params.run)
    cores = settings.pop("cores")
    asked = convert(
        {
            **settings,
            "source_sha256": snakemake.params.source,
            "files": dict(snakemake.output.items()),
            "checkpoints": snakemake.params.checkpoints,
            "checkpoint_minutes": snakemake.resources.checkpoint_minutes,
        },
        Run,
    )
    with (
        job(snakemake, threads=cores),
        own_gpus(snakemake.resources.gpu) as visible,
        failure_kept(asked),
    ):
        run(asked, visible)

from msgspec import convert

from twinrun.config.definitions import Run
from twinrun.process.gpu_locks import own_gpus
from twinrun.process.import_path import folders_in
from twinrun.process.job import job
from twinrun.training.failed_run import failure_kept
from twinrun.training.run import run
from twinrun.training.trial_metric import say_if_not_logged

if __name__ == "__main__":
    settings = dict(snakemake.params.run)
    cores = settings.pop("cores")
    folders = folders_in(snakemake.resources.folders)
    asked = convert(
        {
            **settings,
            "training": {**settings["training"], "search_path": folders},
            "source_sha256": snakemake.params.source,
            "imports": snakemake.params.imports,
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
        say_if_not_logged(asked, snakemake.resources.get("metric"))

from msgspec import convert

from twinrun.comparison.locate import locate
from twinrun.config.definitions import Replay
from twinrun.process.gpu_locks import on_own_gpus
from twinrun.process.import_path import folders_in
from twinrun.process.job import job
from twinrun.process.side_by_side import side_by_side

if __name__ == "__main__":
    folders = folders_in(snakemake.resources.folders)
    run = convert({**snakemake.params.run, "search_path": folders}, Replay)
    with (
        job(snakemake, threads=run.variant.threads),
        on_own_gpus(snakemake.resources.gpu),
        side_by_side(f"{snakemake.rule} {snakemake.output[0]}", alone=False),
    ):
        locate(
            comparisons=snakemake.input.comparisons,
            run=run,
            output=snakemake.output.location,
            operations=snakemake.output.operations,
        )

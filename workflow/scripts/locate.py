from twinrun.comparison.locate import locate
from twinrun.process.gpu_locks import on_own_gpus
from twinrun.process.job import job

if __name__ == "__main__":
    with (
        job(snakemake, threads=snakemake.params.run["variant"]["threads"]),
        on_own_gpus(snakemake.resources.gpu),
    ):
        locate(
            comparisons=snakemake.input.comparisons,
            run=snakemake.params.run,
            output=snakemake.output.location,
            operations=snakemake.output.operations,
        )

from twinrun.comparison.locate import locate
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake, threads=snakemake.params.run["variant"]["threads"]):
        locate(
            comparisons=snakemake.input.comparisons,
            run=snakemake.params.run,
            output=snakemake.output.location,
            operations=snakemake.output.operations,
        )

from twinrun.jobs import job
from twinrun.locating import locate

if __name__ == "__main__":
    with job(snakemake, threads=snakemake.params.run["variant"]["threads"]):
        locate(
            comparisons=snakemake.input.comparisons,
            run=snakemake.params.run,
            output=snakemake.output.location,
            way=snakemake.output.way,
        )

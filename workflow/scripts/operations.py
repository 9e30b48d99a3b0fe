from twinrun.figures.operations import operations
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        operations(
            snakemake.input.locations,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

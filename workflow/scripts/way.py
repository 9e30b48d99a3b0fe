from twinrun.figures.operations import way
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        way(
            snakemake.input.locations,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

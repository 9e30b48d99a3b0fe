from twinrun.figures.growth import growth
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        growth(
            snakemake.input.comparisons,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

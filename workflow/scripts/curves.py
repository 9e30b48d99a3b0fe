from twinrun.figures.training import curves
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        curves(
            snakemake.input.runs,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

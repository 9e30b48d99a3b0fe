from twinrun.figures.timings import cost
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        cost(
            snakemake.input.timing,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

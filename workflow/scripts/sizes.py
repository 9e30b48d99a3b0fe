from twinrun.figures.devices import sizes
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        sizes(
            snakemake.input.timing,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

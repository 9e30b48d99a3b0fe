from twinrun.figures.acceleration import speeds
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        speeds(
            snakemake.input.timing,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

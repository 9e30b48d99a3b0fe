from twinrun.figures.pairs import layers
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        layers(
            snakemake.input.runs,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

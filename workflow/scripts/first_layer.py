from twinrun.figures.pairs import first_layer
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        first_layer(
            snakemake.input.runs,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

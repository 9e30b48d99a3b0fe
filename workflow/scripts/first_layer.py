from twinrun.figures.pairs import first_layer
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        first_layer(
            snakemake.input.runs,
            variants=snakemake.params.variants,
            output=snakemake.output.figure,
        )

from twinrun.figures.operations import operations
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        operations(
            snakemake.input.locations,
            variants=snakemake.params.variants,
            output=snakemake.output.figure,
        )

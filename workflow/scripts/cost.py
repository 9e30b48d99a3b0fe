from twinrun.figures.style import reason_instead
from twinrun.figures.timings import cost
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        cost(
            snakemake.input.timing,
            variants=snakemake.params.variants,
            output=snakemake.output.figure,
        )

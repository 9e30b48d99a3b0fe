from twinrun.figures.predictions import surfaces
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        surfaces(snakemake.input.runs, names=snakemake.params.names, output=snakemake.output.figure)

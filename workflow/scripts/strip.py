from twinrun.figures.predictions import strip
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        strip(snakemake.input.run, names=snakemake.params.names, output=snakemake.output.figure)

from twinrun.figures.predictions import strip
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        strip(snakemake.input.run, names=snakemake.params.names, output=snakemake.output[0])

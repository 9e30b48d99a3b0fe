from twinrun.figures.training import strip
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        strip(snakemake.input.run, output=snakemake.output[0])

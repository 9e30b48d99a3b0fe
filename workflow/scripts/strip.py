from twinrun.figures.training import strip
from twinrun.jobs import job

if __name__ == "__main__":
    with job(snakemake):
        strip(snakemake.input.run, output=snakemake.output[0])

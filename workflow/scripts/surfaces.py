from twinrun.figures.predictions import surfaces
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        surfaces(snakemake.input.runs, names=snakemake.params.names, output=snakemake.output[0])

from twinrun.figures.devices import surfaces
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        surfaces(snakemake.input.runs, output=snakemake.output[0])

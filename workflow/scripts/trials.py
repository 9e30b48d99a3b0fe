from twinrun.figures.sweep import trials
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        trials(snakemake.input.sweep, output=snakemake.output[0])

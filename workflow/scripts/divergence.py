from twinrun.figures.noise import divergence
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        divergence(snakemake.input.noise, output=snakemake.output.figure)

from twinrun.figures.noise import ladder
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        ladder(snakemake.input.noise, output=snakemake.output.figure)

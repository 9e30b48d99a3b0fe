from twinrun.figures.style import reason_instead
from twinrun.figures.sweep import trials
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        trials(snakemake.input.sweep, output=snakemake.output.figure)

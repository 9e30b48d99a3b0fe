from twinrun.figures.style import reason_instead
from twinrun.figures.sweep import trials
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output[0]):
        trials(snakemake.input.sweep, output=snakemake.output[0])

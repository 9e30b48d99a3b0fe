from twinrun.process.job import job
from twinrun.verdicts.judge import collect

if __name__ == "__main__":
    with job(snakemake):
        collect(snakemake.input.studies, output=snakemake.output.verdicts)

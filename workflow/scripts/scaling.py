from twinrun.process.job import job
from twinrun.timing.epoch_times import summarise

if __name__ == "__main__":
    with job(snakemake):
        summarise(
            snakemake.input.runs,
            epochs=snakemake.output.epochs,
            summary=snakemake.output.summary,
        )

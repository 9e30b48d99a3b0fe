from twinrun.jobs import job
from twinrun.scaling import summarise

if __name__ == "__main__":
    with job(snakemake):
        summarise(
            snakemake.input.runs,
            epochs=snakemake.output.epochs,
            summary=snakemake.output.summary,
        )

from twinrun.figures.datasets import contact_sheet
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        contact_sheet(snakemake.input.dataset, **snakemake.params.shows, output=snakemake.output[0])

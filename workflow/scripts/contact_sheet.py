from twinrun.figures.datasets import contact_sheet
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        contact_sheet(
            snakemake.input.dataset, **snakemake.params.shows, output=snakemake.output.figure
        )

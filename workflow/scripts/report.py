from twinrun.process.job import job
from twinrun.report.page import write_report

if __name__ == "__main__":
    with job(snakemake):
        write_report(
            config=snakemake.params.config,
            not_run=snakemake.params.not_run,
            files=[
                snakemake.input.verdicts,
                *snakemake.input.datasets,
                *snakemake.input.results,
            ],
            templates=snakemake.params.templates,
            output=snakemake.output.page,
        )

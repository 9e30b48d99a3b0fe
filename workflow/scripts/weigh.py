from msgspec import convert

from twinrun.comparison.noise import weigh
from twinrun.config.rule_records import ListedRun
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        weigh(
            convert(snakemake.params.runs, list[ListedRun]),
            workload=snakemake.wildcards.workload,
            variant=snakemake.wildcards.variant,
            seed=snakemake.params.seed,
            left_out=snakemake.params.left_out,
            steps=snakemake.output.steps,
            summary=snakemake.output.summary,
        )

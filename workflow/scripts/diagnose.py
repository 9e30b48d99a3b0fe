from msgspec import convert

from twinrun.comparison.resume_loss import diagnose
from twinrun.config.rule_records import StopPair
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        diagnose(
            convert(snakemake.params.pairs, list[StopPair]),
            workload=snakemake.wildcards.workload,
            variant=snakemake.wildcards.variant,
            seed=snakemake.params.seed,
            folder=snakemake.output.comparisons,
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

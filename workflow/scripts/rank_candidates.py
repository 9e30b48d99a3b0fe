from twinrun.comparison.ranking import rank
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        rank(
            snakemake.input.runs,
            workload=snakemake.wildcards.workload,
            metric=snakemake.params.metric,
            best=snakemake.params.best,
            contestants=snakemake.params.contestants,
            margin=snakemake.params.margin,
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

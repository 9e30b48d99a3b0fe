from twinrun.jobs import job
from twinrun.ranking import rank

if __name__ == "__main__":
    with job(snakemake):
        rank(
            snakemake.input.runs,
            workload=snakemake.wildcards.workload,
            metric=snakemake.params.metric,
            best=snakemake.params.best,
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

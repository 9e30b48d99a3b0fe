from twinrun.comparison.resume_loss import diagnose
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        diagnose(
            snakemake.params.pairs,
            identity={**snakemake.wildcards, "seed": snakemake.params.seed},
            folder=snakemake.output.comparisons,
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

from twinrun.comparison.matrix import tabulate
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        tabulate(
            snakemake.params.cells,
            snakemake.input.cells,
            identity={
                "workload": snakemake.wildcards.workload,
                "baseline": snakemake.params.baseline,
                "seed": snakemake.params.seed,
            },
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

from msgspec import convert

from twinrun.comparison.matrix import tabulate
from twinrun.config.rule_records import ListedCell
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        tabulate(
            convert(snakemake.params.cells, list[ListedCell]),
            snakemake.input.cells,
            workload=snakemake.wildcards.workload,
            baseline=snakemake.params.baseline,
            seed=snakemake.params.seed,
            table=snakemake.output.table,
            summary=snakemake.output.summary,
        )

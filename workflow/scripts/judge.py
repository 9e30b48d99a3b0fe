from twinrun.process.job import job
from twinrun.verdicts.judge import judge

if __name__ == "__main__":
    with job(snakemake):
        judge(
            snakemake.wildcards.study,
            comparisons=snakemake.input.comparisons,
            timings=snakemake.input.timings,
            not_run=snakemake.params.not_run,
            untimed=snakemake.params.untimed,
            workloads=snakemake.params.workloads,
            locations=snakemake.input.locations,
            runs=snakemake.input.runs,
            output=snakemake.output.verdicts,
        )

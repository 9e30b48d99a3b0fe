from twinrun.gate import require
from twinrun.jobs import job

if __name__ == "__main__":
    with job(snakemake):
        require(
            snakemake.params.requirements,
            verdicts=snakemake.input.verdicts,
            timings=snakemake.input.timings,
            matrices=snakemake.input.matrices,
            runs=snakemake.input.runs,
            output=snakemake.output[0],
        )

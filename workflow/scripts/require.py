from msgspec import convert

from twinrun.gate.gate import require
from twinrun.gate.judged import Planned
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        require(
            snakemake.params.requirements,
            verdicts=snakemake.input.verdicts,
            timings=snakemake.input.timings,
            matrices=snakemake.input.matrices,
            runs=snakemake.input.runs,
            rests_on=snakemake.input.rests_on,
            planned=convert(
                {**snakemake.params.planned, "beside": snakemake.params.beside}, Planned
            ),
            output=snakemake.output.gate,
        )

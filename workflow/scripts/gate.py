from twinrun.gate.gate import check
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        check(snakemake.input.gate, snakemake.params.config)

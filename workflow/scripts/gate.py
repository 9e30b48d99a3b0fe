from twinrun.gate import check
from twinrun.jobs import job

if __name__ == "__main__":
    with job(snakemake):
        check(snakemake.input[0])

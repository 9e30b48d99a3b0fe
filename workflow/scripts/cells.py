from twinrun.figures.matrix import cells
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        cells(snakemake.input.matrix, output=snakemake.output[0])

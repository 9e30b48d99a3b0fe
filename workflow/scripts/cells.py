from twinrun.figures.matrix import cells
from twinrun.figures.style import reason_instead
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake), reason_instead(snakemake.output.figure):
        cells(snakemake.input.matrix, output=snakemake.output.figure)

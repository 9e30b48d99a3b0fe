from twinrun.figures.scaling import speedup
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        speedup(
            snakemake.input.scaling,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

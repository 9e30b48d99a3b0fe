from twinrun.figures.ways import way
from twinrun.jobs import job

if __name__ == "__main__":
    with job(snakemake):
        way(
            snakemake.input.locations,
            variants=snakemake.params.variants,
            output=snakemake.output[0],
        )

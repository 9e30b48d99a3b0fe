from twinrun.comparison.compare import compare_seeds
from twinrun.process.job import job

if __name__ == "__main__":
    with job(snakemake):
        compare_seeds(
            snakemake.input.runs,
            summary=snakemake.output.summary,
            tensors=snakemake.output.tensors,
            steps=snakemake.output.steps,
        )

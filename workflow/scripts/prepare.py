from twinrun.process.job import job
from twinrun.training.prepare_dataset import prepare

if __name__ == "__main__":
    with job(snakemake):
        prepare(
            name=snakemake.wildcards.dataset,
            make=snakemake.params.make,
            parameters=snakemake.params.parameters,
            search_path=snakemake.params.search_path,
            arrays=snakemake.output.arrays,
            manifest=snakemake.output.manifest,
        )

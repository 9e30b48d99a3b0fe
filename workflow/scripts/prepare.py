from twinrun.process.import_path import folders_in
from twinrun.process.job import job
from twinrun.training.prepare_dataset import prepare

if __name__ == "__main__":
    with job(snakemake):
        prepare(
            name=snakemake.wildcards.dataset,
            make=snakemake.params.make,
            parameters=snakemake.params.parameters,
            search_path=folders_in(snakemake.resources.folders),
            arrays=snakemake.output.arrays,
            manifest=snakemake.output.manifest,
        )

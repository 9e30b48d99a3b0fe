import os

from twinrun.process.import_log import kept
from twinrun.process.import_path import folders_in
from twinrun.process.import_record import record_imports
from twinrun.process.job import job
from twinrun.training.prepare_dataset import prepare

if __name__ == "__main__":
    with job(snakemake), kept(snakemake.output.manifest, snakemake.params.imports) as log:
        os.environ.update(log)
        record_imports()
        prepare(
            name=snakemake.wildcards.dataset,
            make=snakemake.params.make,
            parameters=snakemake.params.parameters,
            search_path=folders_in(snakemake.resources.folders),
            arrays=snakemake.output.arrays,
            manifest=snakemake.output.manifest,
        )

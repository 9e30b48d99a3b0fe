from twinrun.process.import_log import kept
from twinrun.process.import_path import folders_in
from twinrun.process.job import job
from twinrun.training.prepare_beside import prepare_beside

if __name__ == "__main__":
    with (
        job(snakemake),
        kept(snakemake.output.manifest, snakemake.params.imports) as log,
    ):
        prepare_beside(
            {
                "name": snakemake.wildcards.dataset,
                "make": snakemake.params.make,
                "parameters": snakemake.params.parameters,
                "search_path": folders_in(snakemake.resources.folders),
                "arrays": snakemake.output.arrays,
                "manifest": snakemake.output.manifest,
            },
            log,
        )

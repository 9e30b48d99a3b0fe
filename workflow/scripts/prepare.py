import os
from pathlib import Path

from twinrun.process.import_log import kept
from twinrun.process.import_path import folders_in
from twinrun.process.import_record import record_imports
from twinrun.process.job import job
from twinrun.process.shared_files import leave_out, watch
from twinrun.process.side_by_side import side_by_side
from twinrun.training.prepare_dataset import prepare

if __name__ == "__main__":
    with (
        job(snakemake),
        kept(snakemake.output.manifest, snakemake.params.imports) as log,
        side_by_side(snakemake.rule, alone=False),
    ):
        os.environ.update(log)
        record_imports()
        watch()
        leave_out([str(Path(snakemake.output.arrays).absolute().parent)])
        prepare(
            name=snakemake.wildcards.dataset,
            make=snakemake.params.make,
            parameters=snakemake.params.parameters,
            search_path=folders_in(snakemake.resources.folders),
            arrays=snakemake.output.arrays,
            manifest=snakemake.output.manifest,
        )

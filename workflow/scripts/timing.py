from twinrun.process.gpu_locks import own_gpus
from twinrun.process.import_log import kept
from twinrun.process.import_path import folders_in
from twinrun.process.job import job
from twinrun.process.launching import environment_of, launch
from twinrun.process.side_by_side import side_by_side

if __name__ == "__main__":
    threads = snakemake.params.most_threads
    with (
        job(snakemake, threads=threads),
        own_gpus(snakemake.resources.gpu, alone=True) as visible,
        kept(snakemake.output.summary, snakemake.params.imports) as log,
        side_by_side(f"{snakemake.rule} {snakemake.output[0]}", alone=False),
    ):
        launch(
            "twinrun.timing.measure:measure",
            {
                "name": snakemake.wildcards.timing,
                "timing": snakemake.params.timing,
                "workload": snakemake.params.workload,
                "variants": snakemake.params.variants,
                "dataset": snakemake.params.dataset,
                "search_path": folders_in(snakemake.resources.folders),
                "files": dict(snakemake.output.items()),
            },
            # Each variant sets what its algorithms need: the others shall not pay for it.
            {**visible, **environment_of(seed=1, deterministic=False, threads=threads), **log},
        )

from twinrun.process.job import job
from twinrun.process.launching import environment_of, launch

if __name__ == "__main__":
    threads = snakemake.params.most_threads
    with job(snakemake, threads=threads):
        launch(
            "twinrun.timing.measure:measure",
            {
                "name": snakemake.wildcards.timing,
                "timing": snakemake.params.timing,
                "workload": snakemake.params.workload,
                "variants": snakemake.params.variants,
                "dataset": snakemake.params.dataset,
                "search_path": snakemake.params.search_path,
                "outputs": dict(snakemake.output.items()),
            },
            environment_of(
                seed=1, deterministic=snakemake.params.any_deterministic, threads=threads
            ),
        )

"""A training that fails is a result: its run.json says so, and everything else continues.

An operation without a deterministic form, a learning rate that is refused, a bug in the module: no
other run should be lost for it, and the page says what happened. Kept is the failure of the
training itself, in its one sentence. What ends the job (too few cores, a killed process, a full
disk, a corrupt file) is a failure of the workflow as ever, and the run is made again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from twinrun import artifacts, run_files
from twinrun.config.definitions import Run
from twinrun.errors import JobError, TwinrunError
from twinrun.process.job import say
from twinrun.run_files import settings_of
from twinrun.run_records import FAILED, FailedRun


@contextmanager
def failure_kept(run: Run) -> Iterator[None]:
    """Turn the failure of a training into the run's files: a manifest, and the others empty.

    Args:
        run: what is trained, and where its files go.

    Raises:
        JobError: as it came; the run has no files then.
    """
    try:
        yield
    except JobError:  # the machine's fault: another try may succeed
        raise
    except TwinrunError as error:
        identity, training = run.identity, run.training
        folder = Path(run.files.manifest).parent
        say(
            f"{identity.label}: this training failed, all else continues: {error} (to train it "
            f"again as it is, delete {folder})"
        )
        # Snakemake wants all outputs of a job that ends well; a reader sees `ended` first.
        for name, path in asdict(run.files).items():
            if name not in ("manifest", "checksums"):
                artifacts.write_text(path, "")
        failed = FailedRun(
            workload=identity.workload,
            variant=identity.variant,
            seed=identity.seed,
            repeat=identity.repeat,
            perturbation=identity.perturbation,
            settings=settings_of(training),
            metrics={},
            ended=f"{FAILED}{error}",
        )
        run_files.write_run(run.files, failed)

"""A trial of a sweep that fails is a result: its run.json says so, and the others finish.

Kept is the failure of the training itself, in its one sentence. What ends the job (too few cores, a
killed process, a full disk) is a failure of the workflow as ever, and the trial is run again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from twinrun import artifacts, run_files
from twinrun.config.definitions import Run
from twinrun.errors import TwinrunError
from twinrun.process.job import say
from twinrun.run_files import FAILED


@contextmanager
def failure_kept(is_trial: bool, run: Run) -> Iterator[None]:
    """Turn the failure of a trial's training into its files: a manifest, and the others empty.

    Args:
        is_trial: of any other run the failure is left as it is.
        run: what is trained, and where its files go.
    """
    try:
        yield
    except TwinrunError as error:
        if not is_trial:
            raise
        identity, training = run.identity, run.training
        say(f"{identity.workload}: this trial failed, the others continue: {error}")
        for name, path in asdict(run.files).items():
            if name not in ("manifest", "checksums"):
                artifacts.write_text(path, "")
        run_files.write_run(
            run.files,
            {
                "workload": identity.workload,
                "variant": identity.variant,
                "seed": identity.seed,
                "repeat": identity.repeat,
                "settings": {
                    "workload": asdict(training.workload),
                    "variant": asdict(training.variant),
                },
                "metrics": {},
                "ended": f"{FAILED}{error}",
            },
        )

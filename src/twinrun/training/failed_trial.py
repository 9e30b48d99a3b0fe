"""A trial of a sweep that fails is a result: its run.json says so, and the others finish.

Kept is the failure of the training itself, in its one sentence. What ends the job (too few cores, a
killed process, a full disk) is a failure of the workflow as ever, and the trial is run again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from twinrun import artifacts, run_files
from twinrun.errors import TwinrunError
from twinrun.process.job import say
from twinrun.run_files import FAILED


@contextmanager
def failure_kept(
    is_trial: bool,
    identity: Mapping[str, Any],
    workload: Mapping[str, Any],
    outputs: Mapping[str, str],
) -> Iterator[None]:
    """Turn the failure of a trial's training into its files: a manifest, and the others empty.

    Args:
        is_trial: of any other run the failure is left as it is.
        identity: `workload`, `variant`, `seed`, `repeat` of the run.
        workload: its settings.
        outputs: paths of the run's files, `manifest` and `checksums` among them.
    """
    try:
        yield
    except TwinrunError as error:
        if not is_trial:
            raise
        say(f"{identity['workload']}: this trial failed, the others go on: {error}")
        files = {name: path for name, path in outputs.items() if name != "checksums"}
        for path in files.values():
            artifacts.write_text(path, "")
        settings = {"workload": dict(workload)}
        ended = {"settings": settings, "metrics": {}, "ended": f"{FAILED}{error}"}
        artifacts.write_json(outputs["manifest"], {**identity, **ended})
        run_files.write_checksums(outputs["checksums"], files.values())

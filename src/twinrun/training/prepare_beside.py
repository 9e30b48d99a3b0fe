"""Make a dataset beside other jobs of the working directory; alone, where these disturb it.

Two that one function makes may go through one file of a name (`download.npy`). Who is given
another's is made again while nothing else is (see `side_by_side`).
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from twinrun.errors import JobError, TwinrunError
from twinrun.process.job import say
from twinrun.process.launching import launch
from twinrun.process.side_by_side import (
    is_alone,
    is_of_a_shortened_file,
    keep_alone,
    side_by_side,
)


def prepare_beside(arguments: Mapping[str, object], environment: Mapping[str, str]) -> None:
    """Make a dataset in a process of its own.

    Args:
        arguments: of `prepare_dataset.prepare`.
        environment: variables added to this process's own.

    Raises:
        TwinrunError: see `prepare`, of a dataset that nothing else has disturbed.
    """
    label = f"datasets.{arguments['name']}"
    alone = is_alone(label)
    while True:
        error = None
        with side_by_side(label, alone=alone) as neighbours:
            try:
                launch("twinrun.training.prepare_dataset:prepare", arguments, environment)
            except TwinrunError as failed:
                if isinstance(failed, JobError) and not is_of_a_shortened_file(failed):
                    raise
                error = failed
            is_disturbed = not alone and neighbours.of_others(error) is not None
        if not is_disturbed:
            if error is not None:
                raise error
            return
        for file in ("arrays", "manifest"):
            with suppress(OSError):
                Path(f"{arguments[file]}").unlink()
        say(
            f"{label}: it has used files that another job wrote or removed meanwhile, or failed "
            f"beside it; it is made again, alone, and so from now on"
        )
        keep_alone(label)
        alone = True

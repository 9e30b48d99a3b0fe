"""One run in fresh processes: one, two where the variant has the first of them stopped.

Or two where the first one goes on behind a kill, and fails.
"""

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from twinrun import artifacts
from twinrun.config.definitions import Run
from twinrun.errors import JobError, TwinrunError
from twinrun.process.compiler_cache import own_cache
from twinrun.process.import_log import kept
from twinrun.process.job import say
from twinrun.process.launching import environment_of, launch
from twinrun.process.side_by_side import (
    Neighbours,
    is_alone,
    is_of_a_shortened_file,
    keep_alone,
    side_by_side,
)
from twinrun.run_files import RESUMED
from twinrun.training.remedies import THERE_ALREADY

BEGAN = "began"  # beside the checkpoints: when the first attempt did, in ns


def run(asked: Run, further: Mapping[str, str]) -> None:
    """Train; once more, and alone, what was disturbed by files of a training beside it.

    What fails where it was resumed from a checkpoint is trained from the beginning.

    Args:
        asked: what is trained, and where its files go.
        further: environment variables beside those that belong to the run.

    Raises:
        TwinrunError: if a process fails that began at the beginning; a JobError if that says
            nothing of the training.
    """
    label, workload = asked.identity.label, asked.identity.workload
    alone, is_anew = is_alone(workload), False
    while True:
        began = _began(asked)
        with side_by_side(label, alone=alone, began=began) as neighbours:
            _note(asked, neighbours.since)
            # Alone it is disturbed by who was trained between its attempts.
            is_first = is_anew or began is None
            is_apart = alone and is_first
            others, stale = None, None
            # One that was disturbed, and killed then, has left checkpoints of that.
            if not is_first:
                others, stale = neighbours.of_others(), neighbours.of_attempt()
            if others is None and stale is None:
                others, stale = _disturbed(asked, further, neighbours, alone=alone, is_anew=is_anew)
        if stale is None and (others is None or is_apart):
            return
        if others is not None and not alone:
            alone, again = True, f"it is trained again, alone, and {workload} is so from now on"
            say(f"{label}: {others}; {again}")
            keep_alone(workload)
        else:
            say(f"{label}: {stale or others}; it is trained from the beginning")
        is_anew = True
        shutil.rmtree(asked.checkpoints, ignore_errors=True)
        Path(asked.files.manifest).unlink(missing_ok=True)


def _disturbed(
    asked: Run, further: Mapping[str, str], neighbours: Neighbours, *, alone: bool, is_anew: bool
) -> tuple[str | None, str | None]:
    """Train; return how others have disturbed it, and what it has read of an earlier attempt."""
    error = None
    try:
        _run(asked, further)
    # What a half-written file of another's leads to says nothing of the training.
    except TwinrunError as failed:
        if isinstance(failed, JobError) and not is_of_a_shortened_file(failed):
            raise
        error = failed
    # From the beginning there is no attempt before it.
    others, stale = neighbours.of_others(error), None if is_anew else neighbours.of_attempt()
    if error is not None and stale is None and (alone or others is None):
        raise error
    return others, stale


def _began(asked: Run) -> int | None:
    """Return when the first attempt at a training began, in ns; None if this is that."""
    if _has_checkpoint(asked):
        with suppress(OSError, ValueError):  # all is taken for written since, where nobody knows
            return int(Path(asked.checkpoints, BEGAN).read_text(encoding="ascii"))
        return 0
    # What an attempt left that was killed before its first checkpoint.
    shutil.rmtree(Path(asked.checkpoints, "root"), ignore_errors=True)
    return None


def _note(asked: Run, since: int) -> None:
    artifacts.write_text(Path(asked.checkpoints, BEGAN), str(since))


def _has_checkpoint(asked: Run) -> bool:
    # One that is half written is hidden.
    found = Path(asked.checkpoints).glob("*.ckpt")
    return any(not file.name.startswith(".") for file in found)


def _run(asked: Run, further: Mapping[str, str]) -> None:
    variant = asked.training.variant
    variables = environment_of(
        seed=asked.identity.seed,
        deterministic=variant.deterministic,
        threads=variant.threads,
        further=variant.environment,
    )
    stops = [False]
    if variant.stop != "none":
        # A checkpoint of an earlier attempt would have the training begin behind its stop.
        shutil.rmtree(asked.checkpoints, ignore_errors=True)
        stops = [True, False]
    # Beside the checkpoints lies the trace, also of an attempt that came to none.
    is_resumed = _has_checkpoint(asked)
    Path(asked.checkpoints, RESUMED).unlink(missing_ok=True)
    # One for the whole run: its workers, and the process that resumes it, compile the same.
    with (
        own_cache() as cache,
        kept(asked.files.manifest, asked.imports, goes_on=is_resumed) as log,
    ):
        # A variant's own variables come last: who shares a cache on purpose may.
        environment = {**cache, **further, **variables, **log}
        for is_stopped in stops:
            try:
                _launch(asked, environment, is_stopped=is_stopped)
            except JobError:
                raise
            except TwinrunError as error:
                # A checkpoint of other code or settings is left alone. A failure behind a stop that
                # was asked for is what the study asks for.
                if variant.stop != "none" or not Path(asked.checkpoints, RESUMED).exists():
                    raise
                # Whether the training fails, or only to go on behind a kill, its beginning tells.
                say(
                    f"{asked.identity.label}: {error}; this was resumed from a checkpoint, which "
                    f"is deleted: now it is trained from the beginning"
                )
                shutil.rmtree(asked.checkpoints, ignore_errors=True)
                _launch(asked, environment, is_stopped=is_stopped)
            if Path(asked.files.manifest).exists():
                return  # there was no such point to stop at


def _launch(asked: Run, environment: Mapping[str, str], *, is_stopped: bool) -> None:
    try:
        launch(
            "twinrun.training.train:train",
            {"run": asked, "is_stopped": is_stopped},
            environment,
            workers=asked.training.variant.devices,
            nodes=asked.training.variant.nodes,
        )
    except JobError:
        raise
    except TwinrunError as error:
        if os.strerror(errno.EEXIST) in str(error) and THERE_ALREADY not in str(error):
            raise TwinrunError(f"{error}{THERE_ALREADY}") from error
        raise

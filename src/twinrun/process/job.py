"""What surrounds every job: its output goes to its log, its failure is one sentence.

Snakemake only names the log file: a Python script must write to it by itself. `job` redirects the
file descriptors 1 and 2, so that the output of C++ libraries and child processes is caught too.
When the body fails, `job` prints one sentence on the terminal and ends the process with exit code
1; the traceback and all other output are in the log, which ends with the sentence. On Linux a job
ends when the Snakemake that started it ends, even if that is killed: two processes never write one
result.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from twinrun.errors import JobError, sentence_of
from twinrun.process.parent import ended_with_workflow


class Script(Protocol):
    """What Snakemake gives to a script, as far as it is used here."""

    rule: str
    wildcards: Mapping[str, str]
    log: Sequence[str]
    threads: int
    """Those that it granted."""


@contextmanager
def job(snakemake: Script, *, threads: int = 1) -> Iterator[None]:
    """Run the body of a script with its output in `snakemake.log[0]`.

    Args:
        snakemake: the object that Snakemake gives to a script.
        threads: how many the job needs. Snakemake reduces a request above `--cores` without a
            warning, so they are compared with the threads that it granted.

    Raises:
        SystemExit: with code 1, after any exception in the body.
    """
    name = " ".join([snakemake.rule, *(f"{k}={v}" for k, v in snakemake.wildcards.items())])
    log = Path(snakemake.log[0])
    with _output_into(log), ended_with_workflow():
        try:
            require_threads(threads, granted=snakemake.threads)
            yield
        # Every failure must leave one sentence and its traceback, and so must Ctrl-C.
        except (Exception, KeyboardInterrupt) as error:
            sentence = sentence_of(error)
            with contextlib.suppress(OSError):  # a full disk takes no log either
                traceback.print_exc()
                # For the page that is made without this job's results: see `report.missing`.
                print(f"{name}: {sentence}", file=sys.stderr)
        else:
            return
        say(f"{name}: {sentence} (log: {log})")
    sys.exit(1)


def say(text: str) -> None:
    """Print one line on the terminal from inside a job; outside a job, on stderr."""
    os.write(_terminal or 2, f"{text}\n".encode())


def note(text: str) -> None:
    """Write one line into the log of the job; outside a job there is none."""
    if _terminal is not None:
        os.write(2, f"{text}\n".encode())


def require_threads(needed: int, *, granted: int, of: str = "this job") -> None:
    """Refuse to continue with fewer threads than needed, because the bits depend on them.

    Args:
        needed: by what is named.
        granted: by Snakemake.
        of: what needs them.

    Raises:
        JobError: if fewer threads were granted than needed.
    """
    if granted < needed:
        raise JobError(
            f"{of} needs {needed} threads but was given {granted}: the thread count is part of "
            f"a run's identity, so run with --cores {needed} or more, or lower the variant's "
            f"`threads`"
        )


_terminal: int | None = None  # the descriptor of the stderr from before `_output_into`


@contextmanager
def _output_into(log: Path) -> Iterator[None]:
    """Redirect the file descriptors 1 and 2 to `log` during the body."""
    global _terminal
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _terminal = saved[1]
    try:
        yield
    finally:
        _terminal = None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # a full disk takes no log either
                stream.flush()
        for target, copy in enumerate(saved, start=1):
            os.dup2(copy, target)
            os.close(copy)

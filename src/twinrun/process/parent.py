"""A process that ends when the one that started it ends, even if that is killed; on Linux alone.

The system is told by `prctl`, and only tells of what happens later: a job that is still importing
when its Snakemake is killed would live on, and write beside its successor. So each process looks
once more, behind that call, whether who started it is there.
See https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WORKFLOW = "TWINRUN_WORKFLOW"  # names the Snakemake whose jobs inherit the variable
STARTED_BY = "TWINRUN_STARTED_BY"  # names the process that launches another one

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def name_workflow() -> None:
    """Have the jobs of this Snakemake know it."""
    os.environ[WORKFLOW] = this_process()


def this_process() -> str:
    """Name this process among those that it can be confused with: a container has its own."""
    return f"{os.getpid()} {_namespace()}"


@contextmanager
def ended_with_workflow() -> Iterator[None]:
    """Have this process end with the Snakemake that started it, during the body."""
    if sys.platform != "linux":
        yield
        return
    _ask(signal.SIGKILL)
    if (workflow := os.environ.get(WORKFLOW)) is not None and not _is_above(workflow):
        os._exit(1)
    try:
        yield
    finally:
        _ask(0)


def end_with_parent(parent: str | None) -> None:
    """Have this process end with the one that started it.

    Args:
        parent: what `this_process` said there; None where another program starts it (srun, say).
    """
    if sys.platform != "linux":
        return
    _ask(signal.SIGKILL)
    if parent is not None and parent != f"{os.getppid()} {_namespace()}":
        os._exit(1)


def _ask(number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _namespace() -> str:
    # A process ID says nothing in another namespace of them.
    link = Path("/proc/self/ns/pid")
    return str(link.readlink()) if link.is_symlink() else ""


def _is_above(workflow: str) -> bool:
    """Say whether a process is the parent of this one, or a parent's; of another world, yes."""
    pid, _, namespace = workflow.partition(" ")
    if namespace != _namespace() or os.getppid() == int(pid):
        return True
    import psutil  # a shell is between them (`--sdm conda`): rare, and not for each job to import

    return int(pid) in [parent.pid for parent in psutil.Process().parents()]

"""How busy the machine is, and what of that is this process's own.

A clock on the wall counts what other jobs take, too. The kernel says how long threads that could
run had no core (`schedstat`), and how long all cores were busy. Neither says what neighbours cost
that share caches, memory or the clock rate. Does without torch.
"""

import contextlib
from pathlib import Path
from typing import NamedTuple

import psutil


class Load(NamedTuple):
    """Seconds since the start of the process, or of the machine: only differences mean anything."""

    waited: float | None
    """In which threads of this process could run and had no core, all threads together; None where
    the system does not count them. Threads that have ended are not in it."""
    busy: float
    """In which cores of the machine were busy, or taken by its host, all cores together."""
    own: float
    """In which cores worked for this process and those that it has started."""


def load(threads: Path = Path("/proc/self/task")) -> Load:
    """Read the counters.

    Args:
        threads: the folder in which Linux lists this process's threads.
    """
    times = psutil.cpu_times()
    # `guest` is in `user` already, and waiting for a disk is no work.
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return Load(_waited(threads), sum(getattr(times, name, 0.0) for name in names), _own())


def others(before: Load, after: Load, seconds: float) -> float:
    """Return how many cores were busy with other processes, on average over so many seconds.

    >>> others(Load(0.0, 100.0, 10.0), Load(0.0, 115.0, 20.0), 10.0)
    0.5
    """
    # The counters are rounded to hundredths: a difference of two may fall below 0.
    left = (after.busy - before.busy) - (after.own - before.own)
    return max(left, 0.0) / seconds if seconds > 0 else 0.0


def waited(before: Load, after: Load) -> float | None:
    """Return the seconds in which threads had no core between two readings; None if unknown."""
    if before.waited is None or after.waited is None:
        return None
    return max(after.waited - before.waited, 0.0)


def _waited(threads: Path) -> float | None:
    """Sum up what Linux calls run delay: https://docs.kernel.org/scheduler/sched-stats.html."""
    found = []
    with contextlib.suppress(OSError):
        for thread in threads.iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):  # one that ends just now
                found.append(int((thread / "schedstat").read_text().split()[1]))
    return sum(found) / 1e9 if found else None


def _own() -> float:
    process, seconds = psutil.Process(), 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = one.cpu_times()
            # Of children that have ended, the system adds up what they took.
            seconds += times.user + times.system
            seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return seconds

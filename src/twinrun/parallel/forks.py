"""A pause before a worker forks, in which gloo's threads end what they have to do with Python.

Where such a thread calls a hook of DDP's, or lets go of the last tensor of an exchange, it makes a
thread state. In Python 3.11 a process that is forked in this moment finds a lock taken that nobody
will give back, or half of that state: a data worker then waits before its first line, or crashes,
and all workers wait for its batches. Behind an exchange the threads need microseconds, but a
processor.
"""

import functools
import os
import time

PAUSE_SECONDS = 0.01


@functools.cache  # what was registered stays
def pause_before_forks() -> None:
    """Have this process wait before each fork, with no lock of Python's in its hands."""
    os.register_at_fork(before=_pause)


def _pause() -> None:
    time.sleep(PAUSE_SECONDS)

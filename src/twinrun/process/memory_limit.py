"""Have an allocation fail that this machine has no memory for.

Linux promises memory that it does not have, and kills the process that uses it. Where one of
several measurements may be too large, an error is wanted instead, so that the others go on.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Bound this process's data to what it has and what is available; does nothing off Linux.

    Bounds threads' stacks and shared libraries' data too, but neither files nor device memory.
    """
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + psutil.virtual_memory().available
    most = before[1] if before[1] != resource.RLIM_INFINITY else bound
    resource.setrlimit(resource.RLIMIT_DATA, (min(bound, most), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)

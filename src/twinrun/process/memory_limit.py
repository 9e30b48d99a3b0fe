"""Let an allocation fail if this machine has no memory for it.

Linux grants more memory than it has, and kills the process that uses it (overcommit,
https://docs.kernel.org/mm/overcommit-accounting.html). Where one of several measurements may be too
large, an error is better: the other measurements continue.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit this process's data segment to its present size plus the available memory, on Linux.

    The limit includes the stacks of threads and the data of shared libraries (RLIMIT_DATA), but
    neither mapped files nor device memory. On other systems nothing is limited.
    """
    if sys.platform != "linux":
        yield
        return
    # Not RLIMIT_AS: CUDA and the compiler map far more addresses than they use memory.
    before = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + psutil.virtual_memory().available
    most = before[1] if before[1] != resource.RLIM_INFINITY else bound
    resource.setrlimit(resource.RLIMIT_DATA, (min(bound, most), before[1]))
    try:
        yield
    finally:
        # The process measures on, and other measurements need what this one may not.
        resource.setrlimit(resource.RLIMIT_DATA, before)

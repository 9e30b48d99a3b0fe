"""GPUs for a job that no other job has, as long as it lasts: a lock file for each GPU.

Snakemake's `--resources gpu=K` says how many jobs on GPUs run side by side, but not which GPU is
whose. A job takes the first that are free, or waits; the locks end with the process that holds
them, killed or not. They hold between all workflows of a user on one machine. To have jobs share,
set TWINRUN_JOBS_PER_GPU to how many (and `gpu=K` to as many times the GPUs).
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import IO

from twinrun.process.environment import visible_gpus
from twinrun.process.job import say

RETRY_SECONDS = 1.0


@contextmanager
def own_gpus(number: int) -> Iterator[dict[str, str]]:
    """Give the environment in which a process sees so many GPUs of its own, and no others.

    Where there are not so many, or none of NVIDIA's, nothing is taken: the training says so.
    """
    visible = visible_gpus() if number else []
    if not number or number > len(visible):
        yield {}
        return
    locks = _lock(number, visible)
    if locks is None:
        say(f"waiting for {number} of {len(visible)} GPUs to be free")
    while locks is None:
        time.sleep(RETRY_SECONDS)
        locks = _lock(number, visible)
    with ExitStack() as held:
        for file in locks.values():
            held.enter_context(file)
        yield {"CUDA_VISIBLE_DEVICES": ",".join(locks)}


def _lock(number: int, visible: list[str]) -> dict[str, IO[str]] | None:
    """Lock the first free GPUs, or none if there are too few: two jobs never wait in a ring."""
    folder = Path(tempfile.gettempdir(), f"twinrun-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    locks: dict[str, IO[str]] = {}
    for place, gpu in product(range(int(os.environ.get("TWINRUN_JOBS_PER_GPU", "1"))), visible):
        if len(locks) < number and gpu not in locks:
            file = (folder / f"{gpu}.{place}").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locks[gpu] = file
            except BlockingIOError:
                file.close()
    if len(locks) == number:
        return locks
    for file in locks.values():
        file.close()
    return None

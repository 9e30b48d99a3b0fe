"""Choose GPUs for a job that no other job uses while it runs: one lock file per GPU.

Snakemake's `--resources gpu=K` limits how many GPU jobs run side by side, but does not say which
GPU a job gets (https://github.com/snakemake/snakemake/issues/281). A job takes the first free GPUs,
or waits. The locks end with the process that holds them, even if it is killed. They apply to all
workflows of one user on one machine. To let N jobs use one GPU, set TWINRUN_JOBS_PER_GPU to N, and
`gpu=K` to N times the number of GPUs.
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
    """Yield environment variables by which a process sees `number` GPUs of its own, and no others.

    With fewer GPUs, or none of NVIDIA's, nothing is locked and the mapping is empty: the training
    then reports what it misses.
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
    """Lock the first free GPUs, or none if there are too few, so that two jobs never deadlock."""
    folder = Path(tempfile.gettempdir(), f"twinrun-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    locks: dict[str, IO[str]] = {}
    for slot, gpu in product(range(int(os.environ.get("TWINRUN_JOBS_PER_GPU", "1"))), visible):
        if len(locks) < number and gpu not in locks:
            file = (folder / f"{gpu}.{slot}").open("w")
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

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, product
from pathlib import Path
from typing import IO
from urllib.parse import quote

from twinrun.process.gpus import Gpus, visible_gpus
from twinrun.process.job import say

RETRY_SECONDS = 1.0


@contextmanager
def own_gpus(number: int, *, alone: bool = False) -> Iterator[dict[str, str]]:
    """Yield environment variables by which a process sees `number` GPUs of its own, and no others.

    With fewer GPUs, or none of NVIDIA's or AMD's, nothing is locked and the mapping is empty: the
    training then reports what it misses.

    Args:
        number: of GPUs.
        alone: share none of them, even where jobs may, as what measures seconds must not.
    """
    visible = visible_gpus() if number else Gpus()
    if not number or number > len(visible.names):
        yield {}
        return
    locks = _lock(number, visible, alone=alone)
    if locks is None:
        say(f"waiting for {number} of {len(visible.names)} GPUs to be free")
    while locks is None:
        time.sleep(RETRY_SECONDS)
        locks = _lock(number, visible, alone=alone)
    with ExitStack() as held:
        for file in chain.from_iterable(locks.values()):
            held.enter_context(file)
        yield {visible.variable: ",".join(locks)}


@contextmanager
def on_own_gpus(number: int, *, alone: bool = False) -> Iterator[None]:
    """Let the processes that are started in the body see `number` GPUs of their own, and no others.

    See `own_gpus`, for a body that does not hand environment variables on.
    """
    with own_gpus(number, alone=alone) as variables:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def _lock(number: int, visible: Gpus, *, alone: bool = False) -> dict[str, list[IO[str]]] | None:
    """Lock the first free GPUs, or none if there are too few, so that two jobs never deadlock."""
    folder = Path(tempfile.gettempdir(), f"twinrun-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    slots = range(int(os.environ.get("TWINRUN_JOBS_PER_GPU", "1")))
    locks: dict[str, list[IO[str]]] = {}
    # The least used first: the first slot of every GPU before the second of any.
    for taken, gpu in product([slots] if alone else [[slot] for slot in slots], visible.names):
        if len(locks) < number and gpu not in locks:
            # A UUID has no slash, but a variable may hold anything.
            name = quote(visible.locked_as[gpu], safe="")
            found = _lock_all([folder / f"{name}.{slot}" for slot in taken])
            if found is not None:
                locks[gpu] = found
    if len(locks) == number:
        return locks
    for file in chain.from_iterable(locks.values()):
        file.close()
    return None


def _lock_all(paths: Sequence[Path]) -> list[IO[str]] | None:
    """Lock all these files, or none."""
    files: list[IO[str]] = []
    for path in paths:
        files.append(path.open("w"))
        try:
            fcntl.flock(files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            for file in files:
                file.close()
            return None
    return files

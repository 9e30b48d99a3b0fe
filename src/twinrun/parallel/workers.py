"""The worker processes of one run, and what they say to each other.

`launching` starts them; here they meet (torch.distributed: gloo on CPUs, NCCL for the gradients on
GPUs) and exchange small things: shards, losses, a request to stop. Sums over workers are taken
everywhere from the same gathered values in the same order, so every worker gets the same bits. A
run of one process is a group of one that exchanges nothing.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from twinrun.errors import JobError
from twinrun.parallel.forks import pause_before_forks


class Workers:
    """This worker, its shard of the mini-batch under way, and the others."""

    def __init__(self, rank: int = 0, count: int = 1, group: Any = None) -> None:
        self.rank = rank
        self.count = count
        self.sizes = [0] * count
        """Every worker's shard of the mini-batch under way, in samples."""
        self.seconds = 0.0
        """Spent in exchanging, waiting for the others included."""
        self._group = group

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that writes and speaks for all."""
        return self.rank == 0

    @property
    def shard(self) -> int:
        """How many samples of the mini-batch under way are this worker's."""
        return self.sizes[self.rank]

    @property
    def weight(self) -> float:
        """This worker's weight in the mini-batch under way, m_j / M."""
        return self.shard / sum(self.sizes)

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """Return every worker's values to everyone: (k,) on the CPU to (N, k)."""
        if self.count == 1:
            return values[None]
        # Gathered, not reduced: in which order a reduction adds is left to the backend.
        found = [torch.empty_like(values) for _ in range(self.count)]
        with self._clock():
            dist.all_gather(found, values, group=self._group)
        return torch.stack(found)

    def collect(self, value: object) -> list[Any]:
        """Return every worker's picklable value to the first, an empty list to the others.

        Sent one by one, which for a few workers takes a fifth of the time of gather_object.
        """
        found = [value]
        with self._clock():
            if not self.is_first:
                dist.send_object_list(found, dst=0, group=self._group)
                return []
            for rank in range(1, self.count):
                received = [None]
                dist.recv_object_list(received, src=rank, group=self._group)
                found += received
        return found

    def everyones(self, value: object) -> list[Any]:
        """Return every worker's picklable value to everyone."""
        if self.count == 1:
            return [value]
        found = [None] * self.count
        with self._clock():
            dist.all_gather_object(found, value, group=self._group)
        return found

    def first(self, value: object) -> Any:
        """Return the first worker's picklable value to everyone."""
        if self.count == 1:
            return value
        found = [value]
        with self._clock():
            dist.broadcast_object_list(found, group=self._group)
        return found[0]

    @contextmanager
    def _clock(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started


@contextmanager
def connected(*, devices: int, nodes: int, accelerator: str) -> Iterator[Workers]:
    """Meet the other workers of this run.

    Raises:
        JobError: if there are more or fewer than the variant's devices.
    """
    # Not by WORLD_SIZE alone, which another launcher may have set.
    count = int(os.environ["WORLD_SIZE"]) if "TWINRUN_MEETING" in os.environ else 1
    if count != devices:
        raise JobError(f"devices: the variant wants {devices} workers, but {count} started")
    if count == 1:
        yield Workers()
        return
    rank = int(os.environ["RANK"])
    if sys.platform == "linux" and nodes == 1:
        # gloo would look up the host's name, which may not resolve.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    pause_before_forks()
    dist.init_process_group(
        "nccl" if accelerator == "gpu" else "gloo",
        init_method=os.environ["TWINRUN_MEETING"],
        rank=rank,
        world_size=count,
    )
    # NCCL carries tensors on GPUs only, and small things are on the host.
    group = dist.new_group(backend="gloo") if accelerator == "gpu" else dist.group.WORLD
    yield Workers(rank, count, group)
    # Not after an exception: NCCL would wait for those that have gone.
    dist.destroy_process_group()

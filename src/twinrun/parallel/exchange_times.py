"""When workers exchange: points in time on a CPU or GPU, and how long intervals are together."""

import time
from collections.abc import Sequence
from typing import TypeAlias

import torch

Mark: TypeAlias = float | torch.cuda.Event
"""A point in time: in seconds, or where a GPU comes to it."""


def mark(device: torch.device) -> Mark:
    """Take the time, on a GPU the time at which it comes to this point."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def in_seconds(intervals: Sequence[tuple[Mark, Mark]]) -> list[tuple[float, float]]:
    """Return begin and end of each interval in seconds, counted from any one point."""
    seconds = [(a, b) for a, b in intervals if isinstance(a, float) and isinstance(b, float)]
    if len(seconds) == len(intervals):
        return seconds
    # An event has no time before the GPU has come to it.
    torch.cuda.synchronize()
    event = torch.cuda.Event
    events = [(a, b) for a, b in intervals if isinstance(a, event) and isinstance(b, event)]
    base = events[0][0]
    return [(base.elapsed_time(a) / 1000, base.elapsed_time(b) / 1000) for a, b in events]


def covered(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the length that intervals cover together.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    # Exchanges of several buckets overlap: their plain sum would count a second twice.
    length, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        length += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return length

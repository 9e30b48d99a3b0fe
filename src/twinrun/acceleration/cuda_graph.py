"""A training step captured as a CUDA graph and replayed as one launch.

What the step computes on the device is recorded once for each shape of batch and replayed with
the next batch copied over the recorded one. Python does not run in a replay: the batch's index and
whatever the module keeps in Python numbers stay what they were at the capture. Random numbers go
on, since torch advances its generator for every replay.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


class CudaGraph:
    """Replays a step; the first calls for each shape run it uncaptured, as torch asks for."""

    WARM_UP_CALLS: ClassVar[int] = 3
    CALLS_TO_WARM_UP: ClassVar[int] = WARM_UP_CALLS + 1

    def __init__(self, step: Callable[[Any, int], torch.Tensor]) -> None:
        self._step = step
        self._warm: dict[Any, int] = {}
        self._captured: dict[Any, tuple[torch.cuda.CUDAGraph, list[Any], torch.Tensor]] = {}

    def __call__(self, batch: Any, index: int) -> torch.Tensor:
        """Do a step and give its loss, in a tensor that the next replay overwrites."""
        leaves, structure = tree_flatten(batch)
        key = (structure, *map(_signature, leaves))
        warm = self._warm.get(key, 0)
        if warm < self.WARM_UP_CALLS:
            self._warm[key] = warm + 1
            return self._aside(batch, index)
        if key not in self._captured:
            self._captured[key] = self._capture(leaves, structure, index)
        graph, recorded, loss = self._captured[key]
        for target, leaf in zip(recorded, leaves, strict=True):
            if isinstance(leaf, torch.Tensor):
                target.copy_(leaf, non_blocking=True)
        graph.replay()
        return loss

    def _aside(self, batch: Any, index: int) -> torch.Tensor:
        """Run the step on a stream of its own, where allocations for the capture are warmed up."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._step(batch, index)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _capture(
        self, leaves: list[Any], structure: Any, index: int
    ) -> tuple[torch.cuda.CUDAGraph, list[Any], torch.Tensor]:
        """Record the step without doing it."""
        recorded = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self._step(tree_unflatten(recorded, structure), index)
        return graph, recorded, loss


def _signature(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype, leaf.stride()) if isinstance(leaf, torch.Tensor) else leaf

"""A training step captured as a CUDA graph and replayed as one launch.

What the step computes on the device is recorded once for each shape of batch and replayed with
the next batch copied over the recorded one. Random numbers are new in each replay, since torch
advances its generator. Python does not run in a replay, so that what Python decides must not
change: batches whose other content changes are refused, as are logged Python numbers; settings of
the optimizer that are no tensors are part of what a graph is recorded for. Where layers, memory,
modes or hooks become others (`recorded_parts`), a step is done as it is, and the next one recorded
anew. What else a module keeps in Python (a counter, the epoch) a replay does not see: the proof
compares its steps (`acceleration.proof`), and a run is in doubt (`training.late_in_replays`).

https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

import gc
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map_only, tree_unflatten

from twinrun.acceleration.compilation import CannotCompile
from twinrun.errors import TwinrunError, sentence_of

Result = TypeVar("Result")
# What says of itself what helps, in a capture as elsewhere.
KEPT = (*CannotCompile, torch.OutOfMemoryError)


@dataclass(frozen=True, kw_only=True)
class _Captured(Generic[Result]):
    """A recorded step."""

    replay: Callable[[], None]
    """Does the recorded step again, on what lies in the recorded batch by then."""
    batch: list[object]
    """The leaves of the recorded batch; its tensors are what a replay reads."""
    result: Result
    """What the step returned; its tensors are what a replay writes."""
    baked: Hashable
    """What must not have changed for a replay to be the step."""


class CudaGraph(Generic[Result]):
    """Replays a step; the first calls for each shape run it uncaptured, as torch asks for."""

    # The default of `torch.cuda.make_graphed_callables`.
    WARM_UP_CALLS: ClassVar[int] = 3
    CALLS_TO_WARM_UP: ClassVar[int] = WARM_UP_CALLS + 1

    def __init__(
        self,
        step: Callable[[object, int], Result],
        baked: Callable[[], Hashable],
        changes: Callable[[], int] = lambda: 0,
    ) -> None:
        """Capture nothing yet.

        Args:
            step: does a whole step in place; what it returns holds tensors of its own.
            baked: says what a recording takes for granted; where it changes, the step is recorded
                anew.
            changes: counts how often what a replay has of the module has become another.
        """
        self._step, self._baked, self._changes = step, baked, changes
        self._parts: dict[Hashable, int] = {}
        self._warm: dict[Hashable, int] = {}
        self._captured: dict[Hashable, _Captured[Result]] = {}

    def __call__(self, batch: object, index: int) -> Result:
        """Do a step and return what it returns, in tensors that no later replay overwrites.

        Raises:
            TwinrunError: if what is no tensor in the batch has changed.
        """
        leaves, structure = tree_flatten(batch)
        # A replay reads fixed addresses: it fits batches of one structure, shape and stride only.
        key = (structure, *map(_signature, leaves))
        warm, parts = self._warm.get(key, 0), self._changes()
        if self._parts.setdefault(key, parts) != parts:
            # A first call may ask for memory, or read back: once uncaptured, as others are warmed.
            self._parts[key] = parts
            self._captured.pop(key, None)
            warm = min(warm, self.WARM_UP_CALLS - 1)
        if warm < self.WARM_UP_CALLS:
            self._warm[key] = warm + 1
            return aside(lambda: self._step(batch, index))
        captured = self._captured.get(key)
        if captured is None or captured.baked != self._baked():
            captured = self._captured[key] = self._capture(leaves, structure, index)
        for target, leaf in zip(captured.batch, leaves, strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(target, torch.Tensor):
                # On the stream of the replay, which so waits for the copy.
                target.copy_(leaf, non_blocking=True)
            elif not _is_same(target, leaf):
                raise TwinrunError(
                    f"cuda_graph: a batch holds a {type(leaf).__name__} that changes from step to "
                    f"step, which a replay does not see; make it a tensor, or leave cuda_graph out"
                )
        # Even a step that was just recorded: a capture records launches and runs none of them.
        captured.replay()
        # The next replay writes to the same memory; a caller may keep a loss for longer.
        return tree_map_only(torch.Tensor, torch.clone, captured.result)

    @property
    def recordings(self) -> list[object]:
        """What is replayed: an object for each recording, of which a new one is another."""
        return [*self._captured.values()]

    def _capture(self, leaves: list[object], structure: TreeSpec, index: int) -> _Captured[Result]:
        # Clones, since the memory of a loader's batch is given to others.
        recorded = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
        baked = self._baked()
        failures: list[Exception] = []

        def step() -> Result:
            try:
                return self._step(tree_unflatten(recorded, structure), index)
            except Exception as error:
                failures.append(error)
                raise

        try:
            replay, result = record(step)
        except Exception as error:
            # Leaving a capture that was broken raises another error, which would hide the first.
            first = failures[0] if failures else error
            # torch's are RuntimeErrors. Others the step has raised by itself, for its own reasons.
            if not isinstance(first, RuntimeError) or isinstance(first, KEPT):
                raise first from None
            raise TwinrunError(
                f"cuda_graph: the step cannot be captured ({sentence_of(first)}); a captured step "
                f"reads no value back (.item(), nonzero, a boolean mask, an if over a tensor) and "
                f"copies nothing from the CPU: compute with tensors on the GPU, or leave "
                f"cuda_graph out"
            ) from first
        return _Captured(replay=replay, batch=recorded, result=result, baked=baked)


def record(step: Callable[[], Result]) -> tuple[Callable[[], None], Result]:
    """Record what a step launches, without doing it; return the replay and the step's result."""
    graph = torch.cuda.CUDAGraph()
    # What Python frees meanwhile (an older graph, memory of another stream) may ask CUDA for what
    # no capture survives: one of some 150 captures was lost on an H100.
    gc.collect()
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        result = _captured(graph, step)
    finally:
        if was_collecting:
            gc.enable()
    return graph.replay, result


def _captured(graph: torch.cuda.CUDAGraph, step: Callable[[], Result]) -> Result:
    # It sets a side stream of its own, since the default stream cannot be captured.
    # Other threads may go on: a loader's that pins memory would end the capture of a "global" mode.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        return step()


def aside(step: Callable[[], Result]) -> Result:
    """Do a step on a stream of its own, where allocations for the capture are warmed up."""
    stream = torch.cuda.Stream()
    # The batch and the last update may still be under way on the current stream.
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = step()
    torch.cuda.current_stream().wait_stream(stream)
    return result


def _signature(leaf: object) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.dtype, leaf.stride()
    return type(leaf)


def _is_same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):  # an array, say, has no one answer
        return False

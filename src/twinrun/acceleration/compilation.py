"""Compiled functions that count their calls, their compilations and why they compiled again.

Random numbers are those of the plain step: torch's own generator draws them, in the same order
(`fallback_random`; its compiler would draw others). Each shape of batch has a graph of its own, up
to MOST_SHAPES; more share one for any shape. So what a graph computes does not depend on which
shapes came before it, and a resumed training compiles what the whole one compiled.

A Python number that changes is compiled for anew; where one changes all the time, the function is
restless. The counts are torch's own: a call during which its compiler made a graph is a
compilation, and every other one reused what was there.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch.utils._pytree import tree_leaves

from twinrun.acceleration import vector_probe
from twinrun.acceleration.added_guards import traced_with_guards
from twinrun.acceleration.bounded_queues import traced_with_their_bound
from twinrun.acceleration.own_copies import copy_of
from twinrun.acceleration.torch_reasons import told_since_last
from twinrun.acceleration.unguarded import Unguarded
from twinrun.run_records import CompilationCounts

COMPILATIONS_AT_MOST = 64  # of one shape: where a Python number differs in every call, no more
# An epoch has two shapes as a rule: whole mini-batches and a partial last one.
MOST_SHAPES = 8  # with graphs of their own
MOST_GRAPHS = 8  # of one shape, before a compiled function is called restless
# Not public: whether torch's tracer can follow `torch.autograd.grad` into a graph.
CAN_COMPILE_BACKWARD = hasattr(config, "trace_autograd_ops")
# What torch raises where it cannot trace or compile a function. Nothing of it has run by then.
CannotCompile = (TorchDynamoException, FailOnRecompileLimitHit)
# Eager mode's random numbers: https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
SAME_RANDOM_NUMBERS = {"fallback_random": True}

TENSORIFY = "TENSORIFY_PYTHON_SCALARS"

Shapes = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Of each tensor of a batch, its shape and its strides."""

_generates_code = True


@contextmanager
def compiler_switches() -> Iterator[None]:
    """Compile for what there is and nothing else, and fail where torch would continue uncompiled.

    A Python number that changes is compiled for anew. Else torch turns it into a tensor, and the
    pass that does so (in torch 2.13) drops what a function does in place to a float64 tensor
    without dimensions, a buffer or an optimizer's count of steps: its old value stays, and nothing
    says so. The pass has a switch in the environment only; what it noted before is in effect
    without it, and torch's cache of traces does not tell one from the other.
    """
    limit = {"recompile_limit": COMPILATIONS_AT_MOST, "fail_on_recompile_limit_hit": True}
    before = os.environ.get(TENSORIFY)
    os.environ[TENSORIFY] = "0"
    # Its notes are the class's, and so those of every earlier training in this process.
    TensorifyState.clear()
    try:
        with (
            # A hook on a layer that is added under way must be seen: torch's default looks at none.
            config.patch({"specialize_float": True, "skip_nnmodule_hook_guards": False, **limit}),
            # The cache of traces may hold one that was made with the pass.
            functorch_config.patch({"enable_autograd_cache": False}),
            traced_with_their_bound(),
            traced_with_guards(),
        ):
            yield
    finally:
        # Code that is compiled elsewhere in this process must find the switch as torch sets it.
        _Backward.trace(False)
        del os.environ[TENSORIFY]
        if before is not None:
            os.environ[TENSORIFY] = before


@contextmanager
def traced_only() -> Iterator[None]:
    """Trace what is compiled, but run its operations one by one, without generating code.

    What a trace gets wrong (a number, a hook, a parameter that it takes for granted) shows all the
    same, and tracing takes a second where generating code takes ten.
    """
    global _generates_code
    from torch._inductor import config  # slow to import, and only where something is proven

    before, _generates_code = _generates_code, False
    try:
        # The tracer asks the generator's settings whether a number that nothing uses is drawn.
        with config.patch(SAME_RANDOM_NUMBERS):
            yield
    finally:
        _generates_code = before


@cache
def wake_compiler(device_type: str) -> None:
    """Have torch compile something, so that no variant pays for what it does once.

    Once a process it loads its compiler; once a machine it tries instruction sets and prepares C++
    headers, which takes 20 s on 2 cores and stays in the machine's cache.
    """
    # Any function will do; the tensor's device decides which code generator is loaded.
    torch.compile(lambda tensor: tensor + 1)(torch.ones(8, device=device_type))


@contextmanager
def empty_cache() -> Iterator[None]:
    """Compile as if nothing had been compiled before, on this machine and in this process."""
    from torch._inductor.utils import fresh_cache  # imports the whole compiler

    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder, fresh_cache(dir=folder):
        yield


class _Backward:
    """Whether torch's tracer follows `torch.autograd` into a graph.

    It must for a step in one piece, and must not for any other: where a backward pass is a function
    of its own (in manual optimization, after a graph break), torch 2.13 then computes gradients and
    keeps none, so that nothing is trained.
    """

    is_traced = False

    @classmethod
    def trace(cls, is_traced: bool) -> None:
        """Switch it; torch's own switch takes as long to read as a small step's loss to compute."""
        # Without the switch `steps.check` refuses compile: step, the only setting that needs it.
        if CAN_COMPILE_BACKWARD:
            config.trace_autograd_ops = is_traced
        cls.is_traced = is_traced


class Compiled:
    """A function of a batch and more, compiled by torch, with its counts."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        features_first: bool = False,
        fullgraph: bool = False,
    ) -> None:
        """Compile at the first call with each shape.

        Args:
            function: a plain function whose first argument is the batch.
            features_first: compile matrix products of many points as loops over them.
            fullgraph: trace the backward pass, too, and fail where the function does not compile
                into one graph.
        """
        self._function = function
        self._options: Any = {**_backend(features_first=features_first), "fullgraph": fullgraph}
        self._is_whole = fullgraph
        self._of_shapes: dict[Shapes | None, Callable[..., object]] = {}
        self._graphs: Counter[Shapes] = Counter()
        self._unguarded: Unguarded | None = None
        self._anew: dict[Shapes, str] = {}
        self.step = 0
        """Of which step of the training the next call is, from 1; what calls it says so."""
        self.calls = 0
        self.compilations = 0
        self.reasons: list[str] = []
        """Why it compiled again, once for each time."""
        self._of_values: list[tuple[int, str]] = []

    @property
    def shapes(self) -> list[Shapes]:
        """The shapes of batch that have a graph of their own, in the order in which they came."""
        return [shapes for shapes in self._of_shapes if shapes is not None]

    @property
    def depends_on_history(self) -> bool:
        """Whether what a graph computes may depend on what came before it.

        One for any shape may on the first, one for a number that changes on the number.
        """
        return None in self._of_shapes or any(count > 1 for count in self._graphs.values())

    @property
    def is_restless(self) -> bool:
        """Whether one shape of batch has been compiled for again and again."""
        return any(count > MOST_GRAPHS for count in self._graphs.values())

    def expect(self, shapes: list[Shapes]) -> None:
        """Keep a graph for each of these shapes as the training has that is resumed."""
        for found in shapes:
            self._function_for(found)

    def __call__(self, batch: object, *arguments: object) -> object:
        """Call it, and count whether torch compiled."""
        if self._unguarded is None:
            self._unguarded = Unguarded(self._function)
        if (reason := self._unguarded.change()) is not None:
            self._anew = dict.fromkeys(self._graphs, reason)
            self._of_values.append((self.step, reason))
            self._of_shapes.clear()
        shapes = shapes_of(batch)
        function = self._of_shapes.get(shapes) or self._function_for(shapes)
        # A call does not say whether torch compiled: the counter before and after it does.
        before = counters["stats"]["unique_graphs"]
        # The switch is global, but functions differ in it, and any call may compile.
        if _Backward.is_traced is not self._is_whole:
            _Backward.trace(self._is_whole)
        result = function(batch, *arguments)
        self.calls += 1
        if counters["stats"]["unique_graphs"] != before:
            self._note_compilation(shapes)
        return result

    def of_values_after(self, steps: int) -> list[str]:
        """Return for which values, shapes of a batch aside, it compiled behind so many steps."""
        return [reason for step, reason in self._of_values if step > steps]

    def counts(self) -> CompilationCounts:
        """Return `calls`, `compilations` and `reasons`."""
        return {"calls": self.calls, "compilations": self.compilations, "reasons": self.reasons}

    def _function_for(self, shapes: Shapes) -> Callable[..., object]:
        key = shapes if shapes in self._of_shapes or len(self.shapes) < MOST_SHAPES else None
        if key not in self._of_shapes:
            vector_probe.trust_earlier()
            self._of_shapes[key] = torch.compile(copy_of(self._function), **self._options)
        return self._of_shapes[key]

    def _note_compilation(self, shapes: Shapes) -> None:
        self.compilations += 1
        vector_probe.remember()
        self._graphs[shapes] += 1
        told_reasons = told_since_last()
        if self._unguarded is not None:
            self._unguarded.look()
        if self.compilations == 1:
            return
        # torch gives no reason for the first graph of a function, which each shape has of its own,
        # nor for what comes behind a break, which is a function of its own.
        told, again = next(filter(None, told_reasons), None), None
        if shapes in self._anew:
            again = self._anew.pop(shapes)
        elif self._graphs[shapes] > 1:
            told = told or "a part of the step that had not been compiled"
        whole = told or again or f"batch of {_named(shapes)}"
        reason = whole.split("\n")[0].split("  #")[0].strip()  # without the line of code
        self.reasons.append(reason)
        if told:
            self._of_values.append((self.step, reason))
        print(f"call {self.calls} compiled again: {reason}", flush=True)


def shapes_of(batch: object) -> Shapes:
    """Return shapes and strides of a batch's tensors, in the order of its leaves."""
    # The usual batch is a list of tensors, for which torch's walk takes ten times as long.
    leaves: Sequence[torch.Tensor] = (
        batch if type(batch) in (list, tuple) else tree_leaves(batch)  # pyrefly: ignore[bad-assignment]
    )
    if any([not isinstance(leaf, torch.Tensor) for leaf in leaves]):  # noqa: C419  faster so
        leaves = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    return tuple([(tuple(leaf.shape), leaf.stride()) for leaf in leaves])


def _named(shapes: Shapes) -> str:
    return " and ".join(" x ".join(map(str, shape)) or "1" for shape, _ in shapes) or "no tensors"


def _backend(*, features_first: bool) -> Mapping[str, Any]:
    """Return the options of `torch.compile` that say by what it compiles."""
    if features_first:
        from twinrun.acceleration import features_first as own  # imports the whole compiler

        return {"backend": own.backend if _generates_code else own.traced}
    if not _generates_code:
        # aot_eager traces the backward pass, too, and runs what it traced by torch's own kernels.
        return {"backend": "aot_eager"}
    return {"backend": "inductor", "options": SAME_RANDOM_NUMBERS}

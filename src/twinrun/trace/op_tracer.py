"""A dispatch mode that fingerprints what goes into and comes out of every operation of a step.

Each operation has a key: the phase (forward, backward, optimizer), the path of the module that it
belongs to, its name, its source line and a number that counts such calls. In the backward pass
it belongs to the module, source line and parameter of the forward operation whose gradient it
computes; in a hook of a gradient the line is the hook's. Beside each row there is its flow: which
memory it reads and writes (see `data_flow`).
Memory that nothing has written yet counts as equal, so that an operation that reads it is the one
that differs. Operations inside compiled code are not seen.

Of a tensor on a GPU the hash alone is copied (see `step_fingerprints`). Each is waited for, since
an operation is compared while its tensors are there.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytorch_lightning as pl
import torch
import xxhash
from torch._ops import OpOverload
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from twinrun.trace.data_flow import (
    Flow,
    Memory,
    Region,
    Use,
    generator_of,
    is_view,
    name_of,
    tensors_in,
    tensors_read,
    tensors_written,
)
from twinrun.trace.fingerprints import fingerprint
from twinrun.trace.op_rows import READING_BACK, OpRow, Phase
from twinrun.trace.scratch import scratch_of
from twinrun.trace.step_fingerprints import fingerprint_at_once
from twinrun.trace.users_line import users_line

Watch = Callable[[OpRow, list[torch.Tensor]], None]

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))
# What `torch.tensor(...)` calls with a tensor that it has just filled with Python's values.
_LIFTING = ("lift", "lift_fresh", "lift_fresh_copy")
# What runs a backward pass, on behalf of a line that is none of its operations'.
_BACKWARD = (torch.autograd.backward.__code__, torch.autograd.grad.__code__)
MOST_SHOWN = 4  # values of such a tensor that are kept to be shown


class OpTracer(TorchDispatchMode):
    """Fingerprints every operation inside its `with`; `rows` is the table of them.

    `flows` has what each of them reads and writes.
    """

    def __init__(self, module: pl.LightningModule, watch: Watch) -> None:
        """Trace the operations of a module.

        Args:
            module: whose submodules and parameters are named.
            watch: called with each row and the tensors that came out, before the next operation.
        """
        super().__init__()
        self.rows: list[OpRow] = []
        self.flows: list[Flow] = []
        self.phase: Phase = "forward"
        self._watch = watch
        self._modules = {id(child): name for name, child in module.named_modules()}
        self._parameters = {id(p): name for name, p in module.named_parameters()}
        self._path: list[str] = []
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._callers: dict[int, tuple[str, str, object]] = {}
        self._threads = threading.local()
        self._memory = Memory()
        self._unwritten: set[int | None] = set()
        self._is_aside = False

    @contextmanager
    def following(self) -> Iterator[None]:
        """Trace the body, and follow which module it is in."""
        hooks = [
            # Global hooks: what the module has registered itself stays as it is.
            register_module_forward_pre_hook(self._enter),
            # Also after an exception, or the path would never be left again.
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Collection[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        # torch marks every optimizer step with `record_function`, which computes nothing. What
        # is done aside reads tensors for us, not for the step.
        if func.namespace == "profiler" or self._is_aside:
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        module, parameter, source = self._caller(leaves)
        # Asked of autograd: a module may go backward without Lightning and its hooks.
        is_backward = torch._C._current_graph_task_id() >= 0
        phase: Phase = "backward" if is_backward else self.phase
        key = (phase, module, func._schema.name, source)
        self._calls[key] += 1
        generator = generator_of(func, leaves)
        # Before the call, which may write to its arguments.
        reads, numbers = self._read(func, args, kwargs, generator)
        result = func(*args, **kwargs)
        written = tensors_written(func, args, kwargs, result)
        if name_of(func) in _LIFTING:
            numbers = [self._shown(tensor) for tensor, _ in written]
        if func._schema.name == READING_BACK:
            numbers = [repr(result)]
        self._note_written(func, [tensor for tensor, _ in written], scratch_of(func, result))
        given = [self._use(tensor, lane) for tensor, lane in written]
        flow = self._flow(func, reads, given, generator)
        whole = list({id(t): t for t in [*tensors_in(result), *(t for t, _ in written)]}.values())
        row: OpRow = {
            "phase": phase,
            "module": module,
            "op": func._schema.name,
            "source": source,
            "call": self._calls[key],
            "parameter": parameter,
            "draws": generator is not None or torch.Tag.nondeterministic_seeded in func.tags,
            "numbers": numbers,
            "reads": [use.content for use in reads],
            "writes": [use.content for use in flow.writes],
            "inputs": _joined([*(use.content for use in reads if not use.is_generator), *numbers]),
            "outputs": _joined([use.content for use in given]),
        }
        self.rows.append(row)
        self.flows.append(flow)
        self._watch(row, whole)
        return result

    def regions(self, tensors: Sequence[torch.Tensor]) -> tuple[Region, ...]:
        """Return where the elements of tensors are, between two operations."""
        with self.aside():
            return tuple(region for tensor in tensors for region in self._memory.regions(tensor))

    def generator(self, generator: torch.Generator) -> Region:
        """Return what stands for the state of a generator in the flows."""
        return self._memory.generator(generator)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the body out of the trace: what it does is no part of the step."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    def _caller(self, leaves: Sequence[object]) -> tuple[str, str, str]:
        """Return the module, the parameter and the source line that an operation belongs to."""
        # Not public: the node that autograd is running; None outside of a backward pass.
        node = torch._C._current_autograd_node()
        if node is None:
            module, source = self._path[-1] if self._path else "", users_line()
            self._number(module, source)
            owned = (self._parameters.get(id(leaf)) for leaf in leaves)
            return module, next(filter(None, owned), ""), source
        # A parameter's node is AccumulateGrad, which holds it as `variable`.
        variables = [node, *(following for following, _ in node.next_functions)]
        owned = (self._parameters.get(id(getattr(v, "variable", None))) for v in variables)
        parameter = next(filter(None, owned), "")
        module, source, _ = self._callers.get(node._sequence_nr(), ("", "", None))
        # A hook of a gradient, or a backward pass of the user's own, has a line itself.
        source = users_line(inside_of=_BACKWARD) or source
        # A backward pass that can be differentiated itself makes nodes too.
        if torch.is_grad_enabled():
            self._number(module, source)
        return module, parameter, source

    def _number(self, module: str, source: str) -> None:
        """Note whose node the last one is, by its number."""
        # Autograd numbers a node before the operation runs, so that the last number is its own.
        # A later operation without a node must not take this number.
        number = torch.autograd._get_sequence_nr() - 1
        # A thread's own number is given to another one behind its end; this goes with the thread.
        if not hasattr(self._threads, "token"):
            self._threads.token = object()
        thread = self._threads.token
        *_, first = self._callers.setdefault(number, (module, source, thread))
        # Each thread counts for itself, such as that of a GPU: whose node it is nobody knows.
        if first is not thread:
            self._callers[number] = ("", "", first)

    def _read(
        self,
        func: OpOverload,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        generator: torch.Generator | None,
    ) -> tuple[list[Use], list[str]]:
        """Return what an operation is about to read, and its arguments that are no tensors."""
        # ASSUME other arguments make no difference; written out they would hold addresses.
        plain = [repr(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, _PLAIN)]
        # What it is given was written by nobody: Python has just made it.
        if name_of(func) in _LIFTING:
            return [], plain
        uses = [self._use(tensor, lane) for tensor, lane in tensors_read(func, args, kwargs)]
        return [*uses, *self._state(generator)], plain

    def _note_written(
        self, func: OpOverload, tensors: Sequence[torch.Tensor], scratch: Sequence[torch.Tensor]
    ) -> None:
        """Keep account of the memory that nothing has written."""
        numbers = {self._memory.storage(tensor) for tensor in tensors}
        # Such memory holds what was left there: other bytes in another process.
        if _allocates(func):
            self._unwritten |= numbers
        # A view writes nothing: its memory stays unwritten, and so does what a longer one adds.
        elif not _is_view(func) and name_of(func) != "resize_":
            self._unwritten -= numbers
        self._unwritten |= {self._memory.storage(tensor) for tensor in scratch}

    def _flow(
        self,
        func: OpOverload,
        reads: list[Use],
        given: list[Use],
        generator: torch.Generator | None,
    ) -> Flow:
        """Return what an operation has read and written."""
        views = _is_view(func)
        return Flow(
            reads=reads,
            writes=[*([] if views else given), *self._state(generator)],
            views=given if views else [],
            is_allocation=_allocates(func),
        )

    def _use(self, tensor: torch.Tensor, lane: int | None) -> Use:
        content = self._content(tensor)
        return Use(regions=self._memory.regions(tensor), content=content, lane=lane)

    def _state(self, generator: torch.Generator | None) -> list[Use]:
        """Return the state of a generator as something that is read or written."""
        if generator is None:
            return []
        regions, state = (self._memory.generator(generator),), fingerprint(generator.get_state())
        return [Use(regions=regions, content=f"{state:016x}", is_generator=True)]

    def _content(self, tensor: torch.Tensor) -> str:
        storage = self._memory.storage(tensor)
        is_unwritten = storage is not None and storage in self._unwritten
        return content_of(tensor, "unwritten" if is_unwritten else fingerprint_at_once(tensor))

    def _shown(self, tensor: torch.Tensor) -> str:
        """Write the values of a tensor that Python has made, or what stands for many."""
        few = tensor.layout is torch.strided and tensor.numel() <= MOST_SHOWN
        return repr(tensor.tolist()) if few else self._content(tensor)

    def _enter(self, module: torch.nn.Module, *_: object) -> None:
        inside = self._path[-1] if self._path else ""
        self._path.append(self._modules.get(id(module), inside))

    def _leave(self, *_: object) -> None:
        self._path.pop()


def content_of(tensor: torch.Tensor, found: int | str) -> str:
    """Return what stands in a row for a tensor of this type and shape with this fingerprint."""
    # A nested tensor's shape holds symbols that are counted up in each process.
    shape = "nested" if tensor.is_nested else tuple(tensor.shape)
    return xxhash.xxh3_64_hexdigest(f"{tensor.dtype}{shape}{found}".encode())


def _is_view(func: OpOverload) -> bool:
    # To torch, lifting gives a view; here it is where values of Python come in. It takes `set_` for
    # a change in place; here it gives a view of memory that it does not touch, as in a deep copy.
    return name_of(func) == "set_" or (is_view(func) and name_of(func) not in _LIFTING)


def _allocates(func: OpOverload) -> bool:
    return name_of(func).lstrip("_").removeprefix("new_").startswith("empty")


def _joined(parts: Sequence[str]) -> str:
    return xxhash.xxh3_64_hexdigest("\n".join(parts).encode())

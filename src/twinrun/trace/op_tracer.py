"""A dispatch mode that fingerprints what goes into and comes out of every operation of a step.

Each operation has a key: the phase (forward, backward, optimizer), the path of the module that it
belongs to, its name and the how-manieth call it is of these. In the backward pass it belongs to the
module, source line and parameter of the forward operation whose gradient it computes. Memory that
nothing has written yet counts as equal, so that an operation that reads it is the one that differs.
Operations inside compiled code are not seen.
"""

import linecache
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import xxhash
from lightning_fabric import __file__ as fabric_file
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from twinrun.trace.fingerprints import fingerprint, hexadecimal, join

KEY = ("phase", "module", "op", "call")
Watch = Callable[[dict[str, Any], list[torch.Tensor]], None]

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = tuple(str(Path(file).parent) for file in (torch.__file__, pl.__file__, fabric_file))
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))


class OpTracer(TorchDispatchMode):
    """Fingerprints every operation inside its `with`; `rows` is the table of them.

    A row holds KEY, `parameter`, `source` (file:line), `code`, `draws` (whether it draws random
    numbers), and the fingerprints `inputs` and `outputs`.
    """

    def __init__(self, module: pl.LightningModule, watch: Watch) -> None:
        """Trace the operations of a module.

        Args:
            module: whose submodules and parameters are named.
            watch: called with each row and the tensors that came out, before the next operation.
        """
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.phase = "forward"
        self._watch = watch
        self._modules = {id(child): name for name, child in module.named_modules()}
        self._parameters = {id(p): name for name, p in module.named_parameters()}
        self._path: list[str] = []
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._places: dict[int, tuple[str, tuple[str, str]]] = {}
        # Kept alive, so that no other tensor gets their place.
        self._unwritten: dict[int, torch.UntypedStorage] = {}

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
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # torch marks every optimizer step with `record_function`, which computes nothing.
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        module, parameter, (source, code) = self._place(tree_leaves((args, kwargs)))
        name = func._schema.name
        key = (self.phase, module, name)
        self._calls[key] += 1
        # Before the call, which may write to its arguments.
        inputs = self._fingerprint_inputs(args, kwargs)
        result = func(*args, **kwargs)
        written = [*_tensors(result), *_written(func, args, kwargs)]
        # An operation in place returns what it has written: once is enough.
        outputs = list({id(tensor): tensor for tensor in written}.values())
        fingerprints = self._fingerprint_outputs(func, outputs)
        row = {
            **dict(zip(KEY, (*key, self._calls[key]), strict=True)),
            "parameter": parameter,
            "source": source,
            "code": code,
            "draws": torch.Tag.nondeterministic_seeded in func.tags,
            "inputs": hexadecimal(inputs),
            "outputs": hexadecimal(fingerprints),
        }
        self.rows.append(row)
        self._watch(row, outputs)
        return result

    def _place(self, leaves: list[Any]) -> tuple[str, str, tuple[str, str]]:
        """Return the module, the parameter and the source line that an operation belongs to."""
        # Not public: the node that autograd is running; None outside of a backward pass.
        node = torch._C._current_autograd_node()
        if node is None:
            module, source = self._path[-1] if self._path else "", _users_line()
            # Autograd numbers a node before the operation runs, so that the last number is its own.
            # A later operation without a node must not take this place.
            self._places.setdefault(torch.autograd._get_sequence_nr() - 1, (module, source))
            owned = (self._parameters.get(id(leaf)) for leaf in leaves)
            return module, next(filter(None, owned), ""), source
        # A parameter's node is AccumulateGrad, which holds it as `variable`.
        variables = [node, *(following for following, _ in node.next_functions)]
        owned = (self._parameters.get(id(getattr(v, "variable", None))) for v in variables)
        parameter = next(filter(None, owned), "")
        module, source = self._places.get(node._sequence_nr(), ("", ("", "")))
        return module, parameter, source

    def _fingerprint_inputs(self, args: tuple, kwargs: dict[str, Any]) -> int:
        found = xxhash.xxh3_64()
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                found.update(f"{leaf.dtype}{tuple(leaf.shape)}{self._fingerprint(leaf)}".encode())
            # ASSUME other arguments make no difference; written out they would hold addresses.
            elif isinstance(leaf, _PLAIN):
                found.update(repr(leaf).encode())
        return found.intdigest()

    def _fingerprint_outputs(self, func: Any, outputs: list[torch.Tensor]) -> int:
        # Such memory holds what was left there: other bytes in another process.
        if func._opname.lstrip("_").removeprefix("new_").startswith(("empty", "set_")):
            self._unwritten |= {_storage(t): t.untyped_storage() for t in outputs if _storage(t)}
        # A view writes nothing: its memory stays unwritten.
        elif not _is_view(func):
            for tensor in outputs:
                self._unwritten.pop(_storage(tensor), None)
        return join([self._fingerprint(tensor) for tensor in outputs])

    def _fingerprint(self, tensor: torch.Tensor) -> int:
        return 0 if _storage(tensor) in self._unwritten else fingerprint(tensor)

    def _enter(self, module: torch.nn.Module, *_: object) -> None:
        inside = self._path[-1] if self._path else ""
        self._path.append(self._modules.get(id(module), inside))

    def _leave(self, *_: object) -> None:
        self._path.pop()


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _written(func: Any, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the arguments that an operation writes to."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            found += _tensors(value)
    return found


def _is_view(func: Any) -> bool:
    aliases = [returned.alias_info for returned in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _storage(tensor: torch.Tensor) -> int:
    """Return where a tensor's memory begins; 0 of one that has none, or no elements."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return 0
    return tensor.untyped_storage().data_ptr()


def _users_line() -> tuple[str, str]:
    """Return file:line and code of the innermost line that is not torch's, Lightning's or ours."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_users(file):
            line = linecache.getline(file, frame.f_lineno).strip()
            return f"{_shown(file)}:{frame.f_lineno}", line
        frame = frame.f_back
    return "", ""


def _is_users(file: str) -> bool:
    """Say whether a line is one that a user can change: the built-in workloads count as his."""
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return path.is_relative_to(_PACKAGE / "workloads")
    # `<string>` and frozen modules have no file.
    if not path.is_absolute() or file.startswith(_LIBRARIES):
        return False
    # site-packages lies inside of the standard library's folder.
    return not file.startswith(_STANDARD_LIBRARY) or "site-packages" in file


def _shown(file: str) -> str:
    """Shorten a path: from the working directory, or from the package it belongs to."""
    if Path(file).is_relative_to(Path.cwd()):
        return str(Path(file).relative_to(Path.cwd()))
    return "/".join(Path(file).parts[-2:])

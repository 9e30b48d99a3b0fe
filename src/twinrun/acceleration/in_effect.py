"""What settings of a step came to in a training: how optimizers updated, what lies in a layout.

An optimizer with a `step` of its own need not read the keys `fused` and `foreach` of its groups,
one that a module makes under way never had them, and a module without images has nothing to lay
out. So it is not asked what was set: the operations of an update are looked at, and the strides.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch._ops import OpOverload
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from twinrun.acceleration.features_first import loops_made
from twinrun.acceleration.placement import is_tall
from twinrun.batches import tensors
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.run_records import Departure

Arguments = tuple[object, ...]
Options = dict[str, object]
Form = tuple[tuple[object, object], ...]
DEFAULT = "default"


class _Updates(TorchDispatchMode):
    """Notes the names of operations; they compute what they would compute."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Leave compiled code compiled: under any other mode torch runs none of it."""
        return True

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Collection[type],
        args: Arguments = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self.names.add(func._schema.name.rpartition("::")[2])
        return func(*args, **(kwargs or {}))


class OptimizerForms:
    """Looks at the first update of every optimizer of the process, and after a change of its form.

    Among them are those that a module makes under way, or keeps from the Trainer.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        """`fused`, `foreach` or `for-loop`, and the optimizer's class: `fused (Adam)`."""
        self._seen: WeakKeyDictionary[torch.optim.Optimizer, Form] = WeakKeyDictionary()
        self._watched: list[tuple[torch.optim.Optimizer, _Updates]] = []
        self._hooks: list[RemovableHandle] = []

    def start(self) -> None:
        """Begin to look, by hooks of all optimizers."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def stop(self) -> None:
        """Look no more; also after an exception inside of an update."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        while self._watched:
            self._watched.pop()[1].__exit__(None, None, None)

    def _before(
        self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options
    ) -> tuple[Arguments, Options] | None:
        # A module may compile `step`: what is looked at here would break its graph.
        if torch.compiler.is_compiling() or self._seen.get(optimizer) == _form(optimizer):
            return None
        updates = _Updates()
        updates.__enter__()
        self._watched.append((optimizer, updates))
        # Forward pass, backward pass and clipping, which has operations on lists, are no update.
        args = tuple(self._unwatched(each) for each in args)
        return args, {name: self._unwatched(each) for name, each in kwargs.items()}

    def _after(self, optimizer: torch.optim.Optimizer, args: Arguments, kwargs: Options) -> None:
        if torch.compiler.is_compiling():
            return
        if not self._watched or self._watched[-1][0] is not optimizer:
            return
        _, updates = self._watched.pop()
        updates.__exit__(None, None, None)
        if not updates.names:  # no parameter had a gradient
            return
        self._seen[optimizer] = _form(optimizer)
        forms = [
            form
            for form in ("fused", "foreach")
            if any(name.startswith(f"_{form}_") for name in updates.names)
        ]
        # The fused forms count their steps with operations on lists.
        form = forms[0] if forms else "for-loop"
        name = type(optimizer).__name__
        self.found.add(f"{form} ({name})")
        if forms and any(group.get(form) is False for group in optimizer.param_groups):
            self.found.add(f"for-loop (some groups of {name})")

    def _unwatched(self, value: object) -> object:
        """Return a closure during which nothing is noted; of anything else itself."""
        if not callable(value) or isinstance(value, torch.optim.Optimizer):
            return value

        def closure(*args: object, **kwargs: object) -> object:
            paused, self._watched = self._watched, []
            for _, updates in reversed(paused):
                updates.__exit__(None, None, None)
            # Of a closure that raises nothing is left to be noted: its step is over.
            result = value(*args, **kwargs)
            for _, updates in paused:
                updates.__enter__()
            self._watched = paused
            return result

        return closure


def _form(optimizer: torch.optim.Optimizer) -> Form:
    """Return what a change of is a reason to look once more."""
    return tuple((group.get("foreach"), group.get("fused")) for group in optimizer.param_groups)


class Layouts:
    """Looks at what lies in a layout other than torch's default, and what does not."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        """`parameters`, `buffers`, `batches`, `products`, as far as any lies in a layout."""
        self.missed: set[str] = set()
        """The same of those that could lie in it, and do not."""
        self._loops = loops_made()

    def note(self, name: str, values: Sequence[torch.Tensor], layout: str) -> None:
        """Look at tensors.

        Args:
            name: of `found`.
            values: parameters, say.
            layout: the variant's: what could lie in another one is nobody's concern.
        """
        for tensor in values:
            if _is_channels_last(tensor) or (layout == "features_first" and _is_first(tensor)):
                self.found.add(name)
            elif layout == "channels_last" and tensor.dim() == 4:
                self.missed.add(name)

    def note_module(self, module: torch.nn.Module, layout: str) -> None:
        """Look at the parameters and buffers of a module."""
        self.note("parameters", list(module.parameters()), layout)
        self.note("buffers", list(module.buffers()), layout)
        # Compiled products over points, which batches of another shape may lead to.
        if loops_made() > self._loops:
            self.found.add("products")

    def note_batch(self, batch: object, layout: str) -> None:
        """Look at a batch as a step is given it."""
        self.note("batches", tensors(batch), layout)


@contextmanager
def must_take_effect(
    variant: Variant, module: torch.nn.Module, batches: Sequence[object]
) -> Iterator[None]:
    """Watch first steps, and refuse a variant of which nothing came.

    Args:
        variant: its settings.
        module: that takes the steps.
        batches: as they are given to it.

    Raises:
        TwinrunError: naming the setting, once the steps are done.
    """
    forms, layouts = OptimizerForms(), Layouts()
    if variant.optimizer != DEFAULT and variant.compile != "step" and not variant.cuda_graph:
        forms.start()
    try:
        yield
    finally:
        forms.stop()
    layouts.note_module(module, variant.layout)
    for batch in batches:
        layouts.note_batch(batch, variant.layout)
    for found in departures_of(variant, forms.found, layouts):
        if not found.get("in_part"):
            raise TwinrunError(found["sentence"])


def departures_of(
    variant: Variant, forms: Collection[str], layouts: Layouts, *, may_be_cached: bool = False
) -> Iterator[Departure]:
    """Say where updates or layouts are not what a variant asks for; in part, or at all.

    Args:
        variant: its settings.
        forms: what `OptimizerForms` found; nothing where it could not look.
        layouts: what was looked at.
        may_be_cached: whether loops over points may come from a cache, where nobody sees them made.
    """
    is_compiled = variant.compile != "none" or variant.cuda_graph
    asked = variant.optimizer
    others = sorted(form for form in forms if not form.startswith(f"{asked} "))
    if asked != DEFAULT and others:
        text = f"{', '.join(others)}, where the variant says {asked}"
        yield _departure("optimizer", text, in_part=is_compiled or len(others) < len(forms))
    layout, missed = variant.layout, " and ".join(sorted(layouts.missed))
    if layout == DEFAULT or may_be_cached:
        return
    what = "image (4-D)" if layout == "channels_last" else "matrix of many points and few features"
    why = f"its {missed} lie otherwise" if missed else f"no parameter, buffer or batch is a {what}"
    text = f"default, where the variant says {layout}"
    if not layouts.found:
        yield _departure("layout", f"{text}: {why}", in_part=is_compiled)
    elif missed:
        yield _departure("layout", f"{text}: some of {why}", in_part=True)


def _departure(setting: str, text: str, *, in_part: bool) -> Departure:
    part = "in part, " if in_part else ""
    return {"setting": setting, "sentence": f"{part}{setting} is {text}", "in_part": in_part}


def _is_channels_last(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.dim() != 4:
        return False
    # By the strides: of one channel both layouts are the same memory, and torch chooses by strides.
    is_default = tensor.stride() == torch.empty(tensor.shape, device="meta").stride()
    return not is_default and tensor.is_contiguous(memory_format=torch.channels_last)


def _is_first(tensor: torch.Tensor) -> bool:
    is_matrix = tensor.layout is torch.strided and tensor.dim() == 2
    return is_matrix and tensor.stride(0) == 1 and is_tall(*tensor.shape)

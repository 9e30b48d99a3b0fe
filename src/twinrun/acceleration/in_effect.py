"""What settings of a step came to in a training: how optimizers updated, what lies in a layout.

An optimizer with a `step` of its own need not read the keys `fused` and `foreach` of its groups,
one that a module makes under way never had them, and a module without images has nothing to lay
out. So it is not asked what was set: the operations of an update are looked at, and the strides.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch

from twinrun.acceleration.optimizer_forms import OptimizerForms
from twinrun.acceleration.placement import LOOPS_MADE, is_tall
from twinrun.batches import tensors
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.run_records import Departure, is_in_part

DEFAULT = "default"


class Layouts:
    """Looks at what lies in a layout other than torch's default, and what does not."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        """`parameters`, `buffers`, `batches`, `products`, as far as any lies in a layout."""
        self.missed: set[str] = set()
        """The same of those that could lie in it, and do not."""
        self._loops = len(LOOPS_MADE)

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
        if len(LOOPS_MADE) > self._loops:
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
        if not is_in_part(found):
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
    images, matrices = "an image (4-D)", "a matrix of many points and few features"
    what = images if layout == "channels_last" else matrices
    why = f"its {missed} lie otherwise" if missed else f"no parameter, buffer or batch is {what}"
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

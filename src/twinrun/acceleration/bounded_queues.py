"""A `deque` with `maxlen` is traced as one: torch's tracer forgets that it has a bound.

A step that appends to a full one then computes with the element that has fallen out, too (seen in
torch 2.11 to 2.13). With its bound torch knows it, reads it, and refuses to trace what writes to
it: that is called outside of the graph.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import BaseListVariable

_NAME = "cls_for_instance"  # not public: chooses what stands for a list in a trace


@contextmanager
def traced_with_their_bound() -> Iterator[None]:
    """Have torch's tracer give queues the bound that they have."""
    before = vars(BaseListVariable)[_NAME]
    chosen = before.__func__

    def with_bound(value: Any) -> Callable[..., BaseListVariable]:
        kind = chosen(value)
        if isinstance(value, deque) and value.maxlen is not None:
            return functools.partial(kind, maxlen=ConstantVariable.create(value.maxlen))
        return kind

    setattr(BaseListVariable, _NAME, staticmethod(with_bound))
    try:
        yield
    finally:
        setattr(BaseListVariable, _NAME, before)

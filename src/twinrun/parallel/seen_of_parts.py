"""What a module sees of a part of a mini-batch, though loss and gradients are the whole one's.

Of a sum of gradients a hook sees the terms, and a metric that aggregates numbers is given one for
each part: what they make of them is that of the mini-batch only if it is linear.
"""

from collections.abc import Iterator

import torch
from torchmetrics import Metric
from torchmetrics.aggregation import BaseAggregator, MeanMetric
from torchmetrics.wrappers import Running

from twinrun.wording import some


class Aggregated:
    """What joins numbers of parts, whatever they are; a metric is asked once: a GPU has to wait."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        """Under which metrics are logged that do."""
        self.reduced: dict[str, str] = {}
        """How, by name, numbers are joined that are logged with a `reduce_fx`."""
        self._asked: set[str] = set()

    def note(self, name: str, metric: Metric) -> None:
        """Look at a metric that a step logs."""
        if name not in self._asked:
            self._asked.add(name)
            self.names |= {name} if _is_aggregator(metric) else set()

    def note_number(self, name: str, reduction: str) -> None:
        """Note how a number is joined: a mean is one over the samples."""
        if reduction in ("min", "max", "sum"):
            self.reduced[name] = reduction


def _is_aggregator(metric: Metric) -> bool:
    """Say whether a metric may join one number of each step, and not what each sample gives."""
    if isinstance(metric, MeanMetric):
        # With a weight, or a number for each sample, it has been given more than its updates.
        return bool(torch.as_tensor(metric.weight).sum() <= metric._update_count)
    return isinstance(metric, BaseAggregator | Running)


def seen_of_parts(
    module: torch.nn.Module, aggregated: Aggregated, *, setting: str, part: str
) -> Iterator[str]:
    """Say which hooks of gradients, metrics and reductions see a part of each mini-batch.

    Args:
        module: that was trained.
        aggregated: what joins numbers of parts.
        setting: of the variant, which cuts mini-batches.
        part: what it makes of them.
    """
    if aggregated.names:
        yield (
            f"in part, {setting} has torchmetrics join what it is given of each {part} (logged as "
            f"{some(sorted(aggregated.names))}): what is a loss or a mean of one counts once for "
            f"each"
        )
    if aggregated.reduced:
        reduced = [f"{name} by {how}" for name, how in sorted(aggregated.reduced.items())]
        yield (
            f"in part, {setting} joins numbers of each {part} by their reduce_fx "
            f"({some(reduced)}): the mini-batch's are sums and extremes over samples, but not a "
            f"loss or a mean, which would be joined of whole mini-batches alone"
        )
    hooked = [
        name
        for name, parameter in module.named_parameters()
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    ]
    if hooked:
        yield (
            f"in part, {setting} has hooks of gradients ({some(hooked)}) see those of each {part}: "
            f"what is not linear in them, such as a clamp, is not that of the mini-batch"
        )

"""What a module sees of a part of a mini-batch, though loss and gradients are the whole one's.

Of a sum of gradients a hook sees the terms, and a metric that aggregates numbers is given one for
each part: what they make of them is that of the mini-batch only if it is linear.
"""

import types
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import torch
from torch.nn.modules.loss import _Loss
from torchmetrics import Metric
from torchmetrics.aggregation import BaseAggregator, MeanMetric
from torchmetrics.metric import jit_distributed_available
from torchmetrics.utilities import dim_zero_mean
from torchmetrics.wrappers import Running

from twinrun.checkpoint.users_code import functions_in, is_users, names_in
from twinrun.containers import attributes_of, entries, is_container, size_of
from twinrun.parallel.reached_code import LONG
from twinrun.wording import some

Held = TypeVar("Held", bound=torch.nn.Module)


class Aggregated:
    """What joins numbers of parts, whatever they are; a metric is asked once: a GPU has to wait."""

    def __init__(self, module: torch.nn.Module) -> None:
        """Look at the metrics of a module, and at those that `note` is told of."""
        self.names: set[str] = set()
        """Of metrics that do: as they are logged, or as attributes."""
        self.unsynchronised: set[str] = set()
        """Of metrics that several workers do not join as torchmetrics does."""
        self.at_steps: set[str] = set()
        """Of metrics that several workers log at steps, where each has its shard's value."""
        self.reduced: dict[str, str] = {}
        """How, by name, numbers are joined that are logged with a `reduce_fx`."""
        self._module = module
        self._asked: dict[int, Metric] = {}
        self._metrics: dict[str, Metric] = {}
        self._epoch = -1
        self._before: dict[str, list[int]] = {}

    def begin(self) -> None:
        """Look at how often metrics have been updated ahead of a part."""
        epoch = getattr(self._module, "current_epoch", 0)
        if self._epoch != epoch:  # once in each: a module may have thousands of layers
            self._epoch, self._metrics = epoch, dict(_held(self._module))
        self._before = {name: _updates(metric) for name, metric in self._metrics.items()}

    def end(self) -> None:
        """Note the metrics that have been updated since, wherever they are logged."""
        for name, metric in self._metrics.items():
            if _updates(metric) != self._before[name]:
                self.note(name, metric)

    def note(self, name: str, metric: Metric) -> None:
        """Look at a metric that a step logs or updates."""
        if id(metric) not in self._asked:
            self._asked[id(metric)] = metric
            self.names |= {name} if _is_aggregator(metric) else set()
            self.unsynchronised |= set() if all(map(_is_synchronised, _parts(metric))) else {name}

    @property
    def alone(self) -> str | None:
        """Say which metrics are of one worker; None if none is."""
        if not self.unsynchronised:
            return None
        return (
            f"in part, devices has metrics ({some(sorted(self.unsynchronised))}) of what the first "
            f"worker has seen, or joined over the workers by a way of their own (sync_on_compute="
            f"False, dist_sync_fn, process_group, distributed_available_fn, or a dist_reduce_fx of "
            f"None or a mean): that may be another value than one worker's"
        )

    def note_number(self, name: str, reduction: str) -> None:
        """Note how a number is joined: a mean is one over the samples."""
        if reduction in ("min", "max", "sum"):
            self.reduced[name] = reduction


def _outermost(module: torch.nn.Module) -> Iterator[tuple[str, Metric]]:
    """Yield the metrics of a module by name, without those that a metric wraps."""
    inside: set[int] = set()
    for name, part in module.named_modules():
        if isinstance(part, Metric) and id(part) not in inside:
            inside |= {*map(id, part.modules())}
            yield name, part


def _held(module: torch.nn.Module) -> Iterator[tuple[str, Metric]]:
    """Yield what metrics a module and the callbacks of its Trainer have, by name."""
    yield from _outermost(module)
    own = attributes_of(module)
    for name in own.keys() - vars(torch.nn.Module()).keys():
        yield from _plainly_held(own[name], name, _outermost)
    for callback in getattr(vars(module).get("_trainer"), "callbacks", ()):
        for name, value in attributes_of(callback).items():
            yield from _plainly_held(value, f"{type(callback).__name__}.{name}", _outermost)


def _plainly_held(
    value: object,
    name: str,
    parts: Callable[[torch.nn.Module], Iterator[tuple[str, Held]]],
    deeper: int = 2,
) -> Iterator[tuple[str, Held]]:
    if issubclass(type(value), torch.nn.Module):
        for inner, part in parts(cast(torch.nn.Module, value)):
            yield f"{name}.{inner}" if inner else name, part
    elif deeper and is_container(value) and size_of(value) <= LONG:
        for key, item in entries(value):
            yield from _plainly_held(item, f"{name}.{key}", parts, deeper - 1)


def _parts(metric: Metric) -> list[Metric]:
    """Return a metric, and those that it wraps."""
    return [part for part in metric.modules() if isinstance(part, Metric)]


def _updates(metric: Metric) -> list[int]:
    # A window that is called counts its values alone.
    return [p._update_count + getattr(p, "_num_vals_seen", 0) for p in _parts(metric)]


def _is_aggregator(metric: Metric) -> bool:
    """Say whether one may join one number of each step, and not what each sample gives."""
    used = [part for part in _parts(metric) if part is metric or any(_updates(part))]
    return any(map(_joins_numbers, used))


def _joins_numbers(metric: Metric) -> bool:
    if isinstance(metric, MeanMetric):
        # With a weight, or a number for each sample, it has been given more than its updates.
        return bool(torch.as_tensor(metric.weight).sum() <= metric._update_count)
    return isinstance(metric, BaseAggregator | Running) or is_users(type(metric).__module__)


def _is_synchronised(metric: Metric) -> bool:
    """Say whether workers sum, gather or take extremes of all that a metric has seen."""
    is_plain = metric.dist_sync_fn is None and metric.process_group is None
    is_plain &= metric.distributed_available_fn is jit_distributed_available
    # A library's own knows what it makes of states that are neither.
    is_users_own = is_users(type(metric).__module__)
    averaged = [
        name
        for name, reduction in metric._reductions.items()
        if isinstance(metric._defaults[name], torch.Tensor) and reduction in (None, dim_zero_mean)
    ]
    return metric.sync_on_compute and is_plain and not (is_users_own and averaged)


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
            f"in part, {setting} has metrics join what they are given of each {part} "
            f"({some(sorted(aggregated.names))}): what is a loss or a mean of one counts once for "
            f"each"
        )
    if aggregated.at_steps:
        yield (
            f"in part, {setting} logs values of the first worker's shard at steps (torchmetrics "
            f"logged as {some(sorted(aggregated.at_steps))}); log them with on_step=False"
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
    yield from _no_means(module, setting, part)


def _no_means(module: torch.nn.Module, setting: str, part: str) -> Iterator[str]:
    """Say which layers of torch's may make of samples what is no mean over them."""
    # Which of them steps call is not watched. A hook would be pickled with a loss that is among the
    # hyperparameters, and cut a graph that the module compiles; it does not see `loss.forward`.
    # By number, as a layer may have several names, of which the first is told.
    layers = {id(layer): (name, layer) for name, layer in reversed([*_layers(module)])}.values()
    embeddings = torch.nn.Embedding | torch.nn.EmbeddingBag
    scaled = [
        name
        for name, each in layers
        if isinstance(each, embeddings) and each.scale_grad_by_freq and each.weight.requires_grad
    ]
    if scaled:
        yield (
            f"in part, {setting} may have layers ({some(sorted(scaled))}) divide gradients by how "
            f"often an index comes in each {part}, and not in the mini-batch (scale_grad_by_freq)"
        )
    losses = [name for name, each in layers if isinstance(each, _Loss) and _is_no_mean(each)]
    if losses:
        yield (
            f"in part, {setting} may take a loss of each {part} for a mean over samples that is "
            f"none, where a training step calls {some(sorted(losses))}: a sum, unless the module "
            f"divides it by the samples itself, or a mean that weights of classes divide"
        )


def _layers(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the layers of a module, and those that its users' classes hold or name, by name."""
    yield from module.named_modules()
    for name, layer in module.named_modules():
        if is_users(type(layer).__module__):
            for key, value in _named_by(layer):
                found = f"{name}.{key}" if name else key
                yield from _plainly_held(value, found, torch.nn.Module.named_modules)


def _named_by(layer: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """Yield what a layer has that is no part of it to torch: also of its class and its globals."""
    # The last is Lightning's copy of the hyperparameters, by which nothing is trained.
    own = attributes_of(layer)
    for name in own.keys() - vars(torch.nn.Module()).keys() - {"_hparams_initial"}:
        yield name, own[name]
    for kind in type(layer).__mro__:
        for name, value in [*vars(kind).items()] if is_users(kind.__module__) else ():
            yield name, value
            for function in functions_in(value):
                if isinstance(function, types.FunctionType):
                    known, names = function.__globals__, names_in(function.__code__)
                    yield from ((each, known[each]) for each in names if each in known)


def _is_no_mean(loss: _Loss) -> bool:
    weights = getattr(loss, "weight", None)
    is_divided = isinstance(loss, torch.nn.CrossEntropyLoss | torch.nn.NLLLoss)
    # Weights that are all alike divide out.
    is_weighted = is_divided and weights is not None and bool((weights != weights[0]).any())
    return loss.reduction == "sum" or (is_weighted and loss.reduction == "mean")

"""What metrics of torchmetrics share and no copy parts, as they never write into it.

Before it updates or computes, a `MetricCollection` gives all metrics of a group the first one's
states (https://lightning.ai/docs/torchmetrics/stable/pages/overview.html, "compute groups"). Which
metrics are a group it decides where it is first updated, by the states that they have then. A
`MinMaxMetric` keeps what it has computed under one name or two; metrics that keep whole batches in
lists may have been given the same ones.
"""

from collections.abc import Iterator

import torch
from torchmetrics import Metric, MetricCollection
from torchmetrics.wrappers import MinMaxMetric

# What collections and trackers go by, and no state of a metric has.
OF_COLLECTIONS = {"_groups", "_groups_checked", "_state_is_copy", "_increment_called"}


def shared_by_metrics(module: torch.nn.Module) -> set[tuple[str, str]]:
    """Name what another metric, or another name of the same one, may hold too, by path and name."""
    paths = {id(part): path for path, part in module.named_modules()}
    found = set[tuple[str, str]]()
    for path, part in module.named_modules():
        if isinstance(part, MinMaxMetric):
            found |= {(path, "min_val"), (path, "max_val")}
        elif isinstance(part, Metric):
            found |= {(path, n) for _, n, value in _own_states(part) if isinstance(value, list)}
        elif isinstance(part, MetricCollection):
            found |= {(paths[id(metric)], state) for metric, state in _given(part)}
    return found


def _given(collection: MetricCollection) -> Iterator[tuple[Metric, str]]:
    """Yield the states that metrics, or what they wrap, have from the first of their group."""
    metrics = dict(collection.named_children())  # its own ways to them would share or part states
    for names in collection.compute_groups.values():
        first, *others = (metrics[name] for name in names)
        held = {id(value) for _, _, value in _states_in(first)}
        for other in others:
            yield from (
                (metric, name) for metric, name, value in _states_in(other) if id(value) in held
            )


def _states_in(part: torch.nn.Module) -> Iterator[tuple[Metric, str, object]]:
    for metric in part.modules():
        if isinstance(metric, Metric):
            yield from _own_states(metric)


def _own_states(metric: Metric) -> Iterator[tuple[Metric, str, object]]:
    own = vars(metric)
    return ((metric, name, own.get(name)) for name in own.get("_defaults", ()))

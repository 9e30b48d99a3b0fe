"""Metrics of one `torchmetrics.MetricCollection` that share their states: no copy parts those.

Before it updates or computes, the collection gives all metrics of a group the first one's states
(https://lightning.ai/docs/torchmetrics/stable/pages/overview.html, "compute groups").
"""

import torch
from torchmetrics import MetricCollection


def states_given(module: torch.nn.Module) -> set[tuple[str, str]]:
    """Name the states that metrics have from the first of their group, by path and name."""
    paths = {id(part): path for path, part in module.named_modules()}
    found = set[tuple[str, str]]()
    for part in module.modules():
        if not isinstance(part, MetricCollection):
            continue
        metrics = dict(part.named_children())  # its own ways to them would share or part states
        for names in part.compute_groups.values():
            first, *others = (metrics[name] for name in names)
            found |= {
                (paths[id(other)], state)
                for other in others
                for state in vars(other)["_defaults"]
                if getattr(other, state) is getattr(first, state, None)
            }
    return found

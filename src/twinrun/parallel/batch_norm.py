"""Running statistics of batch normalisation as if one worker had seen the whole mini-batch.

In training each worker normalises with the statistics of its own shard. After each step the shards'
statistics are joined, with w_j the worker's part of the values seen:

    mean = sum_j w_j mean_j        var = sum_j w_j (var_j + (mean_j - mean)^2)

This is exact for a mini-batch's statistics with population variance, not for running averages; so
it is the mini-batch's that are joined, and from them every worker updates its running ones, with
the unbiased variance, as torch does. SyncBatchNorm differs: there the whole mini-batch's statistics
normalise, forward and backward, at the price of two exchanges for each layer.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from twinrun.parallel.workers import Workers


def join_statistics(
    counts: torch.Tensor, means: torch.Tensor, variances: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Join the statistics of shards.

    Args:
        counts: (N, 1) values per channel that each shard holds; 0 leaves a shard out.
        means: (N, C).
        variances: (N, C), population variances.

    Returns:
        Mean and population variance of the whole, (C,) each.
    """
    weights = counts / counts.sum()
    mean = (weights * means).sum(0)
    return mean, (weights * (variances + (means - mean) ** 2)).sum(0)


class JoinedBatchNorm:
    """Notes the statistics of every shard, and updates the running ones from all of them."""

    def __init__(self, module: nn.Module, workers: Workers) -> None:
        """Watch the layers of `module` that keep running statistics."""
        self._workers = workers
        self._kept: dict[_BatchNorm, tuple[float | None, torch.Tensor, torch.Tensor]] = {}
        self._calls: list[tuple[_BatchNorm, float, torch.Tensor]] = []
        for layer in module.modules():
            if isinstance(layer, _BatchNorm) and layer.running_mean is not None:
                layer.register_forward_pre_hook(self._before)
                layer.register_forward_hook(self._after)

    def noted(self) -> torch.Tensor:
        """Return what this worker noted in the step, (k,) float64."""
        parts = [statistics for _, _, statistics in self._calls]
        return torch.cat(parts).cpu() if parts else torch.empty(0, dtype=torch.float64)

    def update(self, noted: torch.Tensor) -> None:
        """Update the running statistics, call by call, from what all workers noted, (N, k)."""
        start = 0
        for layer, factor, statistics in self._calls:
            seen = noted[:, start : start + len(statistics)]
            start += len(statistics)
            counts = seen[:, :1]
            mean, variance = join_statistics(counts, *seen[:, 1:].chunk(2, dim=1))
            unbiased = variance * counts.sum() / (counts.sum() - 1)
            layer.running_mean.lerp_(mean.to(layer.running_mean), factor)
            layer.running_var.lerp_(unbiased.to(layer.running_var), factor)
        self._calls.clear()

    def _before(self, layer: _BatchNorm, inputs: Any) -> None:
        """Let the layer leave the shard's statistics where it keeps the running ones."""
        if layer.training:
            running = layer.running_mean.clone(), layer.running_var.clone()
            self._kept[layer] = (layer.momentum, *running)
            layer.momentum = 1.0

    def _after(self, layer: _BatchNorm, inputs: Any, output: torch.Tensor) -> None:
        """Note the shard's statistics and put the running ones back."""
        if not layer.training:
            return
        layer.momentum, mean, var = self._kept.pop(layer)
        count = inputs[0].numel() // inputs[0].shape[1]
        population = layer.running_var.double() * (count - 1) / count
        head = population.new_tensor([count if self._workers.shard else 0])
        statistics = torch.cat([head, layer.running_mean.double(), population])
        # A momentum of None means the plain average over all steps.
        factor = layer.momentum
        if factor is None:
            factor = 1.0 / float(layer.num_batches_tracked)
        self._calls.append((layer, factor, statistics))
        # `.data`, because autograd saved these buffers, though it does not use them in training.
        layer.running_mean.data.copy_(mean)
        layer.running_var.data.copy_(var)

"""Running statistics of batch normalisation as if one worker had seen the whole mini-batch.

In training each worker normalises with the statistics of its own shard. After each step the shards'
statistics are joined, with w_j the worker's part of the values seen:

    mean = sum_j w_j mean_j        var = sum_j w_j (var_j + (mean_j - mean)^2)

This is exact for a mini-batch's statistics with population variance, not for running averages; so
it is the mini-batch's that are joined, and from them every worker updates its running ones, with
the unbiased variance, as torch does. SyncBatchNorm differs: there the whole mini-batch's statistics
normalise, forward and backward, at the price of two exchanges for each layer.

Layers may be made in `setup`, `configure_model` or hooks: they are looked for ahead of an epoch's
steps. A copy of a network, that of a callback say, has layers of its own. What else a step computes
from its own shard and keeps in a buffer (statistics of a user's own, calls of
`functional.batch_norm`) is joined by nothing: the training is refused after its first step.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from twinrun.errors import TwinrunError
from twinrun.parallel.workers import Workers
from twinrun.trace.fingerprints import fingerprint, join


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


@dataclass(frozen=True, kw_only=True)
class _Running:
    """What a layer keeps while it normalises a shard."""

    momentum: float | None
    """The layer's own; None for a cumulative average."""
    mean: torch.Tensor
    """The running mean before the shard, one number for each channel."""
    var: torch.Tensor
    """The running variance before the shard, likewise."""


class JoinedBatchNorm:
    """Notes the statistics of every shard, and updates the running ones from all of them."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._watched: dict[_BatchNorm, int] = {}
        self._kept: dict[_BatchNorm, _Running] = {}
        self._calls: list[tuple[_BatchNorm, float, torch.Tensor]] = []

    def watch(self, module: nn.Module) -> None:
        """Watch the layers of `module` that keep running statistics; those watched already stay.

        SyncBatchNorm is one of them for torch's classes, but joins by itself.
        """
        for layer in module.modules():
            if (
                isinstance(layer, _BatchNorm)
                and not isinstance(layer, nn.SyncBatchNorm)
                and layer.running_mean is not None
                and layer not in self._watched
            ):
                self._watched[layer] = len(self._watched)
                if self._before not in layer._forward_pre_hooks.values():  # as a copy has
                    layer.register_forward_pre_hook(self._before)
                    layer.register_forward_hook(self._after)

    def __deepcopy__(self, memo: dict[int, object]) -> "JoinedBatchNorm":
        """Return this one: who copies a network, as a teacher, copies its layers' hooks."""
        return self

    def noted(self) -> torch.Tensor:
        """Return what this worker noted in the step, (k,) float64."""
        parts = [statistics for _, _, statistics in self._calls]
        # On the CPU, since small exchanges go by gloo.
        return torch.cat(parts).cpu() if parts else torch.empty(0, dtype=torch.float64)

    def called(self) -> int:
        """Return a fingerprint of which layers this worker called in the step."""
        return join([self._watched[layer] for layer, _, _ in self._calls])

    def update(self, noted: torch.Tensor) -> None:
        """Update the running statistics, call by call, from what all workers noted, (N, k)."""
        start = 0
        # All workers called the same layers in the same order. A layer that is called twice in a
        # step is updated twice, as torch does.
        for layer, factor, statistics in self._calls:
            seen = noted[:, start : start + len(statistics)]
            start += len(statistics)
            counts = seen[:, :1]
            mean, variance = join_statistics(counts, *seen[:, 1:].chunk(2, dim=1))
            unbiased = variance * counts.sum() / (counts.sum() - 1)
            running_mean, running_var = _running(layer)
            running_mean.lerp_(mean.to(running_mean), factor)
            running_var.lerp_(unbiased.to(running_var), factor)
        self._calls.clear()

    def _before(self, layer: _BatchNorm, inputs: tuple[torch.Tensor, ...]) -> None:
        """Let the layer leave the shard's statistics where it keeps the running ones."""
        if layer.training and layer in self._watched:
            mean, var = _running(layer)
            self._kept[layer] = _Running(
                momentum=layer.momentum, mean=mean.clone(), var=var.clone()
            )
            # With momentum 1 torch keeps nothing of the old statistics.
            layer.momentum = 1.0

    def _after(
        self, layer: _BatchNorm, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        """Note the shard's statistics and put the running ones back."""
        if not (layer.training and layer in self._watched):
            return
        running_mean, running_var = _running(layer)
        kept = self._kept.pop(layer)
        layer.momentum = kept.momentum
        count = inputs[0].numel() // inputs[0].shape[1]
        # torch stores the unbiased variance, and refuses a single value per channel by itself.
        population = running_var.double() * (count - 1) / count
        # A worker whose shard is empty has computed a sample that counts nothing.
        head = population.new_tensor([count if self._workers.shard else 0])
        statistics = torch.cat([head, running_mean.double(), population])
        # A momentum of None means the plain average over all steps.
        factor = kept.momentum
        if factor is None:
            assert layer.num_batches_tracked is not None  # noqa: S101  as torch's layers do
            # torch has counted this call by now.
            factor = 1.0 / float(layer.num_batches_tracked)
        self._calls.append((layer, factor, statistics))
        # `.data`, because autograd saved these buffers, though it does not use them in training.
        running_mean.data.copy_(kept.mean)
        running_var.data.copy_(kept.var)


def check_buffers(module: nn.Module, workers: Workers) -> None:
    """Make sure that all workers keep the same buffers.

    Raises:
        TwinrunError: at every worker, naming the first that differs.
    """
    names, buffers = zip(*module.named_buffers(), strict=True) if _has_buffers(module) else ((), ())
    # Two halves of each fingerprint: float64 holds 53 bits.
    halves = [half for buffer in buffers for half in divmod(fingerprint(buffer), 2**32)]
    seen = workers.gather(torch.tensor(halves, dtype=torch.float64))
    is_same = (seen == seen[:1]).all(0).reshape(-1, 2).all(1).tolist()
    for name, same in zip(names, is_same, strict=True):
        if not same:
            raise TwinrunError(
                f"devices: every worker computes the buffer {name} from its own shard, and nothing "
                f"joins them; say devices: 1, or keep running statistics in torch's layers of "
                f"batch normalisation"
            )


def _has_buffers(module: nn.Module) -> bool:
    return next(module.buffers(), None) is not None


def _running(layer: _BatchNorm) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a layer's running mean and variance; only layers that have them are watched."""
    assert layer.running_mean is not None  # noqa: S101
    assert layer.running_var is not None  # noqa: S101
    return layer.running_mean, layer.running_var

"""DistributedDataParallel whose gradients lie in the same buckets in every step of every process.

torch puts them into buckets by the order of the parameters, and after the first step of a process
once more, by the order in which gradients came. Where in a bucket a gradient lies decides in which
order three workers or more sum it up, so that a resumed training would take its first step with
other bits. Here the buckets are made once, from the last parameter to the first, which is about the
order in which gradients come.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from pytorch_lightning.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel


class _LastFirst(DistributedDataParallel):
    """Knows the parameters from the last one to the first, where its buckets are made once more."""

    def _build_params_for_reducer(self) -> tuple[list[torch.nn.Parameter], list[bool]]:
        parameters, are_sparse = super()._build_params_for_reducer()
        order = slice(None, None, 1 if self.find_unused_parameters else -1)
        return parameters[order], are_sparse[order]


class ExchangingStrategy(DDPStrategy):
    """Exchanges the gradients of each mini-batch, also where those of several are accumulated."""

    def __init__(self, **options: Any) -> None:
        """Make no buckets yet.

        Args:
            options: of DistributedDataParallel.
        """
        super().__init__(**options)
        self.has_fixed_buckets = False
        """Whether a new process has the buckets that this one has; on CPUs alone."""

    def _setup_model(self, model: torch.nn.Module) -> DistributedDataParallel:
        if self.root_device.type != "cpu":
            return super()._setup_model(model)
        found = _LastFirst(module=model, **self._ddp_kwargs)
        # As if gradients had come in this order. Where parameters may be left out of a step torch
        # never makes the buckets once more.
        found.reducer._push_all_rebuilt_params()
        is_made = found.reducer._rebuild_buckets()
        self.has_fixed_buckets = is_made or found.find_unused_parameters
        return found

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Block nothing: each mini-batch has weights of its own, and its sum may be added up."""
        # What was accumulated so far is the same at all workers, and weights that sum up to 1 leave
        # it as it is.
        yield

    def post_backward(self, closure_loss: torch.Tensor) -> None:
        """Make sure that all gradients came: who lacks one sums none with those that wait for it.

        Raises:
            RuntimeError: torch's, which it would raise in the next step, where none comes any more.
        """
        super().post_backward(closure_loss)
        cast(DistributedDataParallel, self.model).reducer._check_reducer_finalized()

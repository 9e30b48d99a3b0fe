"""What several workers do not train as one, refused when it shows and not after the training."""

import functools
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from twinrun.errors import TwinrunError
from twinrun.parallel.workers import Workers
from twinrun.trace.fingerprints import fingerprint


class EarlyRefusals(pl.Callback):
    """Compares the parameters of workers behind steps 1, 2, 4, 8, ..., and has no epoch ended."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._steps = 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at what the module's hook says ahead of each step.

        Raises:
            TwinrunError: when it ends an epoch: other workers may go on and wait for this one.
        """
        self._steps = 0
        hook = pl_module.on_train_batch_start

        @functools.wraps(hook)
        def on_train_batch_start(*arguments: Any, **options: Any) -> object:
            found = hook(*arguments, **options)
            if found == -1:
                raise TwinrunError(
                    f"devices: on_train_batch_start of {type(pl_module).__name__} ends an epoch "
                    f"(it returns -1), which needs devices: 1"
                )
            return found

        vars(pl_module)["on_train_batch_start"] = on_train_batch_start

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Compare parameters; here all hooks of the step before have been called.

        Raises:
            TwinrunError: at every worker, if one has others.
        """
        if self._steps and not self._steps & (self._steps - 1):
            check_same_parameters(pl_module, self._workers, f"after step {self._steps}")
        self._steps += 1


def check_same_parameters(module: pl.LightningModule, workers: Workers, when: str) -> None:
    """Make sure that all workers have trained the same network.

    Raises:
        TwinrunError: at every worker, if a parameter differs.
    """
    if workers.count == 1:
        return
    # DDP sums gradients and never compares parameters: a drift would stay unseen.
    first, *others = workers.everyones(_prints(module))
    for number, other in enumerate(others, 2):
        for name in first:
            if other[name] != first[name]:
                raise TwinrunError(
                    f"devices: {name} of worker {number} is not that of worker 1 {when}; each "
                    f"worker draws random numbers of its own in its steps, so that none may be "
                    f"drawn there for weights or gradients (noise in a hook or an optimizer); and "
                    f"neither the optimizer's step, nor a change of weights in the forward pass "
                    f"(max_norm of an embedding, say), nor a hook that goes by a shard's loss or "
                    f"batch (another rate, gradients left out), nor gradients that a module "
                    f"computes by itself (by torch.autograd.grad, or by a backward pass of its "
                    f"own: nothing sums them over the workers; say self.manual_backward(loss) for "
                    f"loss.backward()) may depend on a worker's shard"
                )


def _prints(module: pl.LightningModule) -> Mapping[str, int]:
    return {name: fingerprint(parameter) for name, parameter in module.named_parameters()}

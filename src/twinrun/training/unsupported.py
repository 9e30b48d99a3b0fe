"""What of Lightning a run cannot do, refused by name before the first step.

docs/audit-your-module.md lists what works. What is refused here would train, but could not be
traced, compared or counted, and would fail later with words of somebody else.
"""

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.nn.parameter import is_lazy

from twinrun.errors import TwinrunError

# Types that can be written and compared; see `artifacts` and `distances`.
DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}
_FILL = ("setup", "configure_model")
# Optimizers compute the same of both: torch's own take a complex one apart in this way.
_PAIRS = (
    "make it of real numbers, with real and imaginary parts in a last dimension of 2 "
    "(torch.view_as_real of its values), and use torch.view_as_complex of it in forward"
)


def check_tensors(module: pl.LightningModule, *, is_set_up: bool = True) -> None:
    """Refuse parameters and buffers that have no values yet, or values that cannot be compared.

    Args:
        module: that is to be trained.
        is_set_up: by its hooks, which may give lazy layers their weights (by a forward pass).

    Raises:
        TwinrunError: naming the first of them.
    """
    may_come = not is_set_up and any(is_overridden(name, module) for name in _FILL)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            if may_come:
                continue
            raise TwinrunError(
                f"module: {name} of {type(module).__name__} belongs to a lazy layer, which has no "
                f"weights before the first step; give the layer its sizes, or call it in setup"
            )
        if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
            kind = tensor.dtype if tensor.layout is torch.strided else tensor.layout
            is_complex = tensor.layout is torch.strided and tensor.is_complex()
            cure = _PAIRS if is_complex else "keep it out of the module's parameters and buffers"
            raise TwinrunError(
                f"module: {name} of {type(module).__name__} is {kind}, which cannot be compared; "
                f"{cure}"
            )


class Supported(pl.Callback):
    """Refuses what shows only when the Trainer has set up the module and looked at the loaders."""

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse late tensors, an end that the clock sets, and accumulation that is told twice."""
        check_tensors(pl_module)
        for callback in vars(trainer)["callbacks"]:
            if isinstance(callback, pl.callbacks.Timer) and callback.time_remaining() is not None:
                raise TwinrunError(
                    f"trainer.callbacks: {type(callback).__name__} ends the training by the clock, "
                    f"which does not repeat; end it by epochs or max_steps"
                )
        kind = pl.callbacks.GradientAccumulationScheduler
        schedulers = [c for c in vars(trainer)["callbacks"] if isinstance(c, kind)]
        if len(schedulers) > 1 or (schedulers and trainer.accumulate_grad_batches != 1):
            raise TwinrunError(
                f"accumulate: a {kind.__name__} of the module or of trainer.callbacks decides into "
                f"how many parts a mini-batch is cut, and so does accumulate of the variant or "
                f"trainer.accumulate_grad_batches; leave the callback out, and write its epochs as "
                f"trainer.accumulate_grad_batches, such as {{0: 1, 4: 2}}"
            )

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse tensors that it has made under way: no reader could take them from the files."""
        check_tensors(pl_module)


def wrong_package(found: object) -> str:
    """Say if a class comes from the other package that Lightning is published in."""
    other = "lightning.pytorch" if pl.__name__ == "pytorch_lightning" else "pytorch_lightning"
    is_other = any(base.__module__.startswith(other) for base in getattr(found, "__mro__", ()))
    return f", but of {other}, which was imported before twinrun" if is_other else ""

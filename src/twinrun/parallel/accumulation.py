"""Mini-batches cut into micro-batches whose gradients are accumulated before the optimizer steps.

Lightning accumulates over several batches of a loader. Here the loader's batches stay what they are
and each is cut, so that the order, the mini-batches and every random number drawn to prepare them
are those of a training that does not accumulate, unless steps draw, too: see `drawn_in_steps`. A
micro-batch of m_j samples of M counts with weight m_j / M, so that the sum of their gradients is
that of the mean over the mini-batch. A step, its loss, its logs and its fingerprints are those of
the whole mini-batch.

Hooks around a step are those of the mini-batch too: `on_train_batch_start` and `on_train_batch_end`
of the module and of its callbacks, and `on_after_backward`, are called once: the first with the
first micro-batch, the others with the last one; for those of zero_grad see `late_zero_grad`. All
that are given a number, `optimizer_step` too, are given the mini-batch's. A moving average that one
of them keeps would else be moved by every micro-batch. An optimizer that has its closure compute
the gradients again is refused: that would be those of the last micro-batch alone. A schedule of
steps counts mini-batches, and so does the loader that a module finds; `num_training_batches`
micro-batches.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Literal, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.utilities.types import STEP_OUTPUT
from torch.utils.data import DataLoader

from twinrun.batches import tensors
from twinrun.copied_batches import with_tensors
from twinrun.errors import TwinrunError
from twinrun.parallel.asked_ends import AskedEnds
from twinrun.parallel.counted_by_trainer import (
    check_accumulated,
    check_callbacks,
    count_micro_batches,
)
from twinrun.parallel.drawn_in_steps import DrawnInSteps
from twinrun.parallel.kept_by_parts import KeptByParts
from twinrun.parallel.late_zero_grad import LateZeroGrad
from twinrun.parallel.logged_sizes import LoggedSizes
from twinrun.parallel.micro_batch_logs import EACH, MicroBatchLogs
from twinrun.parallel.micro_batches import MicroBatches, computed_again, not_cut, without_length
from twinrun.parallel.moved_tensors import MovedTensors
from twinrun.parallel.own_request import exchange_for_trainer
from twinrun.parallel.read_outputs import position_in, reads
from twinrun.parallel.whole_steps import PART, SeenInSteps, WholeSteps
from twinrun.returned_loss import loss_of

# With which micro-batch a hook is called; others Lightning calls once for a mini-batch by itself.
When = Literal["first", "last", "as always"]
# Each with the argument that is the batch's number, if it has one.
HOOKS: dict[str, tuple[When, int | None]] = {
    "on_train_batch_start": ("first", -1),
    "on_train_batch_end": ("last", -1),
    "on_after_backward": ("last", None),
    "optimizer_step": ("as always", 1),
    "optimizer_zero_grad": ("as always", 1),
}


class HooksOfSteps:
    """Calls hooks of a module or callback once for each mini-batch."""

    def __init__(self, made: list[MicroBatches], number: int, drawn: DrawnInSteps) -> None:
        self.of_last: set[str] = set()
        """Hooks that read more than the loss of what a step gave: of the last micro-batch."""
        self._made, self._number, self._drawn = made, number, drawn

    @property
    def number(self) -> int:
        """The micro-batches of a mini-batch."""
        return self._number

    def watch(
        self,
        owner: pl.LightningModule | pl.Callback,
        kind: type[pl.LightningModule] | type[pl.Callback],
    ) -> None:
        """Exchange the hooks that an owner has of its own for those of whole steps."""
        for name in HOOKS:
            plain = getattr(kind, name, None)
            if plain is None:  # a callback has no part in the update
                continue
            is_own = name in vars(owner) or getattr(type(owner), name) is not plain
            if is_own:
                vars(owner)[name] = self._of_step(getattr(owner, name), name, owner)

    def _of_step(
        self,
        hook: Callable[..., object],
        name: str,
        owner: pl.LightningModule | pl.Callback,
    ) -> Callable[..., object]:
        when, number = HOOKS[name]
        asks = name == "on_train_batch_end" and reads(hook, position_in(owner), but="loss")

        @functools.wraps(hook)
        def of_step(*arguments: object, **options: object) -> object:
            if not self._is_called(when):
                return None
            if number is not None:
                found = list(arguments)
                found[number] = cast(int, found[number]) // self._number
                if number == -1:
                    is_module = isinstance(owner, pl.LightningModule)
                    trainer = owner.trainer if is_module else cast(pl.Trainer, arguments[0])
                    found[-2] = self._whole(trainer, found[-2])
                    if name == "on_train_batch_end":
                        if asks and isinstance(found[-3], Mapping) and found[-3].keys() != {"loss"}:
                            self.of_last.add(f"{type(owner).__name__}.{name}")
                        found[-3] = self._outputs(trainer, found[-3])
                arguments = tuple(found)
            with self._drawn.once() if when == "first" else nullcontext():
                return hook(*arguments, **options)

        return of_step

    def _whole(self, trainer: pl.Trainer, part: object) -> object:
        """Return the mini-batch in the place of a micro-batch; a hook may change it in place."""
        device = next((tensor.device for tensor in tensors(part)), trainer.strategy.root_device)
        # The Trainer converts and moves each micro-batch, and never sees the whole one.
        whole = trainer.precision_plugin.convert_input(self._made[0].whole)
        return with_tensors(whole, lambda tensor: tensor.to(device))

    def _outputs(self, trainer: pl.Trainer, outputs: object) -> object:
        """Return what a step gave, with the loss of the mini-batch."""
        loss = self._made[0].loss
        if loss is None or not isinstance(outputs, Mapping) or "loss" not in outputs:
            return outputs
        return {**outputs, "loss": loss / trainer.accumulate_grad_batches}

    def _is_called(self, when: When) -> bool:
        made = self._made[0]
        return when == "as always" or (made.is_last if when == "last" else made.part == 0)


def accumulate(
    module: pl.LightningModule,
    data: pl.LightningDataModule,
    *,
    micro_batches: int,
    accumulated: int | Mapping[int, int],
) -> WholeSteps:
    """Have a module train on micro-batches; the Trainer must accumulate as many.

    Args:
        module: its `training_step` is exchanged for one that weighs them.
        data: of its training loader the Trainer gets micro-batches.
        micro_batches: of each mini-batch, at least 2.
        accumulated: how many of them the Trainer is told to accumulate, by the epoch from which on
            where that changes.

    Returns:
        The tracer of the training.

    Raises:
        TwinrunError: if the module optimizes manually; later, if a mini-batch cannot be cut, an
            optimizer has the gradients of a step computed again, or somebody else tells the Trainer
            how many to accumulate.
    """
    if not module.automatic_optimization:
        raise TwinrunError(
            f"accumulate: {type(module).__name__} optimizes manually and has to accumulate by "
            f"itself; say accumulate: 1"
        )
    made: list[MicroBatches] = []
    drawn = DrawnInSteps()

    def cut(loader: object, trainer: pl.Trainer) -> MicroBatches:
        if (why := without_length(loader)) is not None:
            raise not_cut(why)
        loader = cast(DataLoader, loader)
        # In place, since the tracer and the step hold this list.
        made[:] = [MicroBatches(loader, micro_batches, drawn)]
        # It does so of every loader that is not torch's; see `_check_dataloader_iterable`.
        made[0].is_to_be_checked = True
        count_micro_batches(trainer, len(loader), micro_batches)
        return made[0]

    exchange_for_trainer(data, cut)
    hooks = HooksOfSteps(made, micro_batches, drawn)
    _watch_hooks(module, hooks, LateZeroGrad(made))
    seen = SeenInSteps(MovedTensors(module, made), KeptByParts(module, made), AskedEnds(*PART))
    seen.ends.watch(module, made)
    sizes = LoggedSizes()
    _weigh(module, made, accumulated, MicroBatchLogs(module, made, sizes))
    return WholeSteps(made, seen, sizes, drawn, hooks.of_last)


def _weigh(
    module: pl.LightningModule,
    made: list[MicroBatches],
    accumulated: int | Mapping[int, int],
    logs: MicroBatchLogs,
) -> None:
    """Have a module compute micro-batches, with the losses and logs of mini-batches."""
    plain_step = module.training_step

    # Lightning reads the signature of `training_step` to choose what it hands over.
    @functools.wraps(plain_step)
    def training_step(*arguments: object, **options: object) -> STEP_OUTPUT:
        if module._current_fx_name != "training_step":  # a module may evaluate by it
            return plain_step(*arguments, **options)
        batches = made[0]
        check_accumulated(module.trainer, accumulated)
        if batches.is_computed:
            raise computed_again(module.trainer.optimizers[0])
        batches.is_computed = True
        if len(arguments) > 1:  # a step may do without the number of its batch
            number = cast(int, arguments[1]) // batches.number
            arguments = (arguments[0], number, *arguments[2:])
        logs.begin()
        found = _weighted(plain_step(*arguments, **options), batches.factor)
        if batches.is_last:
            logs.end("training_step")
        loss = loss_of(found)
        if loss is not None:
            batches.loss = loss.detach() if batches.loss is None else batches.loss + loss.detach()
        return found

    after_backward = module.on_after_backward

    @functools.wraps(after_backward)
    def on_after_backward() -> None:
        if made[0].is_last:
            logs.end(*EACH)
        after_backward()

    update = module.optimizer_step

    @functools.wraps(update)
    def optimizer_step(
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], object] | None = None,
    ) -> None:
        def closure() -> object:
            assert optimizer_closure is not None  # noqa: S101  Lightning always gives one
            found, loss = optimizer_closure(), made[0].loss
            # Lightning's is that of the last micro-batch, and an optimizer may go by it.
            is_there = found is not None and loss is not None
            return loss / module.trainer.accumulate_grad_batches if is_there else found

        update(epoch, batch_idx, optimizer, closure)

    module.training_step, module.optimizer_step = training_step, optimizer_step
    module.on_after_backward = on_after_backward


def _weighted(found: STEP_OUTPUT, factor: float) -> STEP_OUTPUT:
    # Micro-batches of one size add no operation to the step.
    if factor == 1 or found is None:
        return found
    if isinstance(found, Mapping):
        return {**found, "loss": found["loss"] * factor}
    # ASSUME the loss is a mean over the samples.
    return found * factor


def _watch_hooks(module: pl.LightningModule, steps: HooksOfSteps, late: LateZeroGrad) -> None:
    """Have the hooks of a module, and of the callbacks that it brings, called once a mini-batch."""
    steps.watch(module, pl.LightningModule)
    begin = module.on_fit_start

    @functools.wraps(begin)
    def on_fit_start() -> None:
        check_callbacks(module.trainer)
        for optimizer in module.trainer.optimizers:
            if isinstance(optimizer, torch.optim.LBFGS):  # others are known when they do so
                raise computed_again(optimizer)
        # Lightning asks whether the number of the batch is a multiple of `frequency`.
        for config in module.trainer.lr_scheduler_configs:
            if config.interval == "step":
                config.frequency *= steps.number
        late.watch(module)
        begin()

    module.on_fit_start = on_fit_start
    plain = module.configure_callbacks

    @functools.wraps(plain)
    def configure_callbacks() -> list[pl.Callback]:
        found = plain()
        callbacks = list(found) if isinstance(found, Sequence) else [found]
        for callback in callbacks:
            steps.watch(callback, pl.Callback)
        return callbacks

    module.configure_callbacks = configure_callbacks

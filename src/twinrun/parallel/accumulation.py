"""Mini-batches cut into micro-batches whose gradients are accumulated before the optimizer steps.

Lightning accumulates over several batches of a loader. Here the loader's batches stay what they are
and each is cut, so that the order, the mini-batches and every random number drawn to prepare them
are those of a training that does not accumulate. A micro-batch of m_j samples of M counts with
weight m_j / M, so that the sum of their gradients is that of the mean over the mini-batch. A step,
its loss and its fingerprints are those of the whole mini-batch.

Hooks around a step are those of the mini-batch too: `on_train_batch_start` and `on_train_batch_end`
of the module and of its callbacks, and `on_after_backward`, are called once: the first with the
first micro-batch, the others with the last one, and all with the mini-batch's number. A moving
average that one of them keeps would else be moved by every micro-batch. A schedule of steps counts
mini-batches, and so does the loader that a module finds. What the Trainer counts is micro-batches
(`num_training_batches`).
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.connectors.data_connector import _parse_num_batches
from pytorch_lightning.trainer.states import RunningStage
from pytorch_lightning.utilities.types import STEP_OUTPUT
from torch.utils.data import DataLoader

from twinrun.batches import leaves, tensors, with_tensors
from twinrun.errors import TwinrunError
from twinrun.parallel.batch_sharding import shards
from twinrun.parallel.own_request import exchange_for_trainer
from twinrun.trace.loss import loss_of
from twinrun.trace.step_tracer import Tracer


class MicroBatches:
    """Stands in for a training loader: yields each of its mini-batches in micro-batches."""

    def __init__(self, loader: DataLoader, number: int) -> None:
        self.whole: object = None
        """The mini-batch under way."""
        self.factor = 1.0
        """By how much a micro-batch counts more than an equal one: m_j / M x their number."""
        self.part = 0
        """Which micro-batch of it is under way, from 0."""
        # Where Lightning looks for `set_epoch`.
        self.sampler, self.batch_sampler = loader.sampler, loader.batch_sampler
        self.is_to_be_checked = False
        """Whether Lightning is about to ask for an iterator only to see that there is one."""
        self._loader, self._number = loader, number

    @property
    def number(self) -> int:
        """The micro-batches of a mini-batch."""
        return self._number

    def __len__(self) -> int:
        # Lightning takes the batches of an epoch from it (`num_training_batches`).
        return len(self._loader) * self._number

    def __iter__(self) -> Iterator[object]:
        if self.is_to_be_checked:
            self.is_to_be_checked = False
            return iter(())
        # Begun now, since a loader draws where its iterator is made.
        return self._parts(iter(self._loader))

    def _parts(self, batches: Iterator[object]) -> Iterator[object]:
        for whole in batches:
            self.whole, size = whole, _size(whole)
            # A micro-batch of no samples has no mean.
            if size < self._number:
                raise _not_cut(
                    f"a mini-batch of {size} is not enough for {self._number} micro-batches"
                )
            start = 0
            for part, shard in enumerate(shards(size, self._number)):
                self.part = part
                # Lightning divides each loss by accumulate_grad_batches; what is left is m_j / M.
                self.factor = self._number * shard / size
                yield _cut(whole, start, start + shard)
                start += shard


class HooksOfSteps:
    """Calls hooks of a module or callback once for each mini-batch."""

    def __init__(self, made: list[MicroBatches], number: int) -> None:
        self._made, self._number = made, number

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
        for name, decide in (
            ("on_train_batch_start", self._is_first),
            ("on_train_batch_end", self._is_last),
            ("on_after_backward", self._is_last),
        ):
            is_own = name in vars(owner) or getattr(type(owner), name) is not getattr(kind, name)
            if is_own:
                has_index = name != "on_after_backward"
                hook = self._of_step(getattr(owner, name), decide, has_index=has_index)
                vars(owner)[name] = hook

    def _is_first(self) -> bool:
        return self._made[0].part == 0

    def _is_last(self) -> bool:
        return self._made[0].part == self._number - 1

    def _of_step(
        self, hook: Callable[..., object], is_called: Callable[[], bool], *, has_index: bool
    ) -> Callable[..., object]:
        @functools.wraps(hook)
        def of_step(*arguments: object) -> object:
            if not is_called():
                return None
            if has_index:
                arguments = (*arguments[:-1], cast(int, arguments[-1]) // self._number)
            return hook(*arguments)

        return of_step


class WholeSteps(Tracer):
    """Traces steps as if the mini-batches had not been cut."""

    def __init__(self, made: list[MicroBatches], number: int) -> None:
        super().__init__()
        self._made, self._number = made, number
        self._losses: list[torch.Tensor] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Begin a step with its first micro-batch."""
        step, index = divmod(batch_idx, self._number)
        if index == 0 or not self._start:  # a training may be resumed between two of them
            self._losses = []
            # The Trainer converts each micro-batch and never sees the whole one.
            whole = trainer.precision_plugin.convert_input(self._made[0].whole)
            super().on_train_batch_start(trainer, pl_module, whole, step)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """End it with its last one; Lightning has divided each loss by their number."""
        loss = loss_of(outputs)
        self._losses += [] if loss is None else [loss]
        step, index = divmod(batch_idx, self._number)
        if index == self._number - 1:
            total = torch.stack(self._losses).sum() if self._losses else None
            super().on_train_batch_end(trainer, pl_module, total, self._made[0].whole, step)


def accumulate(
    module: pl.LightningModule, data: pl.LightningDataModule, *, micro_batches: int
) -> WholeSteps:
    """Have a module train on micro-batches; the Trainer must accumulate as many.

    Args:
        module: its `training_step` is exchanged for one that weighs them.
        data: of its training loader the Trainer gets micro-batches.
        micro_batches: of each mini-batch, at least 2.

    Returns:
        The tracer of the training.

    Raises:
        TwinrunError: if the module optimizes manually; later, if a mini-batch cannot be cut.
    """
    if not module.automatic_optimization:
        raise TwinrunError(
            f"accumulate: {type(module).__name__} optimizes manually and has to accumulate by "
            f"itself; say accumulate: 1"
        )
    made: list[MicroBatches] = []
    asked: list[tuple[int | float, int | float]] = []
    plain_step = module.training_step

    def cut(loader: object, trainer: pl.Trainer) -> MicroBatches:
        if not isinstance(loader, DataLoader) or not hasattr(loader.dataset, "__len__"):
            raise _not_cut(
                f"train_dataloader gives a {type(loader).__name__}, where a torch DataLoader with "
                f"a length is needed"
            )
        # In place, since the tracer and the step hold this list.
        made[:] = [MicroBatches(loader, micro_batches)]
        # It does so of every loader that is not torch's; see `_check_dataloader_iterable`.
        made[0].is_to_be_checked = True
        # Kept, since the loader may be made anew.
        asked[:] = asked or [(trainer.limit_train_batches, trainer.val_check_interval)]
        _count_micro_batches(trainer, len(loader), *asked[0], micro_batches)
        return made[0]

    # Lightning reads the signature of `training_step` to choose what it hands over.
    @functools.wraps(plain_step)
    def training_step(*arguments: object, **options: object) -> STEP_OUTPUT:
        if len(arguments) > 1:  # a step may do without the number of its batch
            arguments = (arguments[0], cast(int, arguments[1]) // micro_batches, *arguments[2:])
        found, factor = plain_step(*arguments, **options), made[0].factor
        # Micro-batches of one size add no operation to the step.
        if factor == 1 or found is None:
            return found
        if isinstance(found, Mapping):
            return {**found, "loss": found["loss"] * factor}
        # ASSUME the loss is a mean over the samples.
        return found * factor

    module.training_step = training_step
    exchange_for_trainer(data, cut)
    _watch_hooks(module, HooksOfSteps(made, micro_batches))
    return WholeSteps(made, micro_batches)


def _count_micro_batches(
    trainer: pl.Trainer,
    batches: int,
    limit: int | float,
    interval: int | float,
    micro_batches: int,
) -> None:
    """Have a Trainer, which counts micro-batches, do what it was told of mini-batches."""
    if (limit, interval) == (1.0, 1.0) and isinstance(limit, float) and isinstance(interval, float):
        return
    # A part is rounded to whole mini-batches, as Lightning rounds it.
    most = _parse_num_batches(RunningStage.TRAINING, batches, limit)
    every = interval if isinstance(interval, int) else max(1, int(most * interval))
    trainer.limit_train_batches = int(most * micro_batches)
    trainer.val_check_interval = every * micro_batches


def _watch_hooks(module: pl.LightningModule, steps: HooksOfSteps) -> None:
    """Have the hooks of a module, and of the callbacks that it brings, called once a mini-batch."""
    steps.watch(module, pl.LightningModule)
    begin = module.on_fit_start

    @functools.wraps(begin)
    def on_fit_start() -> None:
        # Lightning asks whether the number of the batch is a multiple of `frequency`.
        for config in module.trainer.lr_scheduler_configs:
            if config.interval == "step":
                config.frequency *= steps.number
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


def _size(batch: object) -> int:
    """Return the samples of a mini-batch: the length that all its tensors share."""
    found = [leaf for _, leaf in leaves(batch)]
    others = [type(leaf).__name__ for leaf in found if not isinstance(leaf, torch.Tensor)]
    if others:
        raise _not_cut(f"a mini-batch holds a {others[0]}, where tensors are needed")
    # ASSUME a sample is one row of every tensor.
    lengths = {len(tensor) if tensor.ndim else 0 for tensor in tensors(batch)}
    if len(lengths) != 1:
        raise _not_cut(f"a mini-batch holds tensors of {len(lengths)} lengths")
    return lengths.pop()


def _cut(batch: object, start: int, end: int) -> object:
    return with_tensors(batch, lambda tensor: tensor[start:end])


def _not_cut(why: str) -> TwinrunError:
    return TwinrunError(f"accumulate: {why}; say accumulate: 1")

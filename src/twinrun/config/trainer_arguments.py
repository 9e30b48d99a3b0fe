"""What a workload tells Lightning's Trainer, and how long a training is by it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrainerArguments:
    """Arguments of Lightning's Trainer that say what is trained, under their names there."""

    gradient_clip_val: float | None = None
    """Most that the gradients' norm, or each of their values, may be; None clips nothing."""
    gradient_clip_algorithm: str | None = None
    """`norm` of all gradients together, which None stands for, or each `value`.

    Told one, Lightning refuses a module that clips by itself by another one.
    """
    callbacks: list[Any] = field(default_factory=list)
    """Each by its class, `{class_path: ..., init_args: {...}}`; a training has its own."""
    logger: Any = None
    """Likewise; one or a list of them."""
    max_steps: int = -1
    """Optimizer steps after which the training ends; -1 for no limit."""
    min_epochs: int | None = None
    """Epochs before which nothing may stop it early."""
    min_steps: int | None = None
    """Optimizer steps before which nothing may."""
    accumulate_grad_batches: int | dict[str, int] = 1
    """Mini-batches whose gradients make a step; or from which epoch on how many, keys from JSON."""
    val_check_interval: int | float | None = None
    """After which part of an epoch, or after how many mini-batches, it is validated."""
    check_val_every_n_epoch: int | None = 1
    """In every which epoch; None counts mini-batches through all epochs."""
    limit_train_batches: int | float | None = None
    """Part of an epoch's mini-batches, or their number; likewise the next three."""
    limit_val_batches: int | float | None = None
    """Of validation."""
    limit_test_batches: int | float | None = None
    """Of the test."""
    limit_predict_batches: int | float | None = None
    """Of the prediction."""
    overfit_batches: int | float = 0.0
    """Of training and validation, without shuffling; 0 for all."""
    num_sanity_val_steps: int = 0
    """Validation batches before the first step; -1 for all. A `cli` workload has Lightning's 2."""
    reload_dataloaders_every_n_epochs: int = 0
    """After how many epochs the loaders are made anew; 0 for never."""
    inference_mode: bool = True
    """Whether validation, test and prediction are in torch's inference mode."""
    enable_model_summary: bool = True
    """Whether `forward` is called with the module's `example_input_array` before the first step."""

    def accumulation(self, micro_batches: int = 1) -> int | dict[int, int]:
        """Return how many batches make a step, by epoch where that changes.

        Args:
            micro_batches: that each mini-batch is cut into.

        >>> TrainerArguments(accumulate_grad_batches={"0": 1, "4": 2}).accumulation(3)
        {0: 3, 4: 6}
        """
        told = self.accumulate_grad_batches
        if isinstance(told, int):
            return told * micro_batches
        # As Lightning's GradientAccumulationScheduler: 1 before the first epoch that is named.
        numbers = {0: 1, **{int(epoch): number for epoch, number in told.items()}}
        return {epoch: numbers[epoch] * micro_batches for epoch in sorted(numbers)}

    def with_whole_updates(self, batches: int) -> int:
        """Return the next number of batches behind which no gradients wait for others.

        >>> TrainerArguments(accumulate_grad_batches=4).with_whole_updates(10)
        12
        """
        told = self.accumulate_grad_batches
        number = told if isinstance(told, int) else max(told.values())
        return -(-batches // number) * number

    def batches_taken(self, epochs: int, batches: int) -> int:
        """Return how many mini-batches a training takes that nothing stops early.

        Args:
            epochs: of the training; -1 for no limit.
            batches: of an epoch.

        >>> TrainerArguments(accumulate_grad_batches=2, max_steps=5).batches_taken(-1, 3)
        8
        """
        taken, left = 0, self.max_steps if self.max_steps != -1 else math.inf
        for number in self._of_each_epoch(epochs):
            steps = -(-batches // number)  # Lightning steps at the last batch, too
            if steps >= left:
                # The last one of an epoch may be of fewer batches.
                return taken + min(int(left) * number, batches)
            taken, left = taken + batches, left - steps
        return taken

    def batches_of_steps(self) -> int | None:
        """Return the most mini-batches that `max_steps` may be; None without it.

        >>> TrainerArguments(accumulate_grad_batches=2, max_steps=5).batches_of_steps()
        10
        """
        numbers = self.accumulation()
        most = max(numbers.values()) if isinstance(numbers, dict) else numbers
        return None if self.max_steps == -1 else self.max_steps * most

    def _of_each_epoch(self, epochs: int) -> Iterator[int]:
        numbers = self.accumulation()
        numbers, number, epoch = numbers if isinstance(numbers, dict) else {0: numbers}, 1, 0
        while epoch != epochs:
            number = numbers.get(epoch, number)
            yield number
            epoch += 1

"""The beginning of a training, to which a timing of more steps than the training goes back."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.loops.progress import _BaseProgress
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._pytree import tree_leaves


class Beginning:
    """What a training begins with, and a module sees and may change on the way.

    Counts, schedules, which parameters are trained, groups, settings and hooks of the optimizers.
    """

    def __init__(self, trainer: pl.Trainer) -> None:
        """Keep it."""
        self._progress = {name: copy.deepcopy(of.state_dict()) for name, of in _counts(trainer)}
        self._configs = list(trainer.lr_scheduler_configs)
        self._schedules = [
            copy.deepcopy(config.scheduler.state_dict()) for config in trainer.lr_scheduler_configs
        ]
        self._own_schedules = [(s, copy.deepcopy(s.state_dict())) for s in _held_schedules(trainer)]
        self._options = [
            [_options(group) for group in optimizer.param_groups]
            for optimizer in trainer.optimizers
        ]
        self._hooks = [
            [dict(hooks) for hooks in _hooks(optimizer)] for optimizer in trainer.optimizers
        ]
        self._trained = {
            name: parameter.requires_grad
            for name, parameter in trainer.lightning_module.named_parameters()
        }

    def restore(self, trainer: pl.Trainer) -> None:
        """Put it back; weights and the state of the optimizers go on."""
        for name, of in _counts(trainer):
            of.load_state_dict(copy.deepcopy(self._progress[name]))
        # The loaders at hand count as those of the first epoch.
        trainer.fit_loop._last_train_dl_reload_epoch = 0
        # A callback may have put another schedule in place, as StochasticWeightAveraging does.
        trainer.strategy.lr_scheduler_configs = list(self._configs)
        for config, state in zip(self._configs, self._schedules, strict=True):
            config.scheduler.load_state_dict(copy.deepcopy(state))
        for schedule, state in self._own_schedules:
            schedule.load_state_dict(copy.deepcopy(state))
        for optimizer, options, hooks in zip(
            trainer.optimizers, self._options, self._hooks, strict=True
        ):
            # Groups may have been added, which would be added once more.
            del optimizer.param_groups[len(options) :]
            for group, before in zip(optimizer.param_groups, options, strict=True):
                group.update(before)
            for own, before in zip(_hooks(optimizer), hooks, strict=True):
                for added in [key for key in own if key not in before]:
                    del own[added]
        for name, parameter in trainer.lightning_module.named_parameters():
            parameter.requires_grad_(self._trained.get(name, parameter.requires_grad))


def _held_schedules(trainer: pl.Trainer) -> list[LRScheduler]:
    """Return the schedules that a module keeps, and steps by itself."""
    kept = tree_leaves(dict(vars(trainer.lightning_module)))
    return [each for each in kept if isinstance(each, LRScheduler)]


class Recurring:
    """Has a training of bare steps begin again where it is over.

    A module may read the number of the step, or step schedules that may not be stepped beyond their
    end.
    """

    def __init__(self, trainer: pl.Trainer, epochs: int) -> None:
        """Keep the beginning; before the first step."""
        self._trainer, self._epochs = trainer, epochs
        self._beginning = Beginning(trainer)
        self._done = 0  # batches since the training began, or began again

    def cut(self, calls: int) -> Iterator[int]:
        """Yield parts of some steps, each to be done before the next one is asked for."""
        while calls:
            part = max(1, int(min(calls, self._left())))
            yield part
            calls -= part
            self._done += part
            if self._left() < 1:
                self._beginning.restore(self._trainer)
                self._done = 0

    def _left(self) -> float:
        """Return how many batches the training still takes; infinity where nobody knows."""
        trainer, done = self._trainer, self._done
        epochs = self._epochs if self._epochs > -1 else math.inf
        left = epochs * trainer.num_training_batches - done
        if trainer.max_steps > -1:
            # The first batch shows how many updates one has: each optimizer's count.
            of_batch = trainer.global_step / done if done else trainer.max_steps
            left = min(left, (trainer.max_steps - trainer.global_step) / max(of_batch, 1e-9))
        return left


def _hooks(optimizer: torch.optim.Optimizer) -> list[dict[int, Callable[..., object]]]:
    hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    # torch types each by the signature of its functions.
    return [cast(dict[int, Callable[..., object]], each) for each in hooks]


def _options(group: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in group.items() if key != "params"}


def _counts(trainer: pl.Trainer) -> list[tuple[str, _BaseProgress]]:
    loop = trainer.fit_loop
    steps = loop.epoch_loop
    return [
        ("epochs", loop.epoch_progress),
        ("batches", steps.batch_progress),
        ("schedules", steps.scheduler_progress),
        ("updates", steps.automatic_optimization.optim_progress),
        ("manual updates", steps.manual_optimization.optim_step_progress),
    ]

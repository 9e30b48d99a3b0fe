"""What each of several workers draws: in the steps numbers of its own, elsewhere the first one's.

A data module may split its samples at random in `setup`, a module draw a mask there, a loader be
made of other samples in each epoch. What is drawn there must be the same at every worker: it is
drawn from the first worker's states of the global generators, which are those of a single process
until a step draws: see `drawn_in_steps`.
In the steps each worker draws for a shard of its own, and so from states of its own: dropout must
not repeat itself in every shard.
"""

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.seed import _collect_rng_states, _set_rng_states
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.data import DataLoader

from twinrun.parallel.drawn_for_samples import DrawnForSamples
from twinrun.parallel.drawn_in_steps import DrawnInSteps
from twinrun.parallel.joined_logs import is_users
from twinrun.parallel.same_data import check_same_data
from twinrun.parallel.workers import Workers
from twinrun.process.determinism import RNGStates, restore_rng_states, rng_states
from twinrun.wording import some

States: TypeAlias = tuple[dict[str, Any], torch.Tensor | None]
"""Of the generators of Python, NumPy and torch, and of the worker's own GPU."""


class OwnDraws(pl.Callback):
    """Has a worker draw its own numbers or the first one's; the first worker has no others."""

    def __init__(self, workers: Workers, seed: int, data: pl.LightningDataModule) -> None:
        """Begin with the first one's, which all workers have at this moment.

        Args:
            workers: this worker and the others.
            seed: of the run.
            data: whose `setup` all workers begin with the same states.
        """
        self.drawn = DrawnInSteps()
        """From which generators steps, samples and mini-batches are drawn."""
        self._samples = DrawnForSamples(self.drawn)
        self.unlike: set[str] = set()
        """What mini-batches are drawn by and steps have made another thing at each worker."""
        self._workers = workers
        self._is_apart = False
        # The sum of seed and rank would be the seed of another run.
        self._seed = int(np.random.SeedSequence((seed, workers.rank)).generate_state(1)[0])
        with isolate_rng(include_cuda=False):
            random.seed(self._seed)
            np.random.seed(self._seed)
            torch.default_generator.manual_seed(self._seed)
            self._own: States = _collect_rng_states(include_cuda=False), None
        setup = data.setup

        @functools.wraps(setup)
        def set_up(*arguments: Any, **options: Any) -> None:
            # Lightning calls `prepare_data` at the first worker alone, and it may have drawn.
            if data.trainer is not None:
                self._align()
            setup(*arguments, **options)

        data.setup = set_up

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Have the steps of each epoch, with the reading of its batches, draw own numbers.

        Loaders are made, and the hooks called that begin or end an epoch, outside of them. So is a
        validation: each worker does it on the whole set, and what stops a training, or sets its
        rate, may go by it.
        """
        loop = trainer.fit_loop
        advance = loop.advance

        @functools.wraps(advance)
        def in_own_numbers() -> None:
            with self.own():
                advance()

        vars(loop)["advance"] = in_own_numbers
        self.drawn.watch(trainer)
        for owner in (pl_module, *vars(trainer)["callbacks"]):
            if is_users(owner.on_train_batch_start):  # each look takes time
                vars(owner)["on_train_batch_start"] = self._once(owner.on_train_batch_start)
        validation = loop.epoch_loop.val_loop
        validate = validation.run

        @functools.wraps(validate)
        def in_everyones_numbers() -> object:
            with self.everyones():
                return validate()

        vars(validation)["run"] = in_everyones_numbers

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Make sure that all workers have made the same of the same numbers.

        Raises:
            TwinrunError: if they train or validate on other samples all the same.
        """
        check_same_data(self._workers, "train_dataloader", trainer.train_dataloader)
        check_same_data(self._workers, "val_dataloader", trainer.val_dataloaders)

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        """End the part of a step that draws for samples."""
        self.drawn.begin_backward()

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """End what is drawn for a shard; by hand a step may compute more behind an update."""
        if pl_module.automatic_optimization:
            self.drawn.end_step()

    def prepare(self, loader: DataLoader, trainer: pl.Trainer) -> None:
        """Have a loader of shards make its iterators, with their data workers, by own numbers."""
        plain = loader._get_iterator

        def get_iterator() -> object:
            # Lightning makes the first one where it makes the loader.
            if loader.num_workers:
                self.drawn.find(trainer)
            drawn = self.drawn.data(data_workers=loader.num_workers)
            with self.own(), drawn, self._samples.watched(loader):
                return plain()

        vars(loader)["_get_iterator"] = get_iterator

    def of_batches(self) -> Iterator[str]:
        """Say why mini-batches may be others."""
        self._samples.look()
        yield from self.drawn.of_batches("devices", "shard")
        if self.unlike:
            yield (
                f"in part, devices may give other mini-batches: steps change what they are drawn "
                f"by ({some(sorted(self.unlike))}), for each worker by its shards, and the first "
                f"worker alone draws"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the first worker's draws."""
        self._samples.look()
        return {**self.drawn.state(), "unlike": sorted(self.unlike)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what a checkpoint has of them."""
        self.drawn.load(state_dict)
        self.unlike.update(state_dict["unlike"])

    @contextmanager
    def own(self) -> Iterator[None]:
        """Draw this worker's own numbers here, and then the first one's again; all workers come."""
        if self._is_apart:
            yield
            return
        self._is_apart = True
        if not self._workers.is_first:
            self._go_apart()
        yield
        if not self._workers.is_first:
            self._own = _states()
        # What the first one has drawn meanwhile moves all of them on.
        self._align()
        self._is_apart = False

    @contextmanager
    def everyones(self) -> Iterator[None]:
        """Draw the first one's numbers here, in the midst of own ones; all workers come."""
        if not self._is_apart:
            yield
            return
        if not self._workers.is_first:
            self._own = _states()
        self._align()
        self._is_apart = False
        yield
        self._is_apart = True
        if not self._workers.is_first:
            self._go_apart()

    def states(self) -> RNGStates:
        """Return the RNG states by which this worker draws next in its steps, as plain data."""
        if self._is_apart or self._workers.is_first:
            return rng_states()
        with isolate_rng(include_cuda=False):
            _set_states(self._own)
            return rng_states()

    def take(self, states: RNGStates) -> None:
        """Draw by these in the steps that follow; the first worker draws by its global ones."""
        with isolate_rng(include_cuda=False):
            restore_rng_states(states)
            self._own = _states()

    def _once(self, hook: Callable[..., object]) -> Callable[..., object]:
        """Return a hook of whose draws nothing is noted: each worker draws for the mini-batch."""

        @functools.wraps(hook)
        def once(*arguments: Any) -> object:
            with self.drawn.once():
                return hook(*arguments)

        return once

    def _go_apart(self) -> None:
        _set_states(self._own)
        # CUDA has begun since: until now the GPU had everyone's numbers.
        if self._own[1] is None and torch.cuda.is_initialized():
            torch.cuda.manual_seed(self._seed)

    def _align(self) -> None:
        firsts = self._workers.first(_states())
        if not self._workers.is_first:
            _set_states(firsts)


def _states() -> States:
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    return _collect_rng_states(include_cuda=False), gpu


def _set_states(states: States) -> None:
    _set_rng_states(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1])

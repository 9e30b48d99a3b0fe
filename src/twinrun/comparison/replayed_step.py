"""A callback that does a saved step in place of each of the Trainer's, and watches it.

Every operation is traced (see `trace.op_tracer`). Where the step leaves a quantity that a run
fingerprints, the memory that holds it is marked: from there one can go back (see `origin`).
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import pytorch_lightning as pl
import torch
from pytorch_lightning.loops.fetchers import _DataFetcher

from twinrun.checkpoint.stop_request import Stopped
from twinrun.comparison.module_attributes import Attributes, attributes_of, set_attributes
from twinrun.comparison.replay_results import EarlierDifference
from twinrun.comparison.step_state import StepState, set_progress, set_state
from twinrun.parameters import parameters_of
from twinrun.returned_loss import loss_of
from twinrun.trace.data_flow import Region
from twinrun.trace.fingerprints import Print, fingerprint_rng_states
from twinrun.trace.op_rows import AFTER, OpRow, Phase
from twinrun.trace.op_tracer import OpTracer
from twinrun.trace.pending import fetch, value_of
from twinrun.trace.step_fingerprints import StepFingerprints


class Start(TypedDict):
    """What `save_start` writes and `replay` reads."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    batch_idx: int
    """Lightning's, from 0 in each epoch."""
    batch: object
    """Of the step."""
    state: StepState
    """What the step starts with."""
    earlier: EarlierDifference | None
    """Where the training that led to the step was no longer the run's."""
    not_put_back: list[str]
    """What a repeat does not begin with as the step did: weights that no module holds, by name."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tensor, or a generator, of a quantity that a step leaves."""

    quantity: str
    """One of `causes.CAUSE_OF_QUANTITY`."""
    name: str
    """Of the tensor or generator; empty of the loss."""
    content: str
    """Its fingerprint."""
    regions: tuple[Region, ...]
    """Where it is; empty of what is no tensor."""
    before: int
    """How many operations had been done."""
    like: torch.Tensor | None = field(default=None, compare=False)
    """Its one tensor, for type and shape; None of several, or of what is none."""


class Replayer(pl.Callback):
    """Does the saved step as often as asked, always from its start."""

    def __init__(self, start: Start, repeats: int) -> None:
        self._start, self._repeats = start, repeats
        self._done = 0
        self._taken = StepFingerprints()
        self._marks: list[Mark] = []
        self._attributes: dict[str, Attributes] | None = None
        self.updated: int | None = None
        """How many operations had been done behind the last update of a repeat; None before it."""

    def begin_repeat(self) -> None:
        """Prepare for a repeat."""

    def watch(self, row: OpRow, outputs: list[torch.Tensor]) -> None:
        """Look at what an operation gave, while it is there."""

    def end_repeat(self, tracer: OpTracer, marks: list[Mark]) -> None:
        """Take the operations of a repeat, and where it left its quantities."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the saved step in the place of the module's own."""
        step, start = pl_module.training_step, self._start

        @functools.wraps(step)  # Lightning passes what the step's signature asks for
        def saved_step(batch: object, *index: object) -> object:
            # Of a closure that an optimizer calls several times, behind its last backward pass.
            if pl_module.automatic_optimization:
                self._set_phase("forward")
            return step(batch, *([start["batch_idx"]] if index else []))

        # An instance's own attribute: the class stays as it is.
        vars(pl_module)["training_step"] = saved_step
        # The loop counts batches from 0 where it begins: from then on it is at the saved step.
        loop = trainer.fit_loop.epoch_loop
        begin = loop.on_run_start

        def begin_at_the_step(data_fetcher: _DataFetcher) -> None:
            begin(data_fetcher)
            set_progress(trainer, start["state"]["progress"], batches_begun=0)

        vars(loop)["on_run_start"] = begin_at_the_step
        # What is logged adds up from repeat to repeat.
        vars(pl_module).update(log=_log_nothing, log_dict=_log_nothing)
        vars(trainer.fit_loop.epoch_progress.current)["processed"] = start["epoch"] - 1
        # Lightning has no hook after an optimizer's step.
        for optimizer in trainer.optimizers:
            _after_step(optimizer, lambda: self._end_update(trainer, pl_module))

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object, **__: object
    ) -> None:
        """Go back to the start of the step and trace what follows."""
        # As this process has made them: all but those that the training had changed by this step.
        self._marks = []  # first: they hold the gradients and states of the last repeat
        self.updated = None
        if self._attributes is None:
            self._attributes = attributes_of(pl_module, trainer.optimizers)
        set_attributes(pl_module, self._attributes, trainer.optimizers)
        set_state(trainer, pl_module, self._start["state"])
        set_progress(trainer, self._start["state"]["progress"], batches_begun=1)
        self.begin_repeat()
        self._tracer = OpTracer(pl_module, self.watch)
        self._following = self._tracer.following()
        self._following.__enter__()

    def on_before_backward(self, *_: object, **__: object) -> None:
        """Note the phase."""
        self._set_phase("backward")

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note the phase."""
        # Lightning goes to the optimizer from here; a module that optimizes manually may go forward
        # once more. What a hook does to the gradients belongs to the backward pass.
        if not pl_module.automatic_optimization:
            self._set_phase("forward")

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Mark the gradients: here a run fingerprints them."""
        self._mark_gradients(trainer, pl_module)
        self._set_phase("optimizer")

    def _end_update(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Mark them where Lightning did not announce the update, as a run does."""
        if self._tracer.phase != "optimizer" and not pl_module.automatic_optimization:
            self._mark_gradients(trainer, pl_module)
        self.updated = len(self._tracer.rows)
        # A module that optimizes manually may go forward once more.
        self._set_phase(AFTER if pl_module.automatic_optimization else "forward")

    def _mark_gradients(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        with self._tracer.aside():
            gradients = {n: p.grad for n, p in parameters_of(pl_module, trainer.optimizers).items()}
            for name, found in self._taken.tensors(gradients).items():
                held = gradients[name]
                self._mark("gradients", name, found, [] if held is None else [held])

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        *_: object,
        **__: object,
    ) -> None:
        """Mark what the step leaves, and begin the next repeat."""
        if self._tracer.phase == "backward":  # the step accumulates, and updates nothing
            self._mark_gradients(trainer, pl_module)
        self._following.__exit__(None, None, None)
        self._mark_end(trainer, pl_module, outputs)
        self.end_repeat(self._tracer, self._marks)
        self._done += 1
        if self._done == self._repeats:
            raise Stopped
        # So that the loop gives the next repeat the index of the same batch.
        set_progress(trainer, self._start["state"]["progress"], batches_begun=0)

    def _mark_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object
    ) -> None:
        """Mark each quantity in the order in which one causes the next."""
        for name, state in fingerprint_rng_states(cuda=torch.cuda.is_initialized()).items():
            self._mark("RNG states after the step", name, state, [], _generators(name))
        buffers = dict(pl_module.named_buffers())
        for name, found in self._taken.tensors(buffers).items():
            self._mark("buffers", name, found, [buffers[name]])
        loss = loss_of(outputs)
        found = self._taken.tensors({"": loss})[""]
        self._mark("loss", "", found, [] if loss is None else [loss])
        parameters = parameters_of(pl_module, trainer.optimizers)
        for name, state in self._taken.states(trainer.optimizers, parameters).items():
            parameter = parameters[name]
            held = [
                value
                for optimizer in trainer.optimizers
                # Asked first: the state is a defaultdict, and reading would add an entry to it.
                if parameter in optimizer.state
                for value in optimizer.state[parameter].values()
                if isinstance(value, torch.Tensor)
            ]
            self._mark("optimizer state", name, state, held)
        for name, found in self._taken.tensors(parameters).items():
            self._mark("parameters", name, found, [parameters[name]])

    def _mark(
        self,
        quantity: str,
        name: str,
        content: Print,
        tensors: Iterable[torch.Tensor],
        generators: Iterable[torch.Generator] = (),
    ) -> None:
        tensors = list(tensors)
        fetch([content])  # the first of a quantity brings over all of them
        regions = (
            *self._tracer.regions(tensors),
            *(self._tracer.generator(generator) for generator in generators),
        )
        mark = Mark(
            quantity=quantity,
            name=name,
            content=f"{value_of(content):016x}",
            regions=regions,
            before=len(self._tracer.rows),
            like=tensors[0] if len(tensors) == 1 else None,
        )
        self._marks.append(mark)

    def _set_phase(self, phase: Phase) -> None:
        self._tracer.phase = phase


def _after_step(optimizer: torch.optim.Optimizer, then: Callable[[], None]) -> None:
    """Call back behind a step, and not behind one of torch's that is a part of it."""
    under_way = 0

    def begin(*_: object) -> None:
        nonlocal under_way
        under_way += 1

    def end(*_: object) -> None:
        nonlocal under_way
        under_way -= 1
        if not under_way:
            then()

    optimizer.register_step_pre_hook(begin)
    optimizer.register_step_post_hook(end)


def _generators(name: str) -> list[torch.Generator]:
    """Return torch's generator of a name of an RNG state; none of Python's and NumPy's."""
    if name == "torch":
        return [torch.default_generator]
    device, _, index = name.partition(":")
    return [torch.cuda.default_generators[int(index)]] if device == "cuda" else []


def _log_nothing(*_: object, **__: object) -> None:
    pass


def identities(marks: Iterable[Mark]) -> Mapping[str, Mark]:
    """Return marks by quantity, name and a number that counts those of this name, as one text.

    Several optimizers may step in one batch: each finds the gradients.
    """
    found: dict[str, Mark] = {}
    counts: dict[tuple[str, str], int] = {}
    for mark in marks:
        key = (mark.quantity, mark.name)
        counts[key] = counts.get(key, 0) + 1
        found["\n".join((*key, str(counts[key])))] = mark
    return found

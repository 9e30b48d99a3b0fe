"""The epoch that runs: whether a checkpoint may be due before it ends, and what one would need.

Where none is foreseen, its batches are counted, and not looked at, until it has lasted so much
longer than was foreseen that one may be due in it after all. Of an epoch that follows a BRIEF one
not even its beginning is kept.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint import mid_epoch
from twinrun.checkpoint.beside_lightning import BesideLightning
from twinrun.checkpoint.first_batch import FirstBatch
from twinrun.checkpoint.first_iterator import FirstIterator
from twinrun.checkpoint.loaded import metrics_of, put_back_metrics
from twinrun.checkpoint.making_loaders import MakingLoaders
from twinrun.checkpoint.other_batches import were_other
from twinrun.checkpoint.replayed_data import (
    Batches,
    Order,
    data_told,
    has_reloaded,
    order_of,
    replay,
    sources,
    told_by,
)
from twinrun.checkpoint.stateful import UNSAID
from twinrun.checkpoint.together import Together
from twinrun.checkpoint.told_epochs import put_back_told, values_told
from twinrun.process.determinism import RNGStates, restore_rng_states, rng_states

FAR = 2  # times the last epoch's length: what is due later is not prepared for
FIRST_LOOK = 8  # batches, after which the length of a first epoch is estimated
# Seconds of an epoch: to keep what the next one begins with takes 0.3 % of them (0.15 ms), of data
# of a user's classes 1.5 %.
BRIEF = 0.05
# Batches from one exchange of several workers to the next, where none is looked at: an exchange
# takes as long as a step of a small network.
EVERY = 16
REST = -1  # beside whether a checkpoint is due: the epoch is too short for one


class RunningEpoch:
    """What a checkpoint in mid-epoch is made of, besides what one at its start is."""

    def __init__(
        self,
        trainer: pl.Trainer,
        fingerprint: Callable[[object], int],
        before_batch: Callable[[], None],
        brought: Callable[[], None],
        around_loaders: Callable[[], AbstractContextManager[None]],
        first_batch: FirstBatch,
        is_watched: bool,
        together: Together,
    ) -> None:
        """Take a place in the loops of a Trainer.

        Args:
            trainer: of the training.
            fingerprint: of a batch.
            before_batch: called before a batch is fetched, in an epoch that is watched.
            brought: called when the data of a resumed epoch are where they were.
            around_loaders: in its context training loaders are made.
            first_batch: looks at data before they are read.
            is_watched: whether checkpoints in mid-epoch are written at all.
            together: the workers; they watch the same epochs, by the first one's clock.
        """
        self._trainer, self._fingerprint = trainer, fingerprint
        self._before_batch, self._brought = before_batch, brought
        self._together, self._late = together, first_batch.late
        self._begins = first_batch.begins
        # The first iterator is made before the first epoch begins.
        self.is_watched = is_watched
        self._order: Order | None = None
        self._random: RNGStates | None = None
        self._metrics: dict[str, dict[str, Any]] = {}
        self._told: dict[str, Any] = {}
        self.batches: Batches | None = None
        """Those of the epoch, if it is watched."""
        self._resumed: Mapping[str, Any] | None = None
        self._made_late: Mapping[str, Any] = {}
        self._not_put_back: str | None = None  # of that
        self._began: float | None = None
        self._seconds: float | None = None
        # When the batches are looked at at last; None if they are already.
        self._until: float | None = None
        self._first: FirstIterator | None = None
        self._at_first: list[str] = []  # what stands against a checkpoint in the first epoch
        self._loops = BesideLightning(
            trainer,
            around_loaders=around_loaders,
            before_iterator=self._note_order,
            around_validation=self._begin_validation,
            after_iterator=self._look_behind_first,
            after_start=self._watch,
        )

    def begin(self, left: float | None) -> None:
        """Decide whether the epoch is watched, and whether its batches are looked at.

        Args:
            left: seconds until a checkpoint is due; None if none will be.
        """
        now = time.monotonic()
        self._seconds = None if self._began is None else now - self._began
        self._began = now
        batches = self._trainer.num_training_batches
        self.is_watched, self.batches, self._until = False, None, None
        if left is None or batches <= 1:
            return
        is_near = self._seconds is None or left <= FAR * self._seconds
        is_brief = self._seconds is not None and self._seconds < BRIEF
        told = self._together.firsts_number(1 if is_near else 0 if is_brief else REST)
        if told:
            self.is_watched = True
            self._until = now + left / FAR if told == REST else None
            self._random, self._metrics = rng_states(), metrics_of(self._trainer)
            self._told = values_told(self._trainer)

    def is_due(self, left: float, is_asked_for: bool) -> bool:
        """Say whether a checkpoint is taken before the next batch; of several workers all agree.

        Args:
            left: as for `begin`.
            is_asked_for: whether this worker would take one.
        """
        assert self.batches is not None  # noqa: S101  asked before one of its batches
        is_short = self._is_short(left)
        told = self._together.firsts_number(REST if is_short else is_asked_for)
        if told == REST:
            self._until = time.monotonic() + left / FAR
            self.batches.rest()
        return told == 1 and self.batches.is_known

    def _is_short(self, left: float) -> bool:
        """Say whether a first epoch turns out to end long before a checkpoint is due."""
        done, batches = self._done, self._trainer.num_training_batches
        is_asked = done >= FIRST_LOOK and done & (done - 1) == 0 and math.isfinite(batches)
        if self._seconds is not None or self._began is None or not is_asked:
            return False
        return left > FAR * (time.monotonic() - self._began) / done * batches

    def _ask(self) -> None:
        """Ask whether a checkpoint is due, in an epoch in which one may be."""
        if self._until is not None and not self._is_longer():
            return
        self._before_batch()

    def _is_longer(self) -> bool:
        """Look at the batches from now on, if the epoch lasts longer than was foreseen."""
        assert self.batches is not None and self._until is not None  # noqa: S101, PT018
        # It was to end in half of the time until a checkpoint would be due.
        is_longer = time.monotonic() >= self._until
        if self._together.count > 1:
            if self.batches.fetched % EVERY != EVERY - 1:
                return False
            is_longer = bool(self._together.firsts_number(is_longer))
        if is_longer:
            self._until = None
            self.batches.look()
        return is_longer

    def leave(self) -> None:
        """Look no more at the epoch."""
        self.is_watched = False
        if self.batches is not None:
            self.batches.leave()
            self.batches = None

    @property
    def _done(self) -> int:
        return self._trainer.fit_loop.epoch_loop.batch_progress.current.completed

    def state(self) -> dict[str, Any]:
        """Return what brings a resumed training here, beside the state of the loops."""
        assert self.batches is not None  # noqa: S101  asked for in a watched epoch alone
        return {
            "order": self._order,
            "random": self._random,
            "metrics": self._metrics,
            "told_values": self._told,
            "unlogged": mid_epoch.unlogged_since(self._trainer, self._metrics),
            "told": told_by(self._trainer),
            "batches": self._done,
            "since": self.batches.since,
            "running": self.batches.running,
            "drawn": [sorted(self.batches.drawn_in_fetches), sorted(self.batches.drawn_between)],
        }

    def unlike(self, state: Mapping[str, Any]) -> str | None:
        """Say whether its batches so far are other ones than those of which `state` tells."""
        if self._not_put_back is not None:
            return self._not_put_back
        if self.batches is not None and self.batches.running == state["running"]:
            return None
        return were_other(self._trainer)

    def resume(self, state: Mapping[str, Any], late: Mapping[str, Any]) -> None:
        """Have the epoch that is about to begin be brought to where it was.

        Args:
            state: what `state` returned.
            late: what data had made as they were read, as of `LateAttributes`.
        """
        self._resumed, self._made_late = state, late
        self._began = None  # of its length nothing will be known
        self._random, self._metrics = state["random"], state["metrics"]
        put_back_metrics(self._trainer, self._metrics, self._trainer.lightning_module.device)
        # By the very values that are shown: what is not logged anew keeps them.
        self._metrics = metrics_of(self._trainer)
        self._told = state.get("told_values", {})  # older versions have none
        put_back_told(self._trainer, self._told)
        restore_rng_states(state["random"])

    @property
    def known(self) -> Batches | None:
        """Its batches, if it is known from what their order was drawn, and gradients are kept."""
        # Between two micro-batches there are gradients that no checkpoint holds.
        is_between = self._done % self._trainer.accumulate_grad_batches
        is_known = self._order is not None and not is_between and has_reloaded(self._trainer)
        return self.batches if is_known else None

    def remove(self) -> None:
        """Leave the loops as they were."""
        self._loops.remove()

    def hindrances(self, batches: Batches, making: MakingLoaders) -> Iterator[str]:
        """Say what stands against a checkpoint between two batches, and not where an epoch starts.

        Args:
            batches: of the epoch.
            making: what its loaders are made from.
        """
        yield from making.hindrances(self._trainer)
        if self._order is not None and UNSAID in self._order["positions"]:
            yield "data could not say where they were as the epoch began (state_dict raised)"
        if self._trainer.current_epoch == 0:
            yield from self._at_first
        yield from mid_epoch.hindrances(self._trainer, batches)

    def _look_behind_first(self) -> None:
        if self._first is not None:
            self._at_first = [*self._first.changed(FirstIterator(self._trainer))]
            self._first = None

    def _begin_validation(self, begin: Callable[[], None], loop: Any) -> None:
        self._begins(self._trainer, is_of_training=False)
        begin()
        self._late.watch(self._trainer, loop._data_fetcher, self._fingerprint)

    def _note_order(self) -> None:
        self._begins(self._trainer, is_of_training=True)
        if self.is_watched and self._began is None and self._trainer.ckpt_path is None:
            self._first = FirstIterator(self._trainer)
        if self.is_watched and self._resumed is None:
            self._late.epoch_begins(self._trainer)
            self._order = order_of(self._trainer, self._together.random_of_steps())

    def _watch(self, fetcher: Any) -> None:
        if self._resumed is not None:
            state, self._resumed = self._resumed, None
            late, self._made_late = self._made_late, {}
            why = self._late.put_back(self._trainer, late, is_of_training=True)
            why = why or self._late.plain.begin_again(self._trainer, late.get("plain", {}))
            if why is not None:  # nothing is read of what is there by half
                self._not_put_back = why
                self._brought()
            self._order = state["order"]
            since = state["since"] if "since" in state else 0  # noqa: SIM401  of older versions
            self.batches = replay(
                self._trainer, fetcher, state, lambda: self._go_on(fetcher, since)
            )
            self.batches.drawn_in_fetches, self.batches.drawn_between = map(set, state["drawn"])
            self._brought()
            if not self.is_watched:
                self.leave()
        elif self.is_watched:
            if self._order is not None:
                self._order["data"] += data_told(self._trainer)
                if self._trainer.current_epoch == 0:
                    self._order["first"] = rng_states()
                    self._late.plain.note_first(self._trainer)
            self.batches = self._look(fetcher, 0 if self._until is None else math.inf)

    def _go_on(self, fetcher: Any, since: float) -> Batches:
        self._not_put_back = self._not_put_back or self._late.plain.go_on(self._trainer)
        return self._look(fetcher, since)

    def _look(self, fetcher: Any, since: float) -> Batches:
        def look() -> dict[str, str]:
            return {**sources(self._trainer), **self._late.plain.look()}

        return Batches(fetcher, self._fingerprint, self._ask, look, since)

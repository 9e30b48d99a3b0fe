"""Bring the data of an epoch to where they were: read again from its start, and thrown away.

What an epoch's order is drawn from is noted just before its iterator is made. A resumed training
puts it back, makes the iterator anew and fetches the batches that were trained before the stop:
whatever loaders, samplers, datasets and data workers keep in mid-epoch is then as it was. A running
fingerprint of all batches shows whether they are the same ones. A loader that says where it is (a
`StatefulDataLoader`) is told so instead, and fetches nothing twice.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

import pytorch_lightning as pl
import xxhash
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from twinrun.checkpoint.looks import look, look_at_rng_states
from twinrun.checkpoint.refusals import generators_of
from twinrun.checkpoint.stateful import Stateful, said_by, state_told
from twinrun.checkpoint.stream_position import parts_of, positions_of, put_back, telling_data
from twinrun.checkpoint.told_numbers import told_numbers
from twinrun.process.determinism import RNGStates, restore_rng_states

MOST_LOOKS, EVERY = 32, 64  # at draws: at the first fetches, and at two of so many later ones
TELLS = ".state_dict()"  # behind the class of what says itself where it is
FEWEST_LOOKS = 2  # fetches that show what draws in them, and what between them


class Order(TypedDict):
    """What the order of an epoch's batches is drawn from."""

    random: RNGStates
    """RNG states just before its iterator is made."""
    first: RNGStates | None
    """RNG states before the first batch, where hooks come between: in the first epoch."""
    generators: list[Any]
    """States of the generators that loaders and samplers were given."""
    positions: list[dict[str, Any]]
    """Of loaders, samplers and datasets that say where they are."""
    data: list[dict[str, Any]]
    """What the data module says of itself there, and before the first batch."""


class Batches:
    """An epoch's batches, looked at as they are fetched."""

    def __init__(
        self,
        fetcher: Any,
        fingerprint: Callable[[object], int],
        before: Callable[[], None],
        look: Callable[[], dict[str, str]],
        since: float = 0,
    ) -> None:
        """Take the place of a fetcher's iterator.

        Args:
            fetcher: of Lightning; it may have fetched a batch already.
            fingerprint: of a batch.
            before: called before each further batch is fetched, but while they are replayed.
            look: writes down what batches may be drawn from, by its name.
            since: the number of the first batch that is looked at, from 0; infinite for none.
        """
        self._fetcher, self._inner = fetcher, fetcher.iterator
        self._fingerprint, self._before, self._look = fingerprint, before, look
        self.running, self.since = "0", since
        """Fingerprint of all batches so far, from that of a number on."""
        self._fetched = 0
        self._last: dict[str, str] | None = None  # look after a fetch
        self.is_replaying = False
        self.drawn_in_fetches, self.drawn_between = set[str](), set[str]()
        """What changes in fetches, and what between them: generators, and what data say and have
        been told."""
        self.at_start = look()
        """Where none has been fetched, or the first one alone."""
        fetcher.iterator = self
        for found in getattr(fetcher, "batches", ()):
            self._note(found)

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        if self.is_replaying:
            found = next(self._inner)
            self._note(found)
            return found
        self._before()
        if self._fetched < self.since:
            found = next(self._inner)
            self._fetched += 1
            return found
        is_looked_at = self._fetched - self.since < MOST_LOOKS or self._fetched % EVERY < 2
        before = self._look() if is_looked_at else None
        found = next(self._inner)
        if before is not None:
            after = self._look()
            drawn = _others(before, after)
            if self._fetched:
                self.drawn_between |= _others(self._last or before, before)
            else:  # a sampler draws its order here, which a resumed training draws again
                drawn = {name for name in drawn if is_of_data(name)}
            self.drawn_in_fetches |= drawn
            self._last = after
        else:
            self._last = None
        self._note(found)
        return found

    def begin_at(self, done: int, running: str) -> None:
        """Count batches that were fetched before, and are not fetched again."""
        self._fetched, self.running, self._fetcher.fetched = done, running, done

    def rest(self) -> None:
        """Count them, and look at none of them until `look`."""
        self.since = math.inf

    def look(self) -> None:
        """Look at them from the next one on."""
        self.running, self.since, self._last = "0", self._fetched, None

    @property
    def fetched(self) -> int:
        """How many there have been."""
        return self._fetched

    @property
    def is_known(self) -> bool:
        """Whether enough of them have been looked at to tell what draws where."""
        return self.since == 0 or self._fetched - self.since >= FEWEST_LOOKS

    def moved_between(self) -> set[str]:
        """Name what data say, or have been told, and what others have moved than fetches alone."""
        now = self._look()
        # A checkpoint may be taken before what the last step has moved is looked at.
        between = self.drawn_between | _others(self._last or now, now)
        others = _others(self.at_start, now)
        return {name for name in between & others - self.drawn_in_fetches if is_of_data(name)}

    def leave(self) -> None:
        """Look at no more of them."""
        if self._fetcher.iterator is self:
            self._fetcher.iterator = self._inner

    def _note(self, found: Any) -> None:
        if self._fetched >= self.since:
            # Beside each batch Lightning has its number and its loader's.
            text = f"{self.running} {self._fingerprint(found[0])}"
            self.running = xxhash.xxh3_64_hexdigest(text.encode())
        self._fetched += 1


def is_of_data(name: str) -> bool:
    """Say whether by a name in a look a generator is not meant, but what data say, or were told.

    >>> is_of_data("Order.state_dict()"), is_of_data("cuda 0")
    (True, False)
    """
    return "." in name


def _others(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name, state in after.items() if before.get(name) != state}


def training_loaders(trainer: pl.Trainer) -> list[object]:
    """Return the loaders that are trained on."""
    return tree_leaves(trainer.train_dataloader)


def sources(trainer: pl.Trainer) -> dict[str, str]:
    """Write down what batches may be drawn from: RNG states, and what data say, or were told."""
    loaders = training_loaders(trainer)
    if any(isinstance(loader, Stateful) for loader in loaders):
        return look_at_rng_states()
    parts = [part for part in parts_of(loaders) if isinstance(part, Stateful)]
    parts += [data] if (data := telling_data(trainer)) is not None else []
    said = {_called(part): look(state_told(part), ()) for part in parts}
    return {**said, **told_numbers(loaders), **look_at_rng_states()}


def _called(part: object) -> str:
    return f"{type(part).__name__}{TELLS}"


def read_again(trainer: pl.Trainer) -> list[object]:
    """Return those that do not: what they hold is asked where it is, and read again.

    A loader with a state would make an iterator to say it: it is asked in mid-epoch alone.
    """
    return [each for each in training_loaders(trainer) if not isinstance(each, Stateful)]


def has_reloaded(trainer: pl.Trainer) -> bool:
    """Say whether the loaders were made for this epoch, as a resumed training makes them."""
    if not vars(trainer).get("reload_dataloaders_every_n_epochs"):
        return True
    return trainer.fit_loop._last_train_dl_reload_epoch == trainer.current_epoch


def told_by(trainer: pl.Trainer) -> list[dict[str, Any]]:
    """Return where the training loaders are that say so themselves."""
    return [said_by(each) for each in training_loaders(trainer) if isinstance(each, Stateful)]


def order_of(trainer: pl.Trainer, random: RNGStates) -> Order:
    """Note what the order of the epoch will be drawn from.

    Args:
        trainer: of the training.
        random: the RNG states by which the iterator will be made.
    """
    loaders = training_loaders(trainer)
    return {
        "random": random,
        "first": None,
        "generators": [each.get_state() for each in generators_of(loaders)],
        "positions": copy.deepcopy(positions_of(read_again(trainer))),
        "data": data_told(trainer),
    }


def data_told(trainer: pl.Trainer) -> list[dict[str, Any]]:
    """Return what the data module says of itself, if its class does."""
    return [state_told(data)] if (data := telling_data(trainer)) is not None else []


def _what_to_tell(trainer: pl.Trainer, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a data module is told before an iterator is made, and before the first batch.

    Nothing where it says the same whatever is fetched: it may add to itself what it is told.
    """
    told = state["order"].get("data", [])  # checkpoints of older versions have none
    is_other = (
        _called(telling_data(trainer)) in state["drawn"][0]
        or len({look(each, ()) for each in told}) > 1
    )
    return copy.deepcopy(told) if is_other else []


def _tell(trainer: pl.Trainer, told: Sequence[dict[str, Any]]) -> None:
    for state in told:
        if (data := telling_data(trainer)) is not None:
            data.load_state_dict(state)


def replay(
    trainer: pl.Trainer,
    fetcher: Any,
    state: Mapping[str, Any],
    watch: Callable[[], Batches],
) -> Batches:
    """Begin an epoch again, and bring its data to where they were.

    Args:
        trainer: of the training.
        fetcher: of its batches.
        state: of a `RunningEpoch`, with the positions that data are told.
        watch: looks at the batches that the fetcher fetches from now on.
    """
    loaders, order = training_loaders(trainer), state["order"]
    # What the Trainer reads may be a copy of what it shows: see `parallel.own_request`.
    combined = trainer.fit_loop._combined_loader
    _end_workers([*loaders, *(combined.flattened if combined is not None else ())])
    telling = [each for each in loaders if isinstance(each, Stateful)]
    for each, told in zip(telling, state["told"], strict=True):
        each.load_state_dict(told)
    put_back(read_again(trainer), state["positions"])
    for generator, saved in zip(generators_of(loaders), order["generators"], strict=True):
        generator.set_state(saved)
    at_iterator = _what_to_tell(trainer, state)
    _tell(trainer, at_iterator[:1])
    restore_rng_states(order["random"])
    iter(fetcher)
    _tell(trainer, at_iterator[1:])
    if order["first"] is not None:
        restore_rng_states(order["first"])
    found = watch()
    if telling:
        found.begin_at(state["batches"], state["running"])
        return found
    found.is_replaying = True
    try:
        for _ in range(state["batches"]):
            next(fetcher)
    except StopIteration:
        pass  # there are fewer now, which the fingerprint shows
    finally:
        found.is_replaying = False
    return found


def _end_workers(loaders: Sequence[object]) -> None:
    """End data workers that would be kept: those of the stopped training had begun otherwise."""
    for loader in loaders:
        if isinstance(loader, DataLoader) and loader.persistent_workers:
            loader._iterator = None

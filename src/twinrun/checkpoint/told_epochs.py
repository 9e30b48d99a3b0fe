"""What `set_epoch` of samplers and datasets sets, which no checkpoint of Lightning's holds.

Lightning calls that of samplers where an epoch or a validation begins, and a module may call that
of a dataset there, or where an epoch ends. Plain data is put back as it was. What is anything else
has to be told anew: a resumed training that is not told is found out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytorch_lightning as pl
import xxhash
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.checkpoint.at_start import is_kept
from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.own_states import values_seen
from twinrun.checkpoint.plain_data import given_back, kept
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stateful import Stateful, is_asked
from twinrun.checkpoint.stream_position import parts_of, told_anew, told_parts
from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import is_container, size_of

MOST_ENTRIES = 1 << 12  # of a list that is kept
MOST_PATHS = 64  # of a state that is compared one by one
STATE = ".state_dict()"  # behind the class of what says something itself


def values_told(trainer: pl.Trainer) -> dict[str, Any]:
    """Return copies of what `set_epoch` has set in loaders and is plain data, by name."""
    return {key: kept(value) for key, value in _told(trainer) if _is_put_back(value)}


def looks_told(trainer: pl.Trainer) -> dict[str, str]:
    """Write down what it has set, by name."""
    found = {key: look(value, ()) for key, value in _told(trainer)}
    return {key: seen for key, seen in found.items() if not seen.startswith(UNSEEN)}


def told_and_said(trainer: pl.Trainer) -> dict[str, str]:
    """Write down in a word each what training data have been told by now, and say themselves.

    What is another thing when it is asked for again says nothing.
    """
    loaders = training_loaders(trainer)
    trained = len(told_parts(loaders))
    looks = looks_told(trainer).items()
    found = {key: look for key, look in looks if int(key.partition(" ")[0]) < trained}
    for turn, part in enumerate(parts_of(loaders)):
        if isinstance(part, Stateful) and is_asked(part):
            now, again = _said(part), _said(part)
            steady = {path: seen for path, seen in now.items() if again.get(path) == seen}
            # Of a long one what any of it is, in one word.
            several = len(steady) > MOST_PATHS
            for path, seen in ({"": repr(sorted(steady.items()))} if several else steady).items():
                found[f"{turn} {type(part).__name__}{STATE}{path}"] = seen
    return {name: xxhash.xxh3_64_hexdigest(seen.encode()) for name, seen in found.items()}


def _said(part: Stateful) -> dict[str, str]:
    try:
        with isolate_rng():
            return dict(values_seen(part.state_dict(), ""))
    except Exception:  # of whatever class
        return {}


def put_back_told(trainer: pl.Trainer, values: Mapping[str, Any]) -> None:
    """Set what `values_told` gave; loaders of validation data may not be made yet."""
    parts = told_parts(loaders_of(trainer))
    for key, value in values.items():
        turn = int(key.partition(" ")[0])
        if turn < len(parts):
            name = key.rpartition(".")[2]
            setattr(parts[turn], name, given_back(value, trainer.strategy.root_device))


def _told(trainer: pl.Trainer) -> Iterator[tuple[str, object]]:
    for turn, part in enumerate(told_parts(loaders_of(trainer))):
        told = told_anew(part)
        seen = attributes_seen(part) if told else {}
        for name in sorted(told & seen.keys()):
            yield f"{turn} {type(part).__name__}.{name}", seen[name]


def _is_put_back(value: object) -> bool:
    """Say whether it is: a text may be a path of the process that made it."""
    is_long = is_container(value) and size_of(value) > MOST_ENTRIES
    return not is_long and is_kept(value)


class ToldEpochs:
    """Whether a resumed training is told what the one before the stop was, of what is not kept."""

    def __init__(self, trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
        """Look at it where the state of a checkpoint has been put back.

        Args:
            trainer: of the training.
            state: of the checkpoint; in mid-epoch the hooks that begin one have been called.
        """
        self._trainer, self._before = trainer, looks_told(trainer)
        # One of an older version has none.
        looks, values = state.get("told_looks", {}), state.get("told_values", {})
        self._kept = {key: look for key, look in looks.items() if key not in values}
        self._is_begun = "epoch" in state

    def unlike(self) -> str | None:
        """Say what of training data is another, where the first batch comes."""
        return self._other(is_of_training=True)

    def unlike_in_validation(self) -> str | None:
        """Say what of validation data is another, where these have been validated."""
        return self._other(is_of_training=False)

    def _other(self, *, is_of_training: bool) -> str | None:
        trained = len(told_parts(training_loaders(self._trainer)))
        now = looks_told(self._trainer) if self._kept else {}
        for key, kept_look in self._kept.items():
            if (int(key.partition(" ")[0]) < trained) is not is_of_training:
                continue
            # What is set where an epoch or a validation begins may be another than before that.
            is_told = now.get(key) != self._before.get(key)
            is_to_be_kept = not is_told or (is_of_training and self._is_begun)
            if is_to_be_kept and now.get(key) != kept_look:
                name = key.partition(" ")[2]
                return f"{name} is another one than before the stop: no checkpoint holds it"
        return None

"""What the making of a training's first iterator changes in its data.

A resumed training makes that one twice: Lightning does before any hook, and then the epoch is begun
again. A stream that counts its epochs in `__iter__`, or shuffles its files there, would be an epoch
further than where the first process began.
"""

from collections.abc import Iterator

import pytorch_lightning as pl

from twinrun.checkpoint.data_attributes import of_data
from twinrun.checkpoint.data_in_place import DataLooks
from twinrun.checkpoint.own_states import Said
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import possible_positions, told_alone


class FirstIterator:
    """A look at the data, just before it is made or just after."""

    def __init__(self, trainer: pl.Trainer) -> None:
        """Look."""
        loaders = training_loaders(trainer)
        self._data = DataLooks(trainer, loaders, is_of_batches_alone=True)
        positions = possible_positions(loaders, told_alone(loaders))
        parts = [*of_data(trainer, loaders), *positions.items()]
        # What is set only here is no reason, as it may be the same each time.
        left = (type(None), Said)
        self._plain = {key: repr(value) for key, value in parts if not isinstance(value, left)}

    def changed(self, now: "FirstIterator") -> Iterator[str]:
        """Say what was another one before."""
        both = sorted(self._plain.keys() & now._plain.keys())
        names = [key.rpartition(" ")[2] for key in both if self._plain[key] != now._plain[key]]
        for name in (*names, *self._data.written_to(now._data)):
            yield (
                f"{name} changes where the first iterator is made, which a resumed training makes "
                f"twice, and there is no state_dict that has it"
            )

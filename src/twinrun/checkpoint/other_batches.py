"""What helps where a resumed training does not get the mini-batches that it had before."""

import pytorch_lightning as pl

from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.restored import ELSEWHERE
from twinrun.checkpoint.stateful import Stateful, is_asked
from twinrun.checkpoint.stream_position import is_stream, parts_of


def were_other(trainer: pl.Trainer) -> str:
    """Say that an epoch's batches before the stop were other ones, and what would help."""
    cure = cure_of_stream(trainer) or (
        " (where data ask the network that is trained, it is not yet what it was: "
        "`checkpoint_minutes: 0` resumes at epochs' starts alone)"
    )
    return f"{ELSEWHERE}: the batches before the stop were other ones{cure}"


def cure_of_stream(trainer: pl.Trainer) -> str:
    """Say what a stream of a user's own has to say of itself, if training data have one."""
    for part in parts_of(training_loaders(trainer)):
        if isinstance(part, Stateful) and is_asked(part) and is_stream(part):
            return (
                f" ({type(part).__name__} says itself where it is: where an epoch ends, its "
                f"state_dict has to say where the next one begins, 0 if it begins anew)"
            )
    return ""

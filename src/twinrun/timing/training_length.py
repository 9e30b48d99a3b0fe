"""How many mini-batches a workload's training takes: as many as its epochs, or as trainings had."""

from twinrun.timing.summary import TimingSummary
from twinrun.timing.trained import Trained


def own_size(timing: TimingSummary) -> int | None:
    """Return the size of the workload's trainings; None where the timing has no sizes."""
    name = timing["settings"]["timing"].size
    return None if name is None else timing["settings"]["workload"].hyperparameters.get(name)


def length_of_training(
    timing: TimingSummary, size: int | None, trained: Trained | None
) -> tuple[int | None, bool]:
    """Return the mini-batches of the workload's training at a size, and whether it may have fewer.

    None where nobody can say.
    """
    told, is_at_most = steps_of_training(timing, size), is_most(timing, size)
    if trained is None or trained.epochs is None:
        return told, is_at_most
    batches = _of_epoch(timing, size)
    if not batches or size != own_size(timing):
        return told, True  # what ended the trainings may end this one
    taken = timing["settings"]["workload"].trainer.batches_taken(trained.epochs, batches)
    return taken, not trained.is_exact


def steps_of_training(timing: TimingSummary, size: int | None) -> int | None:
    """Return the mini-batches of the workload's training at a size; None where nobody can say.

    Of a stream as many as its `max_steps` may be; see `is_most`.
    """
    workload = timing["settings"]["workload"]
    told, batches = workload.trainer, _of_epoch(timing, size)
    if batches is None:
        return told.batches_of_steps()
    has_end = workload.epochs != -1 or told.max_steps != -1
    return told.batches_taken(workload.epochs, batches) if has_end and batches else None


def is_most(timing: TimingSummary, size: int | None) -> bool:
    """Say whether the training may have fewer mini-batches, since nobody knows when an epoch ends.

    Its epochs may be over before, and the last step of each may be of fewer mini-batches.
    """
    workload = timing["settings"]["workload"]
    is_exact = workload.epochs == -1 and workload.trainer.accumulation() == 1
    return _of_epoch(timing, size) is None and not is_exact


def _of_epoch(timing: TimingSummary, size: int | None) -> int | None:
    """Return the batches of an epoch: None of streams, 0 at a size that was not measured."""
    return next((e["train"] for e in timing["extents"] if e["size"] == size), 0)

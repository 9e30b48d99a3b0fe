"""How many samples an epoch of a training has, and what sharding leaves out of it.

A sample is what the loader's sampler draws, whatever a collate function makes of it.
"""

from collections.abc import Sequence, Sized

from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from twinrun.formatting import count
from twinrun.parallel.batch_sharding import PartitionedBatches, ShardedBatches


def samples_drawn(loaders: Sequence[object], steps: int) -> int | None:
    """Return how many samples the first steps of an epoch drew; None where nobody knows.

    Args:
        loaders: of the training, one process's; of one that is cut, what stands in for it.
        steps: mini-batches, from the first on.
    """
    if len(loaders) != 1:
        return None
    loader = getattr(loaders[0], "_loader", loaders[0])  # micro-batches wrap the module's own
    batches = getattr(loader, "batch_sampler", None)
    # A subclass may draw as it likes; a stream has no length.
    if not _draws_as(DataLoader, loader) or not isinstance(batches, BatchSampler):
        return None
    if not _draws_as(BatchSampler, batches) or not isinstance(batches.sampler, Sized):
        return None
    return min(steps * batches.batch_size, len(batches.sampler))


def _draws_as(kind: type, found: object) -> bool:
    return getattr(type(found), "__iter__", None) is getattr(kind, "__iter__", None)


def left_out(batches: ShardedBatches) -> tuple[str, str | None]:
    """Say what an epoch lacks of the samples of one process's, with the setting that does it."""
    drawn, kept = batches.drawn_by_one, sum(map(sum, batches.sizes))
    lacks = f"in part, {{}} leaves {count(drawn - kept)} of {count(drawn)} samples out of an epoch"
    if not isinstance(batches, PartitionedBatches):
        setting = "scale_batch_with_devices"
        why = "they make no whole mini-batch of several, and the loader drops such"
    else:
        setting, why = "sharding", "it ends for all workers as soon as one has run out"
        if isinstance(batches.order, SequentialSampler):
            why += ", and without shuffling no epoch trains on them"
    return setting, f"{lacks.format(setting)}: {why}" if kept < drawn else None

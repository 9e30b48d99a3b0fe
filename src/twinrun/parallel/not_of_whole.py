"""What of mini-batches that were cut is not that of the whole ones, for a run's record."""

from collections.abc import Iterator

import pytorch_lightning as pl
from pytorch_lightning.callbacks import BatchSizeFinder, LearningRateFinder

from twinrun.parallel.counters_read import divided_by_devices
from twinrun.parallel.epoch_samples import left_out
from twinrun.parallel.kept_by_workers import KeptByWorkers
from twinrun.parallel.own_draws import OwnDraws
from twinrun.parallel.read_outputs import readers
from twinrun.parallel.seen_of_parts import seen_of_parts
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.whole_steps import WholeSteps
from twinrun.run_records import Departure
from twinrun.wording import some


def of_parts(trainer: pl.Trainer, module: pl.LightningModule) -> list[Departure]:
    """Say what of mini-batches that were cut is not that of the whole ones."""
    found: list[tuple[str, str | None]] = []
    of_batches: list[tuple[str, str]] = []
    in_doubt: list[tuple[str, str]] = []
    for each in vars(trainer)["callbacks"]:
        if isinstance(each, WholeSteps):
            found += [("accumulate", sentence) for sentence in each.not_of_whole(module)]
            found += [("accumulate", sentence) for sentence in _tried(trainer)]
            of_batches += [("accumulate", sentence) for sentence in each.of_batches()]
            in_doubt += [("accumulate", sentence) for sentence in each.kept()]
        elif isinstance(each, OwnDraws):
            found += [
                ("devices", sentence) for sentence in each.drawn.sentences("devices", "shard")
            ]
            of_batches += [("devices", sentence) for sentence in each.of_batches()]
        elif isinstance(each, KeptByWorkers):
            in_doubt += [("devices", sentence) for sentence in each.sentences(trainer, module)]
        elif isinstance(each, WholeBatch):
            found += [left_out(batches) for batches in each.sharded]
            found.append(("devices", each.logs.sizes.sentence("devices")))
            seen = seen_of_parts(module, each.logs.aggregated, setting="devices", part="shard")
            found += [("devices", sentence) for sentence in seen]
            found.append(("devices", each.logs.aggregated.alone))
            found += [("devices", each_read) for each_read in divided_by_devices(trainer, module)]
            found.append(("devices", _given_of_shards(trainer, module)))
            found.append(("devices", each.ends.sentence))
    made: list[Departure] = [
        {"setting": setting, "sentence": sentence, "in_part": True}
        for setting, sentence in found
        if sentence is not None
    ]
    made += [
        {"setting": setting, "sentence": sentence, "in_part": True, "in_doubt": True}
        for setting, sentence in in_doubt
    ]
    made += [
        {"setting": setting, "sentence": sentence, "in_part": True, "of_batches": True}
        for setting, sentence in of_batches
    ]
    return made


def _given_of_shards(trainer: pl.Trainer, module: pl.LightningModule) -> str | None:
    """Say which hooks read what a step gave, of which each worker has its own."""
    names = readers(trainer, module, "on_train_batch_end", "on_before_backward")
    if not names:
        return None
    return (
        f"in part, devices gives hooks ({some(names)}) what training_step returns of each shard: "
        f"what goes by it, such as the weight of a later loss, is another thing at each worker"
    )


def _tried(trainer: pl.Trainer) -> Iterator[str]:
    for each in vars(trainer)["callbacks"]:
        # Of several workers Lightning refuses the one, and the other goes by whole mini-batches.
        if isinstance(each, LearningRateFinder | BatchSizeFinder):
            yield (
                f"in part, accumulate has {type(each).__name__} go by steps of each micro-batch: "
                f"it may find another value than of whole mini-batches"
            )

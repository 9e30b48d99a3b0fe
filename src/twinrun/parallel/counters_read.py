"""Who asks for what differs where a mini-batch is cut: what the Trainer counts, or the workers."""

from collections.abc import Iterator

import pytorch_lightning as pl

from twinrun.parallel.reached_code import MOST, ReachedCode
from twinrun.wording import some

COUNTERS = (
    *("num_training_batches", "is_last_batch", "total_batch_idx", "batch_progress"),
    *("accumulate_grad_batches", "_should_accumulate", "val_check_batch", "total_train_batches"),
    *("_accumulated_batches_reached", "_num_ready_batches_reached", "_is_training_done"),
    "_first_loop_iter",
)
# By names that others bear too, such as the number of a batch that hooks are given.
IN_LOOP = (
    *("epoch_loop.batch_idx", "fit_loop.max_batches", "fit_loop._data_source"),
    *("fit_loop._combined_loader", "fit_loop._data_fetcher", "lr_scheduler_configs.frequency"),
)
LOOPS = {"fit_loop", "epoch_loop", "_active_loop"}
WORKERS = (
    *("world_size", "num_devices", "get_world_size", "WORLD_SIZE", "device_ids"),
    *("parallel_devices", "distributed_sampler_kwargs", "is_distributed"),
    *("num_processes", "num_replicas", "LOCAL_WORLD_SIZE", "SLURM_NTASKS"),
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "gather_all_tensors"),
    *("all_reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce_boolean_decision"),
    *("gather_object", "broadcast_object_list", "scatter_object_list"),
    *("all_to_all", "all_to_all_single"),
)
# What is given the samples of a part.
FOR_SAMPLES = (
    *("training_step", "forward"),
    *("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"),
)
# What makes a generator or seeds one, each by all of its names.
MAKES = (
    *({name} for name in ("manual_seed", "seed_everything", "default_rng", "RandomState")),
    *({"random", name} for name in ("seed", "Random")),
    {"torch", "Generator"},
)
# Names of other functions, too: counted where a function says whose.
EXCHANGES, WHOSE = ("reduce", "broadcast", "gather", "scatter"), ("strategy", "dist", "distributed")


def counters_read(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Say which code of the user's reads what counts micro-batches.

    Known by the names in it: `getattr` with a computed name is not seen.
    """
    reached = ReachedCode(trainer, module)
    everywhere = {name for functions in reached.names.values() for name in _all(functions)}
    readers = []
    for owner, functions in reached.names.items():
        named = _all(functions)
        read = [name for name in COUNTERS if name in named]
        for name in IN_LOOP:
            around, _, inner = name.partition(".")
            # One function may be handed the loop by another.
            around = LOOPS if around in LOOPS else {around}
            read += [name] if inner in named and not around.isdisjoint(everywhere) else []
        readers += [f"{owner} reads {', '.join(read)}"] if read else []
    if readers:
        yield (
            f"in part, accumulate has the Trainer count micro-batches where {' and '.join(readers)}"
        )
    yield from _seeded(reached, "accumulate", "micro-batch")
    yield from _cut_short(reached, "accumulate", "what counts micro-batches")


def divided_by_devices(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Say which code of the user's asks for the number of workers, or for what others have.

    A rate that is scaled by it is another one, and so is a schedule: mini-batches are as many.
    """
    reached = ReachedCode(trainer, module)
    for owner, functions in reached.names.items():
        asked = {name: _of_workers(named) for name, named in functions.items()}
        read = list(dict.fromkeys(name for names in asked.values() for name in names))
        where = [name for name, names in asked.items() if names]
        if read:
            yield (
                f"in part, devices has {owner} read {', '.join(read)} ({some(where)}): what it "
                f"makes of the workers, such as a rate or a number of steps by how many they are, "
                f"or a loss over what they gather, may not be that of one worker"
            )
    yield from _seeded(reached, "devices", "shard")
    yield from _cut_short(reached, "devices", "the number of workers")


def _of_workers(named: set[str]) -> list[str]:
    by = [f"{whose}.{name}" for whose in WHOSE for name in EXCHANGES if {whose, name} <= named]
    return [*(name for name in WORKERS if name in named), *by]


def _seeded(reached: ReachedCode, setting: str, part: str) -> Iterator[str]:
    """Say which code that steps come to makes a generator, or seeds one: it draws alike again."""
    called, found = {*FOR_SAMPLES}, dict[str, None]()
    functions = [(owner, *each) for owner, of in reached.names.items() for each in of.items()]
    size = -1
    while len(called) > size:
        size = len(called)
        called |= {name for _, function, names in functions if function in called for name in names}
    for owner, function, names in functions:
        if function in called and any(makes <= names for makes in MAKES):
            found[owner if owner == function else f"{owner}.{function}"] = None
    if found:
        yield (
            f"in part, {setting} may have steps draw other numbers: what {some([*found])} makes or "
            f"seeds draws the same ones for each {part}"
        )


def _all(functions: dict[str, set[str]]) -> set[str]:
    return {name for named in functions.values() for name in named}


def _cut_short(reached: ReachedCode, setting: str, what: str) -> Iterator[str]:
    if reached.is_cut_short:
        yield (
            f"in part, {setting} was not looked for in all code: the module and what it holds are "
            f"more than {MOST:,} objects, and behind these others may read {what}"
        )

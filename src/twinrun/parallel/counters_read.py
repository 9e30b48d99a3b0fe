"""Who reads what the Trainer counts: of a mini-batch that is cut, these are micro-batches."""

import types
from collections.abc import Iterator

import pytorch_lightning as pl

from twinrun.checkpoint.users_code import is_users

COUNTERS = (
    *("num_training_batches", "is_last_batch", "total_batch_idx", "batch_progress"),
    *("accumulate_grad_batches", "_should_accumulate"),
)
WORKERS = ("num_devices", "world_size")
LENGTHS = {"max_epochs", "max_steps", "num_training_batches", "train_dataloader"}
IN_LOOP = ("epoch_loop", "batch_idx")  # the hooks are given another one of that name


def counters_read(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Say of each class of the user's, of the module's parts and callbacks, which ones it reads.

    Known by the names in its code: `getattr` with a computed name is not seen.
    """
    for kind in _kinds_of(trainer, module):
        named = {name for code in _codes_of(kind) for name in code.co_names}
        read = [name for name in COUNTERS if name in named]
        read += [".".join(IN_LOOP)] if named.issuperset(IN_LOOP) else []
        if read:
            yield f"{kind.__name__} reads {', '.join(read)}"


def divided_by_devices(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Say of each class of the user's if it counts steps by the number of workers.

    Mini-batches are those of one process, so that a schedule made so is too short.
    """
    for kind in _kinds_of(trainer, module):
        for code in _codes_of(kind):
            found = next((name for name in WORKERS if name in code.co_names), None)
            if found is not None and not LENGTHS.isdisjoint(code.co_names):
                yield (
                    f"in part, devices has {kind.__name__} count steps by {found} "
                    f"({code.co_name}), where mini-batches are as many as with one worker"
                )
                break


def _kinds_of(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[type]:
    owners = (*module.modules(), *vars(trainer)["callbacks"])
    kinds = dict.fromkeys(base for owner in owners for base in type(owner).__mro__)
    return (kind for kind in kinds if is_users(kind.__module__))


def _codes_of(kind: type) -> Iterator[types.CodeType]:
    for value in vars(kind).values():
        functions = (value.fget, value.fset) if isinstance(value, property) else (value,)
        for function in functions:
            plain = getattr(function, "__func__", function)
            if isinstance(plain, types.FunctionType):
                yield from _with_inner(plain.__code__)


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)

"""Which attributes of a data module steps use: a dataset there is no loader's, as one of noise is.

That of a loader may change as it is read, and is looked at where the loader is.
"""

import types
from collections.abc import Iterator

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.followed_names import named_by, names_behind
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_code import attributes_seen, is_users

BATCH_HOOKS = ("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device")
_MAKERS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")
_MAKE_LATER = "val_dataloader"  # what that reads may not be there yet


def used_by_steps(trainer: pl.Trainer) -> set[str]:
    """Name what of it the code of steps names, and no loader of the training reads.

    What the code that makes validation loaders names counts as read by these, as they may be made
    later. Loaders to test and to predict with give nothing to a training.

    Args:
        trainer: of the training, whose training loaders are there.
    """
    module, data = trainer.lightning_module, vars(trainer).get("datamodule")
    # Of the thousand layers of a class one.
    parts = {type(part): part for part in (*module.modules(), *vars(trainer)["callbacks"])}
    functions = [each for kind in parts for each in _functions_of(kind)]
    # Also by a method of the data module, or of a helper.
    named = named_by(functions, [data, *parts.values()])
    for hook in BATCH_HOOKS:
        named |= names_behind((data,), hook)
    used = named & attributes_seen(data).keys()
    if not used:
        return used
    loaders = tree_leaves([trainer.train_dataloader, trainer.val_dataloaders])
    read = {*map(id, parts_of(loaders, are_all=True))}
    attributes = attributes_seen(data)
    used = {name for name in used if id(attributes[name]) not in read}
    return used - names_behind((module, data), _MAKE_LATER)


def _functions_of(kind: type) -> Iterator[object]:
    """Yield the code of a class, but for what makes loaders, and what is done once."""
    left_out = {*_MAKERS, "setup", "prepare_data", "__init__"}
    for base in kind.__mro__:
        members = vars(base).items() if is_users(base.__module__) else ()
        yield from (each for name, each in members if name not in left_out and _is_code(each))


def _is_code(member: object) -> bool:
    kinds = (types.FunctionType, property, staticmethod, classmethod)
    return any(issubclass(type(member), kind) for kind in kinds)

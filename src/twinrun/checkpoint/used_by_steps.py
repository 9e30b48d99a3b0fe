"""Which attributes of a data module steps use: a dataset there is no loader's, as one of noise is.

That of a loader may change as it is read, and is looked at where the loader is.
"""

import functools
import types

import pytorch_lightning as pl

from twinrun.checkpoint.followed_names import names_behind
from twinrun.checkpoint.state_code import functions_behind
from twinrun.checkpoint.users_code import attributes_seen, is_users, names_in

BATCH_HOOKS = ("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device")
_MAKERS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")


def used_by_steps(trainer: pl.Trainer) -> set[str]:
    """Name what of it the code of steps names, and no code that makes loaders.

    Args:
        trainer: of the training.
    """
    module, data = trainer.lightning_module, vars(trainer).get("datamodule")
    kinds = {type(part) for part in (*module.modules(), *vars(trainer)["callbacks"])}
    named = {name for kind in kinds for name in _named_by(kind)}
    for hook in BATCH_HOOKS:
        named |= names_behind((data,), hook)
    used = named & attributes_seen(data).keys()
    for maker in _MAKERS if used else ():
        used -= names_behind((module, data), maker)
    return used


@functools.cache
def _named_by(kind: type) -> frozenset[str]:
    """Name what the code of a class names, and functions behind it."""
    bases = [base for base in kind.__mro__ if is_users(base.__module__)]
    own = [name for base in bases for name, member in vars(base).items() if _is_code(member)]
    functions = functions_behind(bases, own)
    return frozenset(name for function in functions for name in names_in(function.__code__))


def _is_code(member: object) -> bool:
    kinds = (types.FunctionType, property, staticmethod, classmethod)
    return any(issubclass(type(member), kind) for kind in kinds)

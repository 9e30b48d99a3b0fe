"""What LightningCLI does to the module that it has made, done to a workload that is its config."""

import functools
import types
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.core.mixins.hparams_mixin import _given_hyperparameters_context

from twinrun.config.definitions import Command
from twinrun.config.keys import with_keys
from twinrun.training.constructors import Constructor
from twinrun.training.made_later import base_of
from twinrun.training.objects import dumped, with_arguments

INSTANTIATOR = "pytorch_lightning.cli.instantiate_module"  # as its checkpoints name it


def kept_as_given(
    constructed: Constructor[object], given: Mapping[str, Any]
) -> AbstractContextManager[None]:
    """Have `save_hyperparameters` keep what the config says, not the objects made of it."""
    return _given_hyperparameters_context(dumped(constructed, given), INSTANTIATOR)


def wrong_optimizer(command: Command) -> Iterator[str]:
    """Yield a sentence for an optimizer or a schedule that cannot be made of what is given."""
    for key, given in _named(command).items():
        _, reason = with_arguments(given, *base_of(key))
        if reason is not None:
            yield f"cli: {command.file}: {key}: {reason}"


def bring_optimizer(module: pl.LightningModule, command: Command) -> None:
    """Have a module use the optimizer of a config, in the place of its own."""
    if command.optimizer is None:
        return
    from pytorch_lightning.cli import LightningCLI, instantiate_class

    made = {key: with_arguments(given, *base_of(key))[0] for key, given in _named(command).items()}
    # LightningCLI hands on the parameters that there are now, not those that `setup` makes.
    names = [name for name, _ in module.named_parameters()]

    @functools.wraps(LightningCLI.configure_optimizers)
    def configure_optimizers(self: pl.LightningModule) -> Any:
        parameters = dict(self.named_parameters())
        optimizer = instantiate_class([parameters[name] for name in names], made["optimizer"])
        scheduler = made.get("lr_scheduler")
        if scheduler is not None:
            scheduler = instantiate_class(optimizer, scheduler)
        return LightningCLI.configure_optimizers(self, optimizer, scheduler)

    # Bound, so that a copy of the module has its own parameters.
    module.configure_optimizers = types.MethodType(configure_optimizers, module)


def _named(command: Command) -> dict[str, Any]:
    named = {"optimizer": command.optimizer, "lr_scheduler": command.lr_scheduler}
    return {key: with_keys(given) for key, given in named.items() if given is not None}

"""Whether a module brings its own loaders, as `twinrun init` asks where no data module is named."""

import inspect
from pathlib import Path

import pytorch_lightning as pl

from twinrun.commands.check import why_it_fails
from twinrun.config.where_explained import sections
from twinrun.errors import TwinrunError
from twinrun.set_attributes import set_by
from twinrun.training.remedies import WITHOUT_LOADERS


def brings_loader(constructor: object) -> bool | None:
    """Say whether a module's class has a training loader; None where only what is made shows it."""
    if not inspect.isclass(constructor):
        return None
    base = pl.LightningModule.train_dataloader
    if getattr(constructor, "train_dataloader", None) is not base:
        return True
    return None if "train_dataloader" in set_by(constructor, ("",)) else False


def check_loader(module: str, file: Path) -> None:
    """Refuse a module without a training loader, by the rehearsal of its config.

    Args:
        module: its import path.
        file: the config, just written; deleted where it cannot pass.

    Raises:
        TwinrunError: as `without_loader`.
    """
    if WITHOUT_LOADERS in why_it_fails(file):
        file.unlink()
        raise without_loader(module)


def without_loader(module: str) -> TwinrunError:
    """Return the error that a module has no training loader."""
    said = (
        f"{module} has no train_dataloader; name what has one too, the LightningDataModule or a "
        f"function that returns one (`LightningDataModule.from_datasets(...)`): "
        f"twinrun init {module} package.module:Class"
    )
    return TwinrunError("\nExplained in ".join([said, *sections([said])]))

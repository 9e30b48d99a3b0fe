"""Whether what is named makes a module and its loaders, as `twinrun init` asks."""

import inspect
from pathlib import Path

import pytorch_lightning as pl

from twinrun.commands.check import why_it_fails
from twinrun.config.where_explained import sections
from twinrun.errors import TwinrunError
from twinrun.set_attributes import set_by
from twinrun.training.planned import RETURNED
from twinrun.training.remedies import WITHOUT_LOADERS


def brings_loader(constructor: object) -> bool | None:
    """Say whether a module's class has a training loader; None where only what is made shows it."""
    if not inspect.isclass(constructor):
        return None
    base = pl.LightningModule.train_dataloader
    if getattr(constructor, "train_dataloader", None) is not base:
        return True
    return None if "train_dataloader" in set_by(constructor, ("",)) else False


def check_made(module: str, data: str | None, file: Path) -> None:
    """Refuse what is made of a module, or of a function, if it cannot be what its place needs.

    The rehearsal of the config shows it. A config that fails otherwise, for want of a file say, is
    right in form and stays.

    Args:
        module: its import path.
        data: that of the data module, if there is one.
        file: the config, just written; deleted where it cannot pass.

    Raises:
        TwinrunError: as `without_loader`, or with what the function returned.
    """
    said = why_it_fails(file)
    if data is None and WITHOUT_LOADERS in said:
        file.unlink()
        raise without_loader(module)
    if any(f"{path}: {RETURNED}" in said for path in (module, data)):
        file.unlink()
        raise TwinrunError(f"{said}\n{file}: not written")


def without_loader(module: str) -> TwinrunError:
    """Return the error that a module has no training loader."""
    said = (
        f"{module} has no train_dataloader; name what has one too, the LightningDataModule or a "
        f"function that returns one (`LightningDataModule.from_datasets(...)`): "
        f"twinrun init {module} package.module:Class"
    )
    return TwinrunError("\nExplained in ".join([said, *sections([said])]))

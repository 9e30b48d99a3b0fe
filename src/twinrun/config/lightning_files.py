"""Files of LightningCLI, read as it reads them."""

from pathlib import Path
from typing import Any

from twinrun.config.config_files import why_unreadable
from twinrun.config.schema_check import plain
from twinrun.errors import TwinrunError
from twinrun.wording import shown

SECTIONS = ("model", "data", "optimizer", "lr_scheduler", "trainer")
ENDS = (".yaml", ".yml", ".json")  # of a section's own file


def loaded(file: str, *, are_read: bool = True) -> dict[str, Any]:
    """Return what a file says of a training, with the sections that are files of their own.

    Args:
        file: its path.
        are_read: whether those sections are; else what names them stands in their places.

    Raises:
        TwinrunError: if a file holds no mapping, or one that refers to itself.
        Exception: of YAML, of the file system.
    """
    found = _mapping_in(Path(file))
    # A config for all of its subcommands has a section for each.
    is_nested = isinstance(found.get("fit"), dict) and "model" not in found
    named = {k: v for k, v in found.items() if k == "config"}
    given = {**named, **found["fit"]} if is_nested else found
    folder = Path(file).parent
    if not are_read:
        return given
    return {k: _section(k, v, folder) if k in SECTIONS else v for k, v in given.items()}


def files_of(file: str) -> list[Path]:
    """Return a file and those of its own that its sections name; one that is gone names none."""
    try:
        given = loaded(file, are_read=False)
    except Exception:  # of YAML, of the file system
        return [Path(file)]
    named = [_own_file(given.get(key), Path(file).parent) for key in SECTIONS]
    return [Path(file), *filter(None, named)]


def _mapping_in(file: Path) -> dict[str, Any]:
    # As LightningCLI reads it: 1e-3 is a number there, and a text to others.
    from jsonargparse import get_loader

    found = get_loader("yaml")(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TwinrunError(f"holds no mapping, but {shown(found)}")
    try:
        plain(found, [])
    except RecursionError:
        raise TwinrunError("refers to itself (a YAML alias inside its own anchor)") from None
    return found


def _section(key: str, value: object, folder: Path) -> object:
    """Return a section, read from the file of its own that it may name, beside its config."""
    if (file := _own_file(value, folder)) is None:
        return value
    try:
        return _mapping_in(file)
    except Exception as error:  # of YAML, of the file system
        raise TwinrunError(
            f"{key}: {value} is read as {file}, as LightningCLI does: {why_unreadable(error)}"
        ) from error


def _own_file(value: object, folder: Path) -> Path | None:
    """Return the file that a section names, if it is one.

    A class path is a text too: what is a file's name has the end of one, or is there.
    """
    if not isinstance(value, str):
        return None
    file = folder / value
    return file if file.suffix in ENDS or file.is_file() else None

"""The config file that counts without being named."""

from pathlib import Path

import yaml

from twinrun.config.config_files import said_by
from twinrun.config.shipped import SCHEMA

# Where users of Snakemake keep it, beside their code: it counts without being named.
OWN = Path("config/config.yaml")


def own_config(folder: Path = Path()) -> list[Path]:
    """Return the config file of a working directory, if it has one.

    Other programs keep theirs under that name, too: one without any key of ours is no config of
    ours.
    """
    file = folder / OWN
    return [file] if file.is_file() and not is_of_another_program(file) else []


def is_of_another_program(file: Path) -> bool:
    """Say whether a config file has keys, and none that Twinrun knows."""
    try:
        found = said_by(file.read_text(encoding="utf-8"))
    except Exception:  # who reads it as a config says what is wrong
        return False
    if not isinstance(found, dict) or not found:
        return False
    known = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))["properties"]
    return not known.keys() & set(map(str, found))
